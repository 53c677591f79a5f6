#include "base/hash.h"

#include <cstring>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace refrain {
namespace {
Hash128 from_xxh(const XXH128_hash_t& hash) { return Hash128{hash.low64, hash.high64}; }
}  // namespace

Hash128 hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return from_xxh(XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
}

Hash128 hash_text(std::string_view text, std::uint64_t seed) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())), seed);
}

Hash128 hash_chain(const Hash128& previous, std::span<const std::byte> bytes) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &previous, sizeof(previous));
  XXH3_128bits_update(&state, bytes.data(), bytes.size());
  return from_xxh(XXH3_128bits_digest(&state));
}

std::string to_hex(const Hash128& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(32);
  for (std::uint64_t part : {hash.high, hash.low})
    for (int shift = 60; shift >= 0; shift -= 4) text.push_back(kDigits[(part >> shift) & 15U]);
  return text;
}

}  // namespace refrain
