// The merge loop. One caller at a time.
#include "text/symbol_merger.h"

namespace refrain::text {

void SymbolMerger::add(SymbolId id, std::uint32_t length, const Merge* merge) {
  const auto index = static_cast<std::int32_t>(symbols_.size());
  if (!symbols_.empty()) {
    symbols_.back().next = index;
    if (merge != nullptr) symbols_.back().with_next = *merge;
  }
  symbols_.push_back({id, length, index - 1, -1, {}});
}

void SymbolMerger::merge() {
  candidates_.reset(symbols_.size());
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const std::uint32_t rank = symbols_[i].with_next.rank;
    if (rank != kNoRank) candidates_.push({rank, static_cast<std::int32_t>(i)});
  }
  while (!candidates_.empty()) {
    const CandidateQueue::Candidate best = candidates_.pop();
    if (at(best.place).with_next.rank == best.rank) join(best.place);
  }
}

//   previous  [left][right]  next   ->   previous  [left      ]  next
void SymbolMerger::join(std::int32_t left) {
  Symbol& kept = at(left);
  Symbol& gone = at(kept.next);
  kept.id = kept.with_next.result;
  kept.length += gone.length;
  kept.next = gone.next;
  gone.with_next = {};
  if (kept.next >= 0) at(kept.next).previous = left;
  look_up(left);
  if (kept.previous >= 0) look_up(kept.previous);
}

void SymbolMerger::look_up(std::int32_t left) {
  Symbol& symbol = at(left);
  const Merge* merge = symbol.next < 0 ? nullptr : table_.find(symbol.id, at(symbol.next).id);
  symbol.with_next = merge == nullptr ? Merge{} : *merge;
  if (symbol.with_next.rank != kNoRank) candidates_.push({symbol.with_next.rank, left});
}

}  // namespace refrain::text
