// HashExecutor: an executor for tests without a model. The "K/V" of a slot is the token, its
// position and a hash of everything the row saw when it was written; logits are a hash of all
// slots visible through the block table. A wrong slot, a stale block, a missing copy or a block
// from behind another prefix changes every later token. Whatever is written wrong in a batch is
// noted in `violation`. Engine thread.
//
//   cell(p) = {token, p, context = mix(cell(p-1).context, token, p)}      logits(p) = hash(cell
//   0..p)
//
// HashModel computes the same logits from a token list alone: what a lone cold run would see.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/str.h"
#include "model/executor.h"

namespace refrain::test {

struct HashCell {
  std::int32_t token = -1;
  std::int32_t position = -1;
  std::uint64_t context = 0;
};

class HashModel {
 public:
  explicit HashModel(std::uint32_t vocabulary_size) : vocabulary_size_(vocabulary_size) {}

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t z = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }
  static HashCell next_cell(const HashCell* previous, TokenId token, Position position) {
    const std::uint64_t before = previous == nullptr ? 1 : previous->context;
    return HashCell{to_int(token), position,
                    mix(mix(before, static_cast<std::uint64_t>(to_int(token))),
                        static_cast<std::uint64_t>(position))};
  }
  static std::uint64_t add_to_view(std::uint64_t view, const HashCell& cell) {
    const std::uint64_t place =
        static_cast<std::uint64_t>(cell.token) << 32U | static_cast<std::uint32_t>(cell.position);
    return mix(mix(view, cell.context), place);
  }

  // Logits in [-4, 4) from a view.
  void fill_logits(std::uint64_t view, std::span<float> logits) const {
    for (std::size_t i = 0; i < logits.size(); ++i)
      logits[i] = static_cast<float>(mix(view, i) >> 40U) * 0x1.0p-21F - 4.0F;
  }
  std::vector<float> logits_after(const TokenList& tokens) const {
    std::uint64_t view = 0;
    HashCell cell;
    for (std::size_t p = 0; p < tokens.size(); ++p) {
      cell = next_cell(p == 0 ? nullptr : &cell, tokens[p], static_cast<Position>(p));
      view = add_to_view(view, cell);
    }
    std::vector<float> logits(vocabulary_size_);
    fill_logits(view, logits);
    return logits;
  }
  std::uint32_t vocabulary_size() const { return vocabulary_size_; }

 private:
  std::uint32_t vocabulary_size_;
};

class HashExecutor final : public model::Executor {
 public:
  HashExecutor(std::uint32_t block_size, std::uint32_t block_count, std::uint32_t vocabulary_size,
               std::uint32_t embedding_dim = 4)
      : block_size_(block_size),
        embedding_dim_(embedding_dim),
        model_(vocabulary_size),
        cells_(static_cast<std::size_t>(block_size) * block_count) {}

  Result<void> run(const model::Batch& batch, model::BatchOutput& output) override {
    ++run_count;
    if (on_run) on_run(batch);
    if (fail_next_run) {
      fail_next_run = false;
      scribble(batch);
      return Error{Code::kInternal, "the back end failed"};
    }
    check(batch);
    output.logits.clear();
    output.hidden.clear();
    for (const model::BatchRow& row : batch.rows) compute(batch, row, output);
    return {};
  }

  void copy_rows(const kv::BlockCopy& copy) override {
    ++copy_count;
    for (std::uint32_t row = 0; row < copy.row_count; ++row)
      cells_[static_cast<std::size_t>(to_int(copy.to)) * block_size_ + row] =
          cells_[static_cast<std::size_t>(to_int(copy.from)) * block_size_ + row];
  }

  std::uint32_t max_batch_rows() const override { return 1U << 20U; }
  std::string numerics() const override { return "hash/1"; }
  std::uint64_t scratch_bytes() const override { return 0; }

