// Contexts that are kept within a budget: when a sequence is trimmed, and what becomes of it. The
// first token is sampled over the whole prompt; then the context is looked at, between steps, so
// that other answers go on; then it is cut, and kept short while the answer grows. Engine thread.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/str.h"
#include "engine/engine_impl.h"

namespace refrain::engine {

// A context that cannot outgrow its budget, or that has no room for the look, is left alone.
std::uint32_t Engine::Impl::worst_case(const ActiveRequest& request, Sequence& sequence) const {
  const GenerateRequest& asked = request.request();
  const std::uint32_t tokens = sequence.prompt_tokens() + asked.max_tokens;
  const ContextWish& wish = asked.context;
  sequence.trims = wish.policy != nullptr && !request.embeds() && tokens > wish.budget_tokens;
  if (!sequence.trims) return tokens;
  const std::uint32_t scratch = ContextTrim::scratch_tokens(parts_.trim, *wish.policy);
  sequence.trims = scratch <= limits_.pool_tokens && tokens <= limits_.pool_tokens - scratch;
  return sequence.trims ? tokens + scratch : tokens;
}

void Engine::Impl::trim_contexts() {
  for (const Running& entry : running_) {
    Sequence& sequence = *entry.sequence;
    if (!sequence.trims || !sequence.decoding() || sequence.ended()) continue;
    // One that begins again computes its answer like a prompt.
    if (sequence.trim() == nullptr && sequence.pending() > 1) continue;
    if (const Result<void> done = trim_context(*entry.request, sequence); !done.ok()) {
      // Its whole worst case is reserved, so it goes on with all of its context.
      log_warn(str_cat("trimming a context failed: ", done.error().message));
      sequence.trims = false;
      sequence.trim_with(nullptr);
    }
  }
}

Result<void> Engine::Impl::trim_context(ActiveRequest& request, Sequence& sequence) {
  const SequenceId id = sequence.id();
  const ContextWish& wish = request.request().context;
  if (sequence.trim() == nullptr) {
    if (ledger_.length(id) <= wish.budget_tokens) return {};
    begin_trim(request, sequence);
  }
  ContextTrim& trim = *sequence.trim();
  if (trim.looking()) {
    RETURN_IF_ERROR(trim.look(now_));
    if (trim.looking()) return {};
    if (ScoreStore::keeps(*wish.policy) && request.publishes())
      scores_.put(space_of(request.request()), *wish.policy, trim.context(), trim.scores());
  }
  const std::uint32_t before = ledger_.dropped(id);
  if (trim.was_cut()) {
    trim.slide(wish.budget_tokens);
  } else {
    const std::uint32_t most = sequence.prompt_tokens() + request.request().max_tokens;
    const Result<void> cut = trim.cut(wish.budget_tokens, most - sequence.computed(), most);
    if (!cut.ok()) return cut.error().code == Code::kUnavailable ? Result<void>{} : cut.error();
    if (!trim.was_cut()) return {};
    sequence.is_approximate = true;
    admit_again_ = true;  // blocks were given back
    keep_trimmed_for_idle(request, sequence);
  }
  const std::uint32_t dropped = ledger_.dropped(id);
  if (dropped == before) return {};
  metrics_.count_dropped(dropped - before, /*first=*/before == 0);
  if (sequence.choice() == 0) request.note_dropped(dropped);
  return {};
}

void Engine::Impl::begin_trim(const ActiveRequest& request, Sequence& sequence) {
  const model::TrimPolicy& policy = *request.request().context.policy;
  ledger_.stop_publishing(sequence.id());
  const GenerateRequest& asked = request.request();
  TrimmedContext context{
      .tokens = {sequence.tokens().begin(), sequence.tokens().begin() + sequence.computed()},
      .head_tokens = static_cast<std::uint32_t>(asked.head_tokens),
      .turn_begin = {asked.header_begin.begin(), asked.header_begin.end()}};
  std::sort(context.turn_begin.begin(), context.turn_begin.end());
  model::TrimScores known;
  if (ScoreStore::keeps(policy) && request.publishes())
    known = scores_.find(space_of(asked), policy, context.tokens);
  sequence.trim_with(std::make_unique<ContextTrim>(parts_.trim, sequence.id(), policy,
                                                   std::move(context), std::move(known)));
}

// What it answers from now on is published nowhere: while nobody waits it is computed exactly, and
// looked at, for the next turn.
void Engine::Impl::keep_trimmed_for_idle(const ActiveRequest& request, Sequence& sequence) const {
  if (!options_.idle_recompute || !request.publishes() || sequence.choice() != 0) return;
  const GenerateRequest& asked = request.request();
  auto answer = sequence.take_for_idle();
  if (answer == nullptr)
    answer = std::make_unique<ApproximateAnswer>(ApproximateAnswer{
        .space = space_of(asked), .prompt_tokens = sequence.prompt_tokens(), .logits = {}});
  if (ScoreStore::keeps(*asked.context.policy)) answer->look = asked.context.policy;
  sequence.keep_for_idle(std::move(answer));
}

}  // namespace refrain::engine
