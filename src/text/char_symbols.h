// CharSymbols: symbol of each character of a vocabulary; a sparse array over the code points.
// Filled once, then immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "text/merge_table.h"

namespace refrain::text {

class CharSymbols {
 public:
  CharSymbols() : page_of_(kCodePointCount / kPageSize, 0), pages_(1) { pages_[0].fill(kNoSymbol); }

  void set(char32_t code_point, SymbolId symbol) {
    std::uint16_t& page = page_of_[code_point / kPageSize];
    if (page == 0) {  // page 0 is the empty one that all share
      page = static_cast<std::uint16_t>(pages_.size());
      pages_.emplace_back().fill(kNoSymbol);
    }
    pages_[page][code_point % kPageSize] = symbol;
  }
  // kNoSymbol if the vocabulary does not use the character.
  SymbolId find(char32_t code_point) const {
    return pages_[page_of_[code_point / kPageSize]][code_point % kPageSize];
  }

 private:
  static constexpr std::size_t kCodePointCount = 0x110000;
  static constexpr std::size_t kPageSize = 256;
  std::vector<std::uint16_t> page_of_;
  std::vector<std::array<SymbolId, kPageSize>> pages_;
};

}  // namespace refrain::text