  // ---- what a test may set before a run, or read after it
  std::function<void(const model::Batch&)> on_run;  // on the engine thread, before each step
  bool fail_next_run = false;
  TokenId poison{-1};  // a sequence that sees this token gets NaN logits
  // If set: after the prompt of `script_prompt` tokens, these tokens are by far the most likely.
  std::uint32_t script_prompt = 0;
  TokenList script;
  std::string violation;  // first thing wrong with a batch
  std::uint64_t run_count = 0;
  std::uint64_t copy_count = 0;

 private:
  HashCell& cell_at(const kv::BlockTable& table, Position position) {
    return cells_[kv::slot_of(table, position, block_size_)];
  }

  void note(const std::string& what) {
    if (violation.empty()) violation = what;
  }

  // What a failed step leaves behind: undefined rows.
  void scribble(const model::Batch& batch) {
    for (const model::BatchRow& row : batch.rows) cells_[row.slot] = HashCell{-7, -7, 7};
  }

  void check(const model::Batch& batch) {
    std::set<kv::Slot> slots;
    std::vector<Position> last(batch.sequences.size(), -1);
    std::uint32_t current = 0;
    for (const model::BatchRow& row : batch.rows) {
      const model::BatchSequence& sequence = batch.sequences.at(row.sequence);
      if (row.sequence < current) note("rows of one sequence are not adjacent");
      current = row.sequence;
      if (last[row.sequence] >= 0 && row.position != last[row.sequence] + 1)
        note("positions of a sequence do not ascend by one");
      last[row.sequence] = row.position;
      if (row.slot != kv::slot_of(*sequence.table, row.position, block_size_))
        note("a row's slot is not that of its block table");
      if (!slots.insert(row.slot).second) note("two rows write one slot");
    }
    for (std::size_t s = 0; s < batch.sequences.size(); ++s)
      if (last[s] + 1 != static_cast<Position>(batch.sequences[s].length))
        note("rows do not end at the sequence's length");
  }

  void compute(const model::Batch& batch, const model::BatchRow& row, model::BatchOutput& output) {
    const kv::BlockTable& table = *batch.sequences[row.sequence].table;
    const HashCell* previous = row.position == 0 ? nullptr : &cell_at(table, row.position - 1);
    cells_[row.slot] = HashModel::next_cell(previous, row.token, row.position);
    if (!row.wants_logits && !row.wants_hidden) return;
    std::uint64_t view = 0;
    bool poisoned = false;
    for (Position p = 0; p <= row.position; ++p) {
      const HashCell& cell = cell_at(table, p);
      if (cell.position != p) note(str_cat("position ", p, " holds the K/V of ", cell.position));
      poisoned |= cell.token == to_int(poison);
      view = HashModel::add_to_view(view, cell);
    }
    if (row.wants_logits) add_logits(row, view, poisoned, output);
    for (std::uint32_t i = 0; row.wants_hidden && i < embedding_dim_; ++i)
      output.hidden.push_back(static_cast<float>(HashModel::mix(view, i) >> 40U) * 0x1.0p-23F -
                              1.0F);
  }

  void add_logits(const model::BatchRow& row, std::uint64_t view, bool poisoned,
                  model::BatchOutput& output) {
    const std::size_t begin = output.logits.size();
    output.logits.resize(begin + model_.vocabulary_size());
    const std::span<float> logits = std::span(output.logits).subspan(begin);
    model_.fill_logits(view, logits);
    const std::size_t step = static_cast<std::size_t>(row.position) + 1 - script_prompt;
    if (!script.empty() && static_cast<std::uint32_t>(row.position) + 1 >= script_prompt &&
        step < script.size())
      logits[static_cast<std::size_t>(to_int(script[step]))] = 100.0F;
    if (poisoned) logits[logits.size() / 2] = std::numeric_limits<float>::quiet_NaN();
  }

  const std::uint32_t block_size_;
  const std::uint32_t embedding_dim_;
  HashModel model_;
  std::vector<HashCell> cells_;
};

}  // namespace refrain::test
