// SymbolMerger: the merge loop that both kinds of tokenizers share: of all neighbouring symbols
// the pair with the lowest rank merges first, of equal ranks the leftmost (Sennrich et al. 2016;
// as a queue over a linked list: O(n log n) for any input, no recursion). A workspace, reused from
// word to word; one caller at a time.
//
//   merger.clear();  merger.add(h, 1);  merger.add(e, 1);  merger.merge();
//   for (const auto& symbol : merger) ...
#pragma once

#include <cstdint>
#include <vector>

#include "text/candidate_queue.h"
#include "text/merge_table.h"

namespace refrain::text {

class SymbolMerger {
 public:
  struct Symbol {
    SymbolId id = kNoSymbol;
    std::uint32_t length = 0;  // bytes of text
    std::int32_t previous = -1;
    std::int32_t next = -1;
    Merge with_next;  // rank kNoRank: none, or this symbol is merged away
  };
  // Symbols held at once; callers cut longer runs here, which bounds the memory.
  static constexpr std::size_t kSymbolsMax = std::size_t{1} << 28U;

  // `table` must outlive the merger.
  explicit SymbolMerger(const MergeTable& table) : table_(table), candidates_(table.rank_count()) {}

  void clear() { symbols_.clear(); }
  bool empty() const { return symbols_.empty(); }
  bool full() const { return symbols_.size() >= kSymbolsMax; }
  SymbolId last_id() const { return symbols_.back().id; }
  // `merge`: what table.find(last_id(), id) said, for callers that have asked already.
  void add(SymbolId id, std::uint32_t length, const Merge* merge);
  void add(SymbolId id, std::uint32_t length) {
    add(id, length, empty() ? nullptr : table_.find(last_id(), id));
  }
  void merge();

  // Calls visit(id, length) for each remaining symbol from left to right.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::int32_t i = empty() ? -1 : 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next)
      visit(symbols_[static_cast<std::size_t>(i)].id, symbols_[static_cast<std::size_t>(i)].length);
  }

 private:
  Symbol& at(std::int32_t index) { return symbols_[static_cast<std::size_t>(index)]; }
  void join(std::int32_t left);
  void look_up(std::int32_t left);

  const MergeTable& table_;
  std::vector<Symbol> symbols_;
  // A candidate is out of date when the symbol's pair has another rank by now; it is skipped then.
  CandidateQueue candidates_;
};

}  // namespace refrain::text
