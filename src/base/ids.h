// Strong ids: distinct integer types for distinct things, so that a block is never passed for a
// token. Trivially copyable; arrays of them may be hashed as bytes. Plain values, any thread.
// Example:  TokenId t{42};  int32_t raw = to_int(t);
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

namespace refrain {

enum class TokenId : std::int32_t {};     // index into the vocabulary; < 0 never occurs in a list
enum class BlockId : std::uint32_t {};    // index of a KV block in the arena
enum class SequenceId : std::uint64_t {}; // one running choice of one request, unique per process
enum class RequestId : std::uint64_t {};  // unique per process
using Position = std::int32_t;            // token position within a sequence, from 0

using TokenList = std::vector<TokenId>;

template <typename Id>
  requires std::is_enum_v<Id>
constexpr std::underlying_type_t<Id> to_int(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

}  // namespace refrain
