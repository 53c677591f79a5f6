// RowErrors: how far rows of logits are from the rows they should be. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace refrain::cli {

struct RowErrors {
  std::vector<double> kl;         // of each row: D(softmax(expected) || softmax(actual)), nats
  std::size_t agreeing = 0;       // rows with the same likeliest token
  std::size_t common_prefix = 0;  // rows before the first that does not agree
  bool same_bits = true;          // all values are equal
  // Of each row, in logits: by how much the likeliest token leads the next, and how much more that
  // is than what these two have between them in the expected row.
  std::vector<double> margin = {};
  std::vector<double> margin_shift = {};
};

// Index of the largest; of equal ones the first.
std::size_t likeliest(std::span<const float> logits);

// Both [rows][width].
RowErrors compare_rows(std::span<const float> expected, std::span<const float> actual,
                       std::size_t width);

}  // namespace refrain::cli
