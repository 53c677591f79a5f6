// Cases of `refrain eval trim`: a table of invented names and numbers, and questions that ask for
// single ones. With filler, sentences about other things stand between the rows. Plain values; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace refrain::cli {

struct TrimPair {
  std::string key, value;

  std::string question() const { return "What is the number of " + key + "?"; }
  std::string answer_lead() const { return "The number of " + key + " is"; }
};

struct TrimCase {
  std::string context;
  std::vector<TrimPair> pairs;  // in the order of the context; no key occurs twice
};

// `filler`: sentences behind each row.
std::vector<TrimCase> generate_trim_cases(std::uint64_t seed, std::size_t count, std::size_t pairs,
                                          std::size_t filler);

}  // namespace refrain::cli
