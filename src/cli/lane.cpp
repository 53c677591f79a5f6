// Batches of chosen rows. Main thread.
#include "cli/lane.h"

#include <algorithm>
#include <numeric>

#include "base/str.h"
#include "model/repair_choice.h"

namespace refrain::cli {

void Lane::append(std::span<const TokenId> tokens) {
  ledger_->append(id_, tokens, 0);
  ledger_->commit(id_);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

Result<std::unique_ptr<Lanes>> Lanes::create(Compute& compute, std::uint32_t step_tokens) {
  ASSIGN_OR_RETURN(auto ledger, kv::Ledger::create({.block_size = compute.block_size,
                                                    .block_count = compute.sizing.block_count,
                                                    .prefix_cache = false}));
  return std::unique_ptr<Lanes>(new Lanes(compute, step_tokens, std::move(ledger)));
}

Result<Lane> Lanes::open(std::uint32_t token_count) {
  const SequenceId id{next_id_++};
  // The plan of a prompt of one token reuses nothing; its content does not matter.
  const kv::ReusePlan plan = ledger_->plan({}, TokenList{TokenId{0}});
  const auto admitted = ledger_->admit(id, plan, std::max(2U, token_count), 0);
  if (token_count > compute_.sizing.max_context || !admitted.ok()) {
    if (admitted.ok()) ledger_->release(id, 0);
    return Error{
        Code::kInvalidArgument,
        str_cat("no room for a prompt of ", token_count, " tokens beside what came before"),
        "raise --kv-budget or --max-context, or use shorter cases"};
  }
  return Lane(*ledger_, id);
}

Result<void> Lanes::run(const Lane& lane, const LaneRows& wanted, LaneOutput& output,
                        std::uint32_t step_tokens) {
  output.logits.clear();
  output.attention.clear();
  const std::size_t most = step_tokens == 0 ? step_tokens_ : step_tokens;
  for (std::size_t at = 0; at < wanted.rows.size(); at += most) {
    LaneRows piece = wanted;
    piece.rows = wanted.rows.subspan(at, std::min(most, wanted.rows.size() - at));
    RETURN_IF_ERROR(run_step(lane, piece, output));
  }
  return {};
}

Result<void> Lanes::run_from(const Lane& lane, Position begin, Position first_logits,
                             LaneOutput& output, std::uint32_t step_tokens) {
  std::vector<Position> rows(lane.tokens().size() - static_cast<std::size_t>(begin));
  std::iota(rows.begin(), rows.end(), begin);
  return run(lane, {.rows = rows, .first_logits = first_logits}, output, step_tokens);
}

Result<void> Lanes::run_step(const Lane& lane, const LaneRows& wanted, LaneOutput& output) {
  const kv::BlockTable& table = lane.table();
  model::Batch batch;
  batch.sequences.push_back(
      {.table = &table, .length = static_cast<std::uint32_t>(wanted.rows.back()) + 1});
  for (const Position row : wanted.rows) {
    batch.rows.push_back({.token = lane.tokens()[static_cast<std::size_t>(row)],
                          .position = row,
                          .sequence = 0,
                          .slot = kv::slot_of(table, row, compute_.block_size),
                          .wants_logits = row >= wanted.first_logits,
                          .wants_mass = row >= wanted.first_mass});
  }
  RETURN_IF_ERROR(compute_.executor->run(batch, batch_output_));
  output.logits.insert(output.logits.end(), batch_output_.logits.begin(),
                       batch_output_.logits.end());
  for (const model::AttentionMass& mass : batch_output_.mass) {
    const std::vector<float> attention = model::attention_per_key(mass);
    if (output.attention.size() < attention.size()) output.attention.resize(attention.size());
    for (std::size_t key = 0; key < attention.size(); ++key)
      output.attention[key] += attention[key];
  }
  return {};
}

}  // namespace refrain::cli
