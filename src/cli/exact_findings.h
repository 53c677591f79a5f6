// What a trial of `refrain eval exact` found: rows whose bits differ, other faults, and what the
// trial covered. Written by whoever runs the trial's batches (one thread at a time), read after.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/ids.h"
#include "kv/ledger.h"

namespace refrain::cli {

// Where a row was computed.
struct RowPlace {
  std::size_t turn = 0;
  Position position = 0;
  std::size_t step = 0;       // batches of the trial before this one
  std::size_t row = 0;        // in its batch
  std::size_t row_count = 0;  // of its batch
};

// The first row that differs, and its first value that does.
struct Mismatch {
  RowPlace place;
  std::string setting;  // threads, block size, ...
  std::size_t token = 0;
  float expected = 0.0F;
  float actual = 0.0F;
  std::size_t differing_values = 0;
};

struct Coverage {
  std::uint64_t rows_compared = 0;
  std::uint64_t prompt_tokens = 0;  // of admitted turns
  std::uint64_t cached_tokens = 0;  // of those, reused
  std::uint64_t reply_rows = 0;     // of those, written while generating
  std::uint64_t copied_blocks = 0;  // copy on write after a partial hit
  std::uint64_t evicted_blocks = 0;
  std::uint64_t rejected_rows = 0;  // computed, then rolled back
  std::uint64_t restarts = 0;       // fresh executor, arena and ledger
  std::uint64_t engine_trials = 0;

  void add(const kv::LedgerTotals& totals);
  void add(const Coverage& other);
};

class Findings {
 public:
  // memcmp of two rows of logits, [vocabulary_size].
  void compare(std::span<const float> expected, std::span<const float> actual,
               const RowPlace& place);
  // Something else that must not be; the first one is kept.
  void fault(std::string what);

  bool clean() const { return rows_different_ == 0 && fault_.empty(); }
  std::uint64_t rows_different() const { return rows_different_; }
  const std::optional<Mismatch>& first() const { return first_; }
  const std::string& fault() const { return fault_; }

  Coverage coverage;
  std::string setting;  // of what is running now; copied into a mismatch

 private:
  std::uint64_t rows_different_ = 0;
  std::optional<Mismatch> first_;
  std::string fault_;
};

// "turn 2, position 33 (row 4 of 9 in step 7; ...): token 5 is 0.25 (3e800000) instead of ..."
std::string describe(const Mismatch& mismatch);
// The bits of a float, 8 hexadecimal digits.
std::string float_bits(float value);

}  // namespace refrain::cli
