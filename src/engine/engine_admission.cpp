// How requests come in: mail, deadlines, and the admission of waiting choices. Engine thread.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "engine/engine_impl.h"

namespace refrain::engine {
namespace {

// Requests without a seed differ from each other, and a run can be repeated with one default seed.
std::uint64_t seed_of(const GenerateRequest& request, std::uint64_t default_seed) {
  if (request.sampling.seed) return *request.sampling.seed;
  const std::uint64_t parts[2] = {default_seed, to_int(request.id)};
  return hash_bytes(std::as_bytes(std::span(parts))).low;
}

}  // namespace

void Engine::Impl::take_mail() {
  now_ = parts_.clock->now();
  Inbox::Mail mail = inbox_.take();
  for (Incoming& incoming : mail.requests) accept(std::move(incoming));
  for (const RequestId id : mail.cancelled) {
    const auto found = requests_.find(to_int(id));
    if (found != requests_.end()) end_open_choices(*found->second, FinishReason::kCancelled);
  }
  stop_requested_ = mail.stop;
}

void Engine::Impl::accept(Incoming incoming) {
  const std::uint64_t seed = seed_of(incoming.request, options_.default_seed);
  auto request = std::make_unique<ActiveRequest>(std::move(incoming.request),
                                                 std::move(incoming.stream), incoming.submitted_at);
  request->create_choices(next_sequence_, seed);
  if (isolation_.is_long(request->request())) request->count_as_long();
  if (request->request().gives_way) request->give_way();
  next_sequence_ += request->choices().size();
  // The other choices follow once the prompt is computed: then they find it in the cache.
  queue_.push_back(request->request().tenant, request->first_choice());
  requests_.emplace(to_int(request->id()), std::move(request));
  admit_again_ = true;
}

void Engine::Impl::queue_siblings(ActiveRequest& request) {
  auto& choices = request.choices();
  for (std::size_t i = choices.size() - 1; i > 0; --i)
    queue_.push_front(request.request().tenant, *choices[i]);
  admit_again_ = true;
}

void Engine::Impl::expire_deadlines() {
  std::vector<ActiveRequest*> expired;
  for (auto& [id, request] : requests_) {
    const Tick deadline = request->request().deadline;
    if (deadline != 0 && now_ >= deadline) expired.push_back(request.get());
  }
  for (ActiveRequest* request : expired) {
    if (request->sampled_any()) {
      end_open_choices(*request, FinishReason::kDeadline);
    } else {
      fail_request(*request, Error{Code::kDeadline, "the time allowed for this request is over",
                                   "allow more time or try again when less is waiting"});
    }
  }
}

void Engine::Impl::admit_waiting() {
  if (queue_.empty() || (!admit_again_ && !running_.empty())) return;
  do {
    admit_again_ = false;
    answer_blocked_ = false;
    queue_.admit([this](Sequence& sequence) { return try_admit(sequence); });
    // Only now: failing a request takes its other choices out of the queue.
    for (Refusal& refusal : std::exchange(refusals_, {}))
      if (!refusal.request->ended()) fail_request(*refusal.request, std::move(refusal.error));
  } while (answer_blocked_ && end_one_that_gives_way());
}

// What nobody waits for holds no place that somebody waits for.
bool Engine::Impl::end_one_that_gives_way() {
  for (const Running& entry : running_) {
    if (!entry.request->request().gives_way) continue;
    end_open_choices(*entry.request, FinishReason::kCancelled);
    return true;
  }
  return false;
}

WaitingQueue::Verdict Engine::Impl::try_admit(Sequence& sequence) {
  using Verdict = WaitingQueue::Verdict;
  ActiveRequest& request = *requests_.at(to_int(sequence.request_id()));
  const bool gives_way = request.request().gives_way;
  if (running_.size() >= options_.max_running) {
    answer_blocked_ |= !gives_way;
    return Verdict::kFull;
  }
  Planned planned = plan_for(request, sequence);
  const kv::ReusePlan& plan = planned.plan;
  const std::uint32_t worst = worst_case(request, sequence);
  if (sequence.is_long && !gives_way && !long_class_has_room(plan, worst))
    return Verdict::kClassFull;
  Result<kv::Admission> admission = ledger_.admit(sequence.id(), plan, worst, now_);
  if (admission) {
    for (const kv::BlockCopy& copy : admission->copies) parts_.executor->copy_rows(copy);
    if (!plan.runs.empty() && admission->runs.empty()) planned.refusal = ReuseRefusal::kNoRoom;
    if (sequence.choice() == 0) request.note_refusal(planned.refusal);
    note_admission(request, sequence, *admission, plan);
    if (!admission->runs.empty())
      plan_repair(request, sequence, admission->runs, double{plan.divergence});
    return Verdict::kAdmitted;
  }
  // With nothing running there is nothing to wait for.
  if (admission.error().code == Code::kUnavailable && !running_.empty()) {
    answer_blocked_ |= !gives_way;
    return Verdict::kNotNow;
  }
  refusals_.push_back(Refusal{&request, admission.error()});
  return Verdict::kEnded;
}

void Engine::Impl::note_admission(ActiveRequest& request, Sequence& sequence,
                                  const kv::Admission& admission, const kv::ReusePlan& plan) {
  sequence.admitted(admission.cached_tokens);
  const std::uint32_t exact = std::min(admission.cached_tokens, plan.exact_tokens);
  const std::uint32_t approximate = admission.cached_tokens - exact;
  sequence.is_approximate = approximate > 0;
  if (approximate > 0) sequence.expected_divergence = double{plan.divergence};
  running_.push_back(Running{&request, &sequence, next_age_++});
  admitted_unreported_ = true;
  if (sequence.begun_again()) {
    if (sequence.choice() == 0) request.note_begun_again(exact, sequence.decoding());
  } else if (sequence.choice() == 0) {
    request.note_admitted(now_, exact, plan.reason);
    if (approximate > 0) request.note_approximate(approximate, double{plan.divergence});
    inbox_.left_waiting(request.request());
  } else {
    metrics_.count_sibling(sequence.prompt_tokens(), exact);
  }
}

}  // namespace refrain::engine
