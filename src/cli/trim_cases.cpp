// See trim_cases.h.
#include "cli/trim_cases.h"

#include <algorithm>

#include "base/rng.h"
#include "base/str.h"
#include "cli/invented_text.h"

namespace refrain::cli {
namespace {

bool has_key(const std::vector<TrimPair>& pairs, const std::string& key) {
  return std::any_of(pairs.begin(), pairs.end(),
                     [&](const TrimPair& pair) { return pair.key == key; });
}

TrimCase make_case(Rng& rng, std::size_t pairs, std::size_t filler) {
  TrimCase made;
  made.context = "Here is a list of names with their numbers.\n\n";
  while (made.pairs.size() < pairs) {
    const std::string key = invented_name(rng);
    if (has_key(made.pairs, key)) continue;
    made.pairs.push_back({key, number(rng, 1000, 10000)});
    made.context += str_cat("The number of ", key, " is ", made.pairs.back().value, ".");
    const std::string place = str_cat("the ", invented_place(rng));
    for (std::size_t i = 0; i < filler; ++i)
      made.context += " " + invented_sentence(rng, place, rng.below(12));
    made.context += "\n";
  }
  return made;
}

}  // namespace

std::vector<TrimCase> generate_trim_cases(std::uint64_t seed, std::size_t count, std::size_t pairs,
                                          std::size_t filler) {
  std::vector<TrimCase> cases;
  for (std::size_t i = 0; i < count; ++i) {
    Rng rng(seed * 1'000'003 + i);
    cases.push_back(make_case(rng, pairs, filler));
  }
  return cases;
}

}  // namespace refrain::cli
