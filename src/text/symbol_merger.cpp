// The merge loop. One caller at a time.
#include "text/symbol_merger.h"

#include <algorithm>
#include <functional>

namespace refrain::text {
namespace {

std::uint64_t candidate(std::uint32_t rank, std::int32_t left) {
  return (static_cast<std::uint64_t>(rank) << 32U) | static_cast<std::uint32_t>(left);
}

}  // namespace

void SymbolMerger::add(SymbolId id, std::uint32_t length, const Merge* merge) {
  const auto index = static_cast<std::int32_t>(symbols_.size());
  if (!symbols_.empty()) {
    symbols_.back().next = index;
    if (merge != nullptr) symbols_.back().with_next = *merge;
  }
  symbols_.push_back({id, length, index - 1, -1, {}});
}

void SymbolMerger::merge() {
  heap_.clear();
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const std::uint32_t rank = symbols_[i].with_next.rank;
    if (rank != kNoRank) heap_.push_back(candidate(rank, static_cast<std::int32_t>(i)));
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>{});
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
    const std::uint64_t best = heap_.back();
    heap_.pop_back();
    const auto left = static_cast<std::int32_t>(best & 0xFFFFFFFFU);
    if (at(left).with_next.rank == best >> 32U) join(left);
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
  if (symbol.with_next.rank == kNoRank) return;
  heap_.push_back(candidate(symbol.with_next.rank, left));
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
}

}  // namespace refrain::text
