// Batches of chosen rows. Main thread.
#include "cli/lane.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/str.h"
#include "model/repair_choice.h"

namespace refrain::cli {
namespace {

// Cold lanes are alone in theirs, and never kept.
const kv::CacheSpace kCold = hash_text("cold"), kStored = hash_text("stored");

}  // namespace

Lane::~Lane() {
  if (ledger_ == nullptr) return;
  if (kept_) {
    ledger_->commit(id_);
  } else {
    ledger_->rollback(id_);
  }
  ledger_->release(id_, 0);
}

void Lane::append(std::span<const TokenId> tokens) {
  ledger_->append(id_, tokens, 0);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void Lane::overwrite(Position at, TokenId token) {
  CHECK(!kept_ && static_cast<std::uint32_t>(at) < length(), "no row that may be overwritten");
  tokens_[static_cast<std::size_t>(at)] = token;
}

Result<std::unique_ptr<Lanes>> Lanes::create(Compute& compute, std::uint32_t step_tokens) {
  ASSIGN_OR_RETURN(auto ledger, kv::Ledger::create({.block_size = compute.block_size,
                                                    .block_count = compute.sizing.block_count,
                                                    .reuse_step_tokens = kernels::reuse_step_tokens(
                                                        compute.arena->layout())}));
  return std::unique_ptr<Lanes>(new Lanes(compute, step_tokens, std::move(ledger)));
}

Result<Lane> Lanes::open(const TokenList& prompt, std::uint32_t more, LaneReuse reuse) {
  const SequenceId id{next_id_++};
  const auto wanted = static_cast<std::uint32_t>(prompt.size()) + more;
  const kv::ReuseScope scope =
      reuse == LaneReuse::kSegments ? kv::ReuseScope::kSegments : kv::ReuseScope::kExact;
  const kv::ReusePlan plan =
      ledger_->plan(reuse == LaneReuse::kNothing ? kCold : kStored, prompt, scope);
  if (wanted <= compute_.sizing.max_context && ledger_->can_admit(plan, wanted)) {
    ASSIGN_OR_RETURN(kv::Admission admission, ledger_->admit(id, plan, wanted, 0));
    for (const kv::BlockCopy& copy : admission.copies) compute_.executor->copy_rows(copy);
    ledger_->append(id, std::span(prompt).subspan(admission.cached_tokens), 0);
    return Lane(*ledger_, id, prompt, std::move(admission));
  }
  if (wanted > compute_.sizing.max_context)
    return Error{Code::kInvalidArgument,
                 str_cat("a prompt of ", wanted, " tokens, answer included, is longer than the ",
                         compute_.sizing.max_context, " served"),
                 too_long_hint(compute_.sizing, "use shorter cases")};
  return Error{Code::kInvalidArgument,
               str_cat("no room for a prompt of ", wanted, " tokens beside what came before"),
               "use shorter cases, or raise --kv-budget"};
}

Result<std::size_t> Lanes::step(const Lane& lane, const LaneRows& wanted,
                                model::BatchOutput& output, std::uint32_t step_tokens) {
  const std::size_t most = step_tokens == 0 ? step_tokens_ : step_tokens;
  const auto rows = wanted.rows.first(std::min(most, wanted.rows.size()));
  const kv::BlockTable& table = lane.table();
  model::Batch batch;
  batch.first_mass_layer = model::first_looking_layer(compute_.loaded.model->shape().layer_count);
  batch.sequences.push_back(
      {.table = &table,
       .length = static_cast<std::uint32_t>(rows.back()) + 1,
       .open_tile = wanted.open_tile != nullptr ? wanted.open_tile : &lane.open_tile()});
  for (const Position row : rows) {
    batch.rows.push_back({.token = lane.tokens()[static_cast<std::size_t>(row)],
                          .position = row,
                          .sequence = 0,
                          .slot = kv::slot_of(table, row, compute_.block_size),
                          .wants_logits = row >= wanted.first_logits,
                          .wants_mass = row >= wanted.first_mass});
  }
  RETURN_IF_ERROR(compute_.executor->run(batch, output));
  return rows.size();
}

Result<void> Lanes::run_from(const Lane& lane, Position begin, Position first_logits,
                             std::vector<float>& logits, std::uint32_t step_tokens) {
  logits.clear();
  std::vector<Position> all(lane.tokens().size() - static_cast<std::size_t>(begin));
  std::iota(all.begin(), all.end(), begin);
  for (std::span<const Position> rows = all; !rows.empty();) {
    ASSIGN_OR_RETURN(
        const std::size_t done,
        step(lane, {.rows = rows, .first_logits = first_logits}, output_, step_tokens));
    logits.insert(logits.end(), output_.logits.begin(), output_.logits.end());
    rows = rows.subspan(done);
  }
  return {};
}

}  // namespace refrain::cli
