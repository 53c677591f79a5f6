// 128-bit content hashes (XXH3-128). Not cryptographic: a hash proposes, a comparison of the
// content decides. Plain functions, any thread; xxhash appears in hash.cpp only.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refrain {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  auto operator<=>(const Hash128&) const = default;
};

// Hash of bytes; `seed` separates domains.
Hash128 hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
Hash128 hash_text(std::string_view text, std::uint64_t seed = 0);
// Hash of `previous` followed by `bytes`: one link of a chain.
Hash128 hash_chain(const Hash128& previous, std::span<const std::byte> bytes);
// 32 lower-case hexadecimal digits.
std::string to_hex(const Hash128& hash);

// For std::unordered_map<Hash128, T, Hash128Hasher>.
struct Hash128Hasher {
  std::size_t operator()(const Hash128& hash) const noexcept {
    return static_cast<std::size_t>(hash.low ^ (hash.high * 0x9E3779B97F4A7C15ULL));
  }
};

}  // namespace refrain
