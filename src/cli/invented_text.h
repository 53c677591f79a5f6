// Invented names, numbers and sentences for generated cases: no place, person or fact of the world.
// Pure functions of the generator; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/rng.h"

namespace refrain::cli {

template <std::size_t Count>
std::string pick(Rng& rng, const std::array<std::string_view, Count>& words) {
  return std::string(words[rng.below(Count)]);
}

std::string invented_name(Rng& rng);    // "Beladale"
std::string invented_person(Rng& rng);  // "Clara Noranford"
std::string invented_place(Rng& rng);   // "Beladale lighthouse"
// In [low, high).
std::string number(Rng& rng, std::uint64_t low, std::uint64_t high);
// About 23 tokens about `place` ("the Beladale mill"), of one of 12 patterns.
std::string invented_sentence(Rng& rng, const std::string& place, std::size_t pattern);

}  // namespace refrain::cli
