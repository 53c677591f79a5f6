// Filling of the merge table. Load time only.
#include "text/merge_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace refrain::text {

MergeTable::MergeTable(std::size_t count) {
  resize(count);
}

void MergeTable::resize(std::size_t count) {
  const std::vector<Entry> old = std::exchange(entries_, {});
  entries_.resize(std::bit_ceil(count + count / 3 + 2));
  mask_ = entries_.size() - 1;
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(entries_.size()));
  for (const Entry& entry : old)
    if (entry.key != kFree) entry_of(entry.key) = entry;
}

MergeTable::Entry& MergeTable::entry_of(std::uint64_t key) {
  std::size_t place = place_of(key);
  while (entries_[place].key != kFree && entries_[place].key != key) place = (place + 1) & mask_;
  return entries_[place];
}

void MergeTable::add(SymbolId left, SymbolId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  CHECK(key != kFree, "kNoSymbol merges with nothing");
  if (merge.rank != kNoRank) rank_count_ = std::max<std::size_t>(rank_count_, merge.rank + 1U);
  Entry& entry = entry_of(key);
  if (entry.key != kFree) {
    if (entry.merge.rank == kNoRank) entry.merge = merge;
    return;
  }
  entry = {key, merge};
  if (++size_ > entries_.size() / 4 * 3) resize(2 * size_);
}

}  // namespace refrain::text
