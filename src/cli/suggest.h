// "Did you mean": the known word nearest to a mistyped one. Plain functions, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace refrain::cli {

// Smallest number of inserted, removed, replaced or swapped neighbouring characters (optimal string
// alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known` if it is near enough to be meant, else "".
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace refrain::cli
