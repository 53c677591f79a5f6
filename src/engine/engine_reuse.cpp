// Plans, and prompts with moved runs: which text of other places a request may use, bringing it
// there, and what happens when its repair is accepted or refused. Engine thread.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "engine/engine_impl.h"

namespace refrain::engine {
namespace {

kv::ReusePlan plan_without_cache(const kv::CacheSpace& space, const TokenList& prompt) {
  kv::ReusePlan fresh;
  fresh.space = space;
  fresh.tokens = prompt;
  fresh.spans = {kv::Span{0, static_cast<Position>(prompt.size()), kv::Provenance::kFresh}};
  fresh.reason = kv::MissReason::kDisabled;
  return fresh;
}

// Whether it begins with so little approximate state that the divergence which comes with it, and
// is added to that of the runs, weighs more: two prompts that begin with the same words.
bool has_crumbs(const kv::ReusePlan& plan) {
  return !plan.runs.empty() && plan.approximate_tokens > 0 &&
         plan.approximate_tokens < kv::Ledger::kMinRunTokens;
}

bool is_worth_it(const kv::ReusePlan& approximate, const kv::ReusePlan& exact) {
  std::uint64_t known = approximate.prefix_tokens();
  for (const kv::SegmentRun& run : approximate.runs) known += run.length;
  return spares_enough(known, exact.exact_tokens, exact.tokens.size());
}

Position last_message(const GenerateRequest& request) {
  return request.message_begin.empty() ? 0 : static_cast<Position>(request.message_begin.back());
}

}  // namespace

kv::CacheSpace Engine::Impl::space_of(const GenerateRequest& request) const {
  return hash_chain(parts_.cache_root, std::as_bytes(std::span(&request.salt, 1)));
}

Engine::Impl::Planned Engine::Impl::plan_for(const ActiveRequest& request,
                                             const Sequence& sequence) const {
  const GenerateRequest& asked = request.request();
  const kv::CacheSpace space = space_of(asked);
  if (!request.matches_cache(sequence)) return {plan_without_cache(space, asked.prompt)};
  if (sequence.begun_again()) return {ledger_.plan(space, sequence.tokens())};
  if (asked.reuse.mode == ReuseMode::kExact) return {ledger_.plan(space, asked.prompt)};
  kv::ReuseAllowance allowed{.scope = kv::ReuseScope::kSegments,
                             .max_divergence = static_cast<float>(asked.reuse.max_divergence)};
  Planned planned{ledger_.plan(space, asked.prompt, allowed)};
  if (has_crumbs(planned.plan)) {
    allowed.max_divergence = 0;
    planned.plan = ledger_.plan(space, asked.prompt, allowed);
  }
  if (planned.plan.runs.empty() && planned.plan.approximate_tokens == 0) return planned;
  kv::ReusePlan exact = ledger_.plan(space, asked.prompt);
  if (!is_worth_it(planned.plan, exact)) return {std::move(exact)};
  if (parts_.reuse.splice == nullptr) {
    planned.refusal = ReuseRefusal::kUnsupported;
  } else if (asked.reuse.mode == ReuseMode::kRepair && !can_judge(planned.plan.runs)) {
    planned.refusal = ReuseRefusal::kUncalibrated;
  } else {
    return planned;
  }
  planned.plan = std::move(exact);
  return planned;
}

bool Engine::Impl::can_judge(std::span<const kv::SegmentRun> runs) const {
  const model::ReuseGate* gate = parts_.reuse.gate;
  return gate != nullptr && !audits_.broken() && (runs.empty() || gate->measures(change_of(runs)));
}

void Engine::Impl::plan_repair(const ActiveRequest& request, Sequence& sequence,
                               std::vector<kv::SegmentRun> runs, double inherited) {
  const GenerateRequest& asked = request.request();
  RepairJudge judge{.gate = parts_.reuse.gate,
                    .max_divergence = asked.reuse.max_divergence,
                    .inherited = inherited};
  if (asked.reuse.mode == ReuseMode::kSplice) judge.fixed = model::RepairRung::kMoved;
  const std::vector<model::MovedRun> moved = moved_runs(runs);
  const Position question =
      question_begin(last_message(asked), moved, static_cast<Position>(asked.prompt.size()));
  auto repair = std::make_unique<PromptRepair>(moved, asked.prompt, question, change_of(runs),
                                               judge, parts_.reuse.probes);
  sequence.repair_with(std::move(repair), std::move(runs));
  if (sequence.repairing()) begin_repair(sequence);
}

// Everything in front of the first run is there: takes the slots of the rest, and moves the runs.
void Engine::Impl::begin_repair(Sequence& sequence) {
  const std::uint32_t begin = sequence.computed();
  ledger_.append(sequence.id(), std::span(sequence.tokens()).subspan(begin), now_);
  const kv::BlockTable& table = ledger_.table(sequence.id());
  parts_.reuse.splice->move(sequence.take_runs(), table);
  sequence.repair()->begin(table, sequence.open_tile());
}

const model::AttentionMass* Engine::Impl::mass_of(const ScheduledSequence& entry) const {
  const auto index = static_cast<std::uint32_t>(&entry - scheduled_.data());
  for (const model::AttentionMass& mass : output_.mass)
    if (mass.sequence == index) return &mass;
  return nullptr;
}

Result<void> Engine::Impl::take_repair(const ScheduledSequence& entry) {
  Sequence& sequence = *entry.sequence;
  ActiveRequest& request = *entry.request;
  PromptRepair& repair = *sequence.repair();
  computed_prompt_tokens_ += entry.row_count;
  repair.ran(entry.row_count, mass_of(entry), ledger_.table(sequence.id()));
  if (repair.state() == PromptRepair::State::kRunning) return {};
  if (repair.state() == PromptRepair::State::kRefused) {
    refuse_repair(request, sequence);
    return {};
  }
  sequence.is_approximate = true;
  sequence.expected_divergence = repair.estimate();
  std::optional<Sample> sample;
  if (entry.samples) {
    if (is_near_tie(request, sequence, logits_row(entry.first_logits + entry.logit_count - 1)))
      return compute_exactly(request, sequence);
    keep_for_idle(request, sequence, logits_row(entry.first_logits + entry.logit_count - 1));
    ASSIGN_OR_RETURN(sample,
                     sequence.sample(logits_row(entry.first_logits + entry.logit_count - 1)));
  }
  if (sequence.choice() == 0) request.note_repair(repair);
  if (const std::optional<double> estimate = repair.estimate())
    ledger_.set_divergence(sequence.id(), static_cast<float>(*estimate));
  sequence.end_repair();
  ledger_.commit(sequence.id());
  prompt_rows_done(request, sequence);
  if (!sample) return {};
  return take_token(request, sequence, *sample);
}

// Whether a cold run may well choose another next token; among the tokens that the gate's estimate
// speaks of, and of those that are always the likeliest. `logits` are not sampled from yet.
bool Engine::Impl::is_near_tie(const ActiveRequest& request, Sequence& sequence,
                               std::span<const float> logits) const {
  const ReuseWish& wish = request.request().reuse;
  // Behind a cut an exact prompt would not give an exact answer.
  if (sequence.trim() != nullptr) return false;
  if (!sequence.is_approximate || !sequence.greedy() || wish.mode != ReuseMode::kRepair ||
      !sequence.expected_divergence || parts_.reuse.gate == nullptr ||
      sequence.generated_tokens() >= model::kEstimatedTokens ||
      !model::ReuseGate::watches(*sequence.expected_divergence, wish.max_changed_first_tokens))
    return false;
  std::vector<float> shaped(logits.begin(), logits.end());
  return parts_.reuse.gate->is_near_tie(sequence.margin(shaped), *sequence.expected_divergence,
                                        wish.max_changed_first_tokens);
}

// From here on an exact sequence: its blocks go back to the cache, and what is not exactly there is
// computed, the tokens of its answer as well. What it has sent stays.
Result<void> Engine::Impl::compute_exactly(ActiveRequest& request, Sequence& sequence) {
  stop_running(request, sequence);
  sequence.begin_again();
  switch (try_admit(sequence)) {
    case WaitingQueue::Verdict::kAdmitted:
      return {};
    case WaitingQueue::Verdict::kEnded: {
      Error error = std::move(refusals_.back().error);
      refusals_.pop_back();
      return error;
    }
    case WaitingQueue::Verdict::kNotNow:
    case WaitingQueue::Verdict::kClassFull:
    case WaitingQueue::Verdict::kFull:
      break;
  }
  queue_.push_front(request.request().tenant, sequence);
  return {};
}

// The first logits of an approximate prompt, before they are sampled from, which overwrites them.
void Engine::Impl::keep_for_idle(const ActiveRequest& request, Sequence& sequence,
                                 std::span<const float> logits) const {
  const GenerateRequest& asked = request.request();
  if (!options_.idle_recompute || !sequence.is_approximate || sequence.decoding() ||
      asked.reuse.mode != ReuseMode::kRepair || sequence.choice() != 0)
    return;
  sequence.keep_for_idle(std::make_unique<ApproximateAnswer>(
      ApproximateAnswer{.space = space_of(asked),
                        .tokens = {},
                        .prompt_tokens = sequence.prompt_tokens(),
                        .logits = {logits.begin(), logits.end()},
                        .allowed = asked.reuse.max_divergence}));
}

// The rows from the first run on are forgotten and computed like any other prompt's.
void Engine::Impl::refuse_repair(ActiveRequest& request, Sequence& sequence) {
  if (sequence.choice() == 0) request.note_refusal(ReuseRefusal::kDivergence);
  sequence.end_repair();
  ledger_.rollback(sequence.id());
  ledger_.forgo_runs(sequence.id());
}

}  // namespace refrain::engine
