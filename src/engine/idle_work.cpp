#include "engine/idle_work.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace refrain::engine {

void IdleWork::add(ApproximateAnswer answer) {
  CHECK(answer.prompt_tokens > 0 && answer.prompt_tokens <= answer.tokens.size(),
        "an answer without its prompt");
  CHECK(!running_, "answers end while somebody works");
  waiting_.push_back(std::move(answer));
  if (waiting_.size() > kMaxWaiting) waiting_.pop_front();
}

bool IdleWork::begin(SequenceId id, Tick now) {
  const ApproximateAnswer& answer = waiting_.front();
  auto total = static_cast<std::uint32_t>(answer.tokens.size());
  // Until it is audited the last row of the prompt is computed for its logits, whatever is stored.
  const std::uint32_t known = answer.logits.empty() ? total : answer.prompt_tokens;
  const TokenList prompt(answer.tokens.begin(), answer.tokens.begin() + known);
  const kv::ReusePlan plan = ledger_.plan(answer.space, prompt);
  if (answer.look != nullptr) total += ContextTrim::scratch_tokens(trim_parts_, *answer.look);
  if (!ledger_.can_admit(plan, total)) return false;
  const Result<kv::Admission> admission = ledger_.admit(id, plan, total, now);
  if (!admission.ok()) return false;
  for (const kv::BlockCopy& copy : admission->copies) executor_.copy_rows(copy);
  running_ = id;
  return true;
}

void IdleWork::end(Tick now) {
  pause(now);
  waiting_.pop_front();
}

void IdleWork::pause(Tick now) {
  if (!running_) return;
  trim_.reset();
  ledger_.rollback(*running_);
  ledger_.release(*running_, now);
  running_.reset();
}

Result<void> IdleWork::run_rows(std::uint32_t begin, std::uint32_t end, Tick now) {
  const ApproximateAnswer& answer = waiting_.front();
  ledger_.append(*running_, std::span(answer.tokens).subspan(begin, end - begin), now);
  const kv::BlockTable& table = ledger_.table(*running_);
  batch_.rows.clear();
  batch_.sequences = {{.table = &table, .length = end, .open_tile = &open_tile_}};
  for (std::uint32_t at = begin; at < end; ++at) {
    const auto position = static_cast<Position>(at);
    model::BatchRow row;
    row.token = answer.tokens[at];
    row.position = position;
    row.slot = kv::slot_of(table, position, ledger_.options().block_size);
    row.wants_logits = at + 1 == answer.prompt_tokens;
    batch_.rows.push_back(row);
  }
  RETURN_IF_ERROR(executor_.run(batch_, output_));
  ledger_.commit(*running_);
  computed_tokens_ += end - begin;
  return {};
}

Result<std::optional<Audit>> IdleWork::step(SequenceId id, Tick now) {
  CHECK(pending(), "nothing to do");
  if (!running_ && !begin(id, now)) {
    waiting_.pop_front();  // there is no room for it: what is stored matters more
    return std::optional<Audit>{};
  }
  ApproximateAnswer& answer = waiting_.front();
  const std::uint32_t done = ledger_.committed(*running_);
  if (done == answer.tokens.size()) {
    const Result<bool> looked = look(now);
    if (!looked.ok() || *looked) this->end(now);
    if (!looked.ok()) return looked.error();
    return std::optional<Audit>{};
  }
  const auto total = static_cast<std::uint32_t>(answer.tokens.size());
  const std::uint32_t end =
      std::min({done + std::min(kStepRows, executor_.max_batch_rows()), total});
  if (const Result<void> ran = run_rows(done, end, now); !ran.ok()) {
    this->end(now);
    return ran.error();
  }
  std::optional<Audit> audit;
  if (done < answer.prompt_tokens && end >= answer.prompt_tokens && !answer.logits.empty()) {
    audit = compare_first_token(output_.logits, answer.logits, answer.allowed);
    answer.logits.clear();
  }
  if (end < total) return audit;
  if (answer.look == nullptr) {
    this->end(now);  // `answer` is gone
  } else if (!std::exchange(answer.is_computed, true)) {
    pause(now);  // a look publishes nothing, so what is computed is given to others first
  }
  return audit;
}

Result<bool> IdleWork::look(Tick now) {
  const ApproximateAnswer& answer = waiting_.front();
  if (trim_ == nullptr) {
    ledger_.stop_publishing(*running_);
    trim_ = std::make_unique<ContextTrim>(trim_parts_, *running_, *answer.look,
                                          TrimmedContext{answer.tokens},
                                          scores_.find(answer.space, *answer.look, answer.tokens));
  }
  if (trim_->looking()) RETURN_IF_ERROR(trim_->look(now));
  // What is known already is worth keeping: somebody may come before the end.
  const auto known = static_cast<std::uint32_t>(trim_->looked());
  scores_.put(answer.space, *answer.look,
              TokenList(answer.tokens.begin(), answer.tokens.begin() + known),
              trim_->scores().resized(known));
  return !trim_->looking();
}

}  // namespace refrain::engine
