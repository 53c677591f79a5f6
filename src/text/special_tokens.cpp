// Construction of the trie, breadth first over the sorted texts, and the walks. Any thread.
#include "text/special_tokens.h"

#include <algorithm>

namespace refrain::text {

TokenTrie::TokenTrie(std::vector<std::pair<std::string, TokenId>> tokens) {
  std::vector<Entry> sorted;
  for (const auto& [text, id] : tokens)
    if (!text.empty()) sorted.push_back({text, id});
  std::sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.text, a.id) < std::pair(b.text, b.id);
  });
  build(sorted);
}

void TokenTrie::build(const std::vector<Entry>& sorted) {
  // A node stands for the texts [begin, end) of `sorted`, which agree in their first `depth` bytes.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, sorted.size(), 0}};
  nodes_.emplace_back();
  for (std::size_t n = 0; n < ranges.size(); ++n) {
    auto [begin, end, depth] = ranges[n];
    if (begin < end && sorted[begin].text.size() == depth)
      nodes_[n].token = to_int(sorted[begin].id);
    while (begin < end && sorted[begin].text.size() == depth) ++begin;
    nodes_[n].edge_begin = static_cast<std::uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = sorted[begin].text[depth];
      std::size_t same = begin;
      while (same < end && sorted[same].text[depth] == byte) ++same;
      edges_.push_back({static_cast<unsigned char>(byte), static_cast<Node>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({begin, same, depth + 1});
      begin = same;
    }
    nodes_[n].edge_count = static_cast<std::uint32_t>(edges_.size()) - nodes_[n].edge_begin;
  }
  first_.fill(kNone);
  for (std::uint32_t e = 0; e < nodes_[kRoot].edge_count; ++e)
    first_[edges_[e].byte] = edges_[e].target;
}

TokenTrie::Node TokenTrie::child(Node node, char byte) const {
  const auto wanted = static_cast<unsigned char>(byte);
  if (node == kRoot) return first_[wanted];
  const NodeData& data = nodes_[static_cast<std::size_t>(node)];
  const auto begin = edges_.begin() + data.edge_begin;
  const auto end = begin + data.edge_count;
  const auto edge = std::lower_bound(begin, end, wanted,
                                     [](const Edge& e, unsigned char b) { return e.byte < b; });
  return edge != end && edge->byte == wanted ? edge->target : kNone;
}

std::optional<TokenId> TokenTrie::token(Node node) const {
  const std::int32_t id = nodes_[static_cast<std::size_t>(node)].token;
  return id < 0 ? std::nullopt : std::optional(TokenId{id});
}

std::optional<TokenTrie::Match> TokenTrie::match_at(std::string_view text, std::size_t at) const {
  std::optional<Match> longest;
  Node node = kRoot;
  for (std::size_t i = at; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == kNone) break;
    if (const auto id = token(node)) longest = Match{at, i + 1 - at, *id};
  }
  return longest;
}

std::optional<TokenTrie::Match> TokenTrie::find(std::string_view text, std::size_t from) const {
  if (empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (first_[static_cast<unsigned char>(text[at])] == kNone) continue;
    if (const auto match = match_at(text, at)) return match;
  }
  return std::nullopt;
}

}  // namespace refrain::text
