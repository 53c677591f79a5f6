// Where the tokens of a sequence lie. A block is a fixed run of `block_size` token slots; a block
// table lists the blocks of one sequence in position order. Pure numbers, no tensors.
//
//   block_size 16, table [7, 3, 9]:  position 0..15 -> block 7, 16..31 -> block 3, 32.. -> block 9
//   slot of position p = table[p / block_size] * block_size + p % block_size
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace refrain::kv {

using Slot = std::uint64_t;  // index of a token slot in the whole arena

using BlockTable = std::vector<BlockId>;

inline Slot slot_of(const BlockTable& table, Position position, std::uint32_t block_size) {
  const auto p = static_cast<std::uint32_t>(position);
  return static_cast<Slot>(to_int(table[p / block_size])) * block_size + p % block_size;
}

}  // namespace refrain::kv
