// Watching an executor. The thread that runs the batches.
#include "cli/exact_witness.h"

#include <algorithm>

#include "base/str.h"

namespace refrain::cli {
namespace {

// The tokens of a sequence and the hash of each of their beginnings.
struct History {
  TokenList tokens;
  std::vector<Hash128> prefixes;  // [i] of the first i + 1 tokens

  void push(TokenId token) {
    prefixes.push_back(extend_prefix(prefixes.empty() ? Hash128{} : prefixes.back(), token));
    tokens.push_back(token);
  }
};

}  // namespace

ExactWitness::ExactWitness(std::unique_ptr<model::Executor> inner, const model::KvArena& arena,
                           const ReferenceBook& book, Findings& findings)
    : inner_(std::move(inner)),
      block_size_(arena.block_size()),
      book_(book),
      findings_(findings),
      slots_(std::size_t{arena.block_size()} * arena.block_count()) {}

Result<void> ExactWitness::run(const model::Batch& batch, model::BatchOutput& output) {
  note_writes(batch);
  RETURN_IF_ERROR(inner_->run(batch, output));
  compare_rows(batch, output);
  ++steps_;
  return {};
}

void ExactWitness::copy_rows(const kv::BlockCopy& copy) {
  inner_->copy_rows(copy);
  const auto at = [&](BlockId block) {
    return slots_.begin() + static_cast<std::ptrdiff_t>(to_int(block)) * block_size_;
  };
  std::copy_n(at(copy.from), copy.row_count, at(copy.to));
}

void ExactWitness::note_writes(const model::Batch& batch) {
  for (const model::BatchRow& row : batch.rows) slots_[row.slot] = {row.token, false};
}

void ExactWitness::compare_rows(const model::Batch& batch, const model::BatchOutput& output) {
  std::vector<History> histories(batch.sequences.size());
  std::vector<std::uint32_t> row_counts(batch.sequences.size());
  for (std::size_t i = 0; i < histories.size(); ++i) {
    const model::BatchSequence& sequence = batch.sequences[i];
    for (std::uint32_t at = 0; at < sequence.length; ++at)
      histories[i].push(
          slots_[kv::slot_of(*sequence.table, static_cast<Position>(at), block_size_)].token);
  }
  for (const model::BatchRow& row : batch.rows) ++row_counts[row.sequence];
  const std::size_t wanting = static_cast<std::size_t>(
      std::count_if(batch.rows.begin(), batch.rows.end(),
                    [](const model::BatchRow& row) { return row.wants_logits; }));
  const std::size_t width = wanting == 0 ? 0 : output.logits.size() / wanting;
  std::size_t next = 0;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const model::BatchRow& row = batch.rows[i];
    const History& history = histories[row.sequence];
    const auto position = static_cast<std::size_t>(row.position);
    const ReferenceBook::Row* known =
        book_.find(history.prefixes[position], std::span(history.tokens).first(position + 1));
    if (known != nullptr && known->in_reply && row_counts[row.sequence] == 1)
      slots_[row.slot].generated = true;
    if (!row.wants_logits) continue;
    const auto logits = std::span(output.logits).subspan(next++ * width, width);
    if (known == nullptr) {
      findings_.fault(str_cat("row ", i, " of step ", steps_, " at position ", row.position,
                              " reads blocks that hold no history of this trial"));
      continue;
    }
    findings_.compare(known->logits, logits,
                      {.turn = known->turn,
                       .position = row.position,
                       .step = steps_,
                       .row = i,
                       .row_count = batch.rows.size()});
  }
}

}  // namespace refrain::cli
