// Filling of the merge table. Load time only.
#include "text/merge_table.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace refrain::text {

MergeTable::MergeTable(std::size_t count_max)
    : entries_(std::bit_ceil(count_max + count_max / 3 + 2)),
      mask_(entries_.size() - 1),
      shift_(64U - static_cast<unsigned>(std::countr_zero(entries_.size()))) {}

void MergeTable::add(SymbolId left, SymbolId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  CHECK(key != kFree, "kNoSymbol merges with nothing");
  if (merge.rank != kNoRank) rank_count_ = std::max<std::size_t>(rank_count_, merge.rank + 1U);
  std::size_t place = place_of(key);
  while (entries_[place].key != kFree && entries_[place].key != key) place = (place + 1) & mask_;
  Entry& entry = entries_[place];
  if (entry.key == kFree) {
    CHECK(size_ + 1 < entries_.size(), "more merges than room was made for");
    ++size_;
    entry = {key, merge};
  } else if (entry.merge.rank == kNoRank) {
    entry.merge = merge;
  }
}

}  // namespace refrain::text
