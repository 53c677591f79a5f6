// MergeTable: which two neighbouring symbols merge into which one, and how early. A hash table
// with open addressing, filled once. Immutable afterwards; any thread.
//
// Symbols are numbers: token ids, and above them ids for characters that are no token but occur
// in some. A lower rank merges first.
#pragma once

#include <cstdint>
#include <vector>

namespace refrain::text {

using SymbolId = std::uint32_t;
constexpr SymbolId kNoSymbol = 0xFFFFFFFFU;  // text without any symbol: merges with nothing
constexpr std::uint32_t kNoRank = 0xFFFFFFFFU;

struct Merge {
  std::uint32_t rank = kNoRank;  // kNoRank: the two may stand side by side in a token, no more
  SymbolId result = kNoSymbol;
};

class MergeTable {
 public:
  // Room for `count` pairs; grows when there are more.
  explicit MergeTable(std::size_t count);

  // Keeps what was added first; a merge takes the place of an entry without rank.
  void add(SymbolId left, SymbolId right, Merge merge);
  // nullptr if the pair is unknown.
  const Merge* find(SymbolId left, SymbolId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t place = place_of(key);; place = (place + 1) & mask_) {
      const Entry& entry = entries_[place];
      if (entry.key == key) return &entry.merge;
      if (entry.key == kFree) return nullptr;
    }
  }
  std::size_t size() const { return size_; }
  std::size_t rank_count() const { return rank_count_; }  // all ranks are below

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Entry {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static std::uint64_t key_of(SymbolId left, SymbolId right) {
    return (static_cast<std::uint64_t>(left) << 32U) | right;
  }
  std::size_t place_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift_);
  }

  Entry& entry_of(std::uint64_t key);  // its own, or the free one it gets
  void resize(std::size_t count);

  std::vector<Entry> entries_;  // a power of two, at most three quarters full
  std::size_t mask_ = 0;
  unsigned shift_ = 0;
  std::size_t size_ = 0;
  std::size_t rank_count_ = 0;
};

}  // namespace refrain::text
