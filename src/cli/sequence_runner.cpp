// Batches of one sequence. Main thread.
#include "cli/sequence_runner.h"

#include <algorithm>

#include "base/str.h"

namespace refrain::cli {

SequenceRunner::SequenceRunner(Compute& compute, std::uint32_t step_tokens,
                               std::unique_ptr<kv::Ledger> ledger)
    : compute_(compute), step_tokens_(step_tokens), ledger_(std::move(ledger)) {}

SequenceRunner::~SequenceRunner() {
  if (running_) ledger_->release(sequence_, 0);
}

Result<std::unique_ptr<SequenceRunner>> SequenceRunner::create(Compute& compute,
                                                               std::uint32_t step_tokens) {
  // Nothing is reused, so that what is measured is computed.
  ASSIGN_OR_RETURN(auto ledger, kv::Ledger::create({.block_size = compute.block_size,
                                                    .block_count = compute.sizing.block_count,
                                                    .prefix_cache = false}));
  return std::unique_ptr<SequenceRunner>(
      new SequenceRunner(compute, step_tokens, std::move(ledger)));
}

Result<void> SequenceRunner::begin(std::uint32_t token_count) {
  if (running_) ledger_->release(sequence_, 0);
  running_ = false;
  if (token_count > compute_.sizing.max_context) {
    return Error{Code::kInvalidArgument,
                 str_cat(token_count, " tokens are more than the longest context of ",
                         compute_.sizing.max_context),
                 too_long_hint(compute_.sizing, "ask for fewer tokens")};
  }
  sequence_ = SequenceId{to_int(sequence_) + 1};
  // The plan of a prompt of one token reuses nothing; its content does not matter.
  const kv::ReusePlan plan = ledger_->plan({}, TokenList{TokenId{0}});
  ASSIGN_OR_RETURN(const kv::Admission admission,
                   ledger_->admit(sequence_, plan, std::max(2U, token_count), 0));
  CHECK(admission.cached_tokens == 0, "a ledger without cache reused something");
  running_ = true;
  return {};
}

Result<void> SequenceRunner::feed(std::span<const TokenId> tokens, const OnLogits& on_logits) {
  CHECK(running_, "feed() before begin()");
  while (!tokens.empty()) {
    const std::size_t count = std::min<std::size_t>(tokens.size(), step_tokens_);
    RETURN_IF_ERROR(step(tokens.first(count), on_logits));
    tokens = tokens.subspan(count);
  }
  return {};
}

Result<void> SequenceRunner::step(std::span<const TokenId> tokens, const OnLogits& on_logits) {
  const std::uint32_t begin = ledger_->length(sequence_);
  ledger_->append(sequence_, tokens, 0);
  const kv::BlockTable& table = ledger_->table(sequence_);
  model::Batch batch;
  batch.sequences.push_back(
      {.table = &table, .length = ledger_->length(sequence_), .open_tile = &open_tile_});
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto position = static_cast<Position>(begin + i);
    batch.rows.push_back({.token = tokens[i],
                          .position = position,
                          .sequence = 0,
                          .slot = kv::slot_of(table, position, compute_.block_size),
                          .wants_logits = on_logits || i + 1 == tokens.size()});
  }
  RETURN_IF_ERROR(compute_.executor->run(batch, output_));
  ledger_->commit(sequence_);
  if (!on_logits) return {};
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    on_logits(static_cast<Position>(begin + i),
              std::span(output_.logits).subspan(i * width, width));
  }
  return {};
}

std::span<const float> SequenceRunner::last_logits() const {
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  CHECK(output_.logits.size() >= width, "no logits yet");
  return std::span(output_.logits).last(width);
}

}  // namespace refrain::cli
