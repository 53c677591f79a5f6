// Construction of the merges of a SentencePiece vocabulary. Load time only.
#include "text/spm_merges.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace refrain::text {
namespace {

SymbolId symbol_of(TokenId id) {
  return static_cast<SymbolId>(to_int(id));
}

class Builder {
 public:
  Builder(const TokenTable& table, SpmMerges& out) : table_(table), out_(out) {}

  void build() {
    collect_scores();
    collect_chars();
    for (const TokenId id : mergeable_) add_token(id);
  }

 private:
  bool merges(TokenId id) const {
    const TokenType type = table_.type(id);
    return type == TokenType::kNormal || type == TokenType::kUnused;
  }

  void collect_scores() {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      const TokenId id{static_cast<std::int32_t>(i)};
      // Of equal tokens only the first counts.
      if (!merges(id) || table_.find(table_.written(id)) != id) continue;
      mergeable_.push_back(id);
      scores_.push_back(score(id));
    }
    std::sort(scores_.begin(), scores_.end(), std::greater<>{});
    scores_.erase(std::unique(scores_.begin(), scores_.end()), scores_.end());
  }

  float score(TokenId id) const {
    return table_.vocabulary().scores[static_cast<std::size_t>(to_int(id))];
  }
  // Highest score first.
  std::uint32_t rank(TokenId id) const {
    const auto place =
        std::lower_bound(scores_.begin(), scores_.end(), score(id), std::greater<>{});
    return static_cast<std::uint32_t>(place - scores_.begin());
  }

  void collect_chars() {
    auto next = static_cast<SymbolId>(table_.size());
    for (const TokenId id : mergeable_) {
      const std::string_view text = table_.written(id);
      const CodePoint first = code_point_at(text, 0);
      if (first.well_formed && first.length == text.size())
        out_.chars.set(first.value, symbol_of(id));
    }
    for (const TokenId id : mergeable_) {
      const std::string_view text = table_.written(id);
      CodePoint c;
      for (std::size_t at = 0; at < text.size(); at += c.length) {
        c = code_point_at(text, at);
        if (c.well_formed && out_.chars.find(c.value) == kNoSymbol) out_.chars.set(c.value, next++);
      }
    }
  }

  SymbolId find(std::string_view text) const {
    const CodePoint first = code_point_at(text, 0);
    if (first.length == text.size())
      return first.well_formed ? out_.chars.find(first.value) : kNoSymbol;
    const auto id = table_.find(text);
    return id && merges(*id) ? symbol_of(*id) : kNoSymbol;
  }

  void add_token(TokenId id) {
    const std::string_view text = table_.written(id);
    const std::uint32_t token_rank = rank(id);
    std::uint32_t best_halves = kNoRank;
    SymbolId previous = kNoSymbol;
    for (std::size_t cut = 0; cut < text.size();) {
      const CodePoint c = code_point_at(text, cut);
      if (!c.well_formed) return;  // can never match: ill-formed bytes have no symbol
      const SymbolId here = out_.chars.find(c.value);
      if (cut > 0) {
        out_.table.add(previous, here, {});
        const SymbolId left = find(text.substr(0, cut));
        const SymbolId right = left == kNoSymbol ? kNoSymbol : find(text.substr(cut));
        if (right != kNoSymbol) {
          out_.table.add(left, right, {token_rank, symbol_of(id)});
          if (table_.type(id) == TokenType::kUnused) note_halves(id, left, right, best_halves);
        }
      }
      previous = here;
      cut += c.length;
    }
  }

  // Keeps the cut that merging would have come from: the one whose later half is made earliest.
  void note_halves(TokenId id, SymbolId left, SymbolId right, std::uint32_t& best) {
    const auto made_at = [&](SymbolId s) {
      return s < table_.size() ? rank(TokenId{static_cast<std::int32_t>(s)}) : 0;
    };
    const std::uint32_t later = std::max(made_at(left), made_at(right));
    if (later >= best) return;
    best = later;
    out_.unused_halves[symbol_of(id)] = {left, right};
  }

  const TokenTable& table_;
  SpmMerges& out_;
  std::vector<TokenId> mergeable_;
  std::vector<float> scores_;  // distinct, highest first
};

}  // namespace

SpmMerges::SpmMerges(const TokenTable& tokens) : table(tokens.size()) {
  Builder(tokens, *this).build();
}

}  // namespace refrain::text
