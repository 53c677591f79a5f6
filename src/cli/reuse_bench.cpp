// One case of reuse. Main thread.
#include "cli/reuse_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/str.h"

namespace refrain::cli {
namespace {

TokenList without_runs(const Lane& lane) {
  TokenList rest;
  Position at = 0;
  const auto take_until = [&](Position end) {
    rest.insert(rest.end(), lane.tokens().begin() + at, lane.tokens().begin() + end);
  };
  for (const kv::SegmentRun& run : lane.runs()) {
    take_until(run.begin);
    at = run.end();
  }
  take_until(static_cast<Position>(lane.length()));
  return rest;
}

// For models without a chat template.
text::Prompt plain_prompt(const Messages& messages) {
  text::Prompt prompt;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    prompt.parts.push_back({messages[i].content, static_cast<std::int32_t>(i)});
    prompt.parts.push_back({i + 1 < messages.size() ? "\n\n" : "\nAnswer:"});
  }
  return prompt;
}

}  // namespace

ReuseBench::ReuseBench(Compute& compute, const ReuseOptions& options)
    : compute_(compute),
      options_(options),
      probes_(compute.loaded.model->shape(), *compute.arena) {}

Result<std::unique_ptr<ReuseBench>> ReuseBench::create(Compute& compute,
                                                       const ReuseOptions& options) {
  std::unique_ptr<ReuseBench> made(new ReuseBench(compute, options));
  ASSIGN_OR_RETURN(made->lanes_, Lanes::create(compute, options.step_tokens));
  ASSIGN_OR_RETURN(made->splice_, model::Splice::create(*compute.loaded.model, *compute.arena));
  return made;
}

Result<ReuseBench::Asked> ReuseBench::encode(const Messages& messages) const {
  text::Prompt prompt = plain_prompt(messages);
  if (compute_.loaded.chat_template.has_value()) {
    ASSIGN_OR_RETURN(prompt, compute_.loaded.chat_template->render({.messages = messages}));
  }
  text::EncodedPrompt encoded = compute_.loaded.tokenizer->encode_prompt(prompt);
  if (encoded.tokens.size() < 2) {
    return Error{Code::kInvalidArgument, "a prompt of a case is empty", "", "--data"};
  }
  return Asked{std::move(encoded.tokens), static_cast<Position>(encoded.message_begin.back())};
}

// What came before stands where it was computed: nothing of it was moved.
Result<void> ReuseBench::store(const ReuseCase& one) {
  lanes_->forget();
  for (const Messages& messages : one.warm) {
    ASSIGN_OR_RETURN(const Asked asked, encode(messages));
    ASSIGN_OR_RETURN(Lane lane, lanes_->open(asked.tokens, 0, LaneReuse::kPrefix));
    std::vector<float> logits;
    RETURN_IF_ERROR(lanes_->run_from(lane, static_cast<Position>(lane.exact_tokens()),
                                     lane.last_row(), logits));
    lane.keep();
  }
  return {};
}

// Of the first turn as much as the second one repeats, token by token.
Result<ReuseBench::Asked> ReuseBench::repaired_turn(const ReuseCase& one, Asked target) const {
  if (one.first_turn.empty()) return target;
  ASSIGN_OR_RETURN(Asked first, encode(one.first_turn));
  const auto common = std::ranges::mismatch(first.tokens, target.tokens);
  first.tokens.erase(common.in1, first.tokens.end());
  first.behind.assign(common.in2, target.tokens.end());
  if (static_cast<std::size_t>(first.turn) >= first.tokens.size() || first.behind.empty())
    return Error{Code::kInvalidArgument, "the next turn does not go on behind the first one", "",
                 "--data"};
  return first;
}

Result<Lane> ReuseBench::open_warm(const Asked& asked, const Wanted& wanted) {
  const auto more = wanted.rows + static_cast<std::uint32_t>(asked.behind.size());
  return lanes_->open(asked.tokens, more, LaneReuse::kSegments);
}

Result<void> ReuseBench::go_on(Lane& lane, const Asked& asked, std::vector<float>& last,
                               Tick& ttft) {
  if (asked.behind.empty()) return {};
  const Tick started = clock_.now();
  const auto begin = static_cast<Position>(lane.length());
  lane.append(asked.behind);
  RETURN_IF_ERROR(lanes_->run_from(lane, begin, lane.last_row(), last));
  ttft = clock_.now() - started;
  return {};
}

ReuseBench::Wanted ReuseBench::wanted_of(ReuseKind kind) const {
  constexpr std::uint32_t kChangedRows = 21;  // 20 tokens: a sentence with the fact
  constexpr std::uint32_t kCopiedRows = 129;  // kSpanTokens, and a few words in front of them
  if (kind == ReuseKind::kChanged) return {.rows = kChangedRows, .answers = true};
  if (kind == ReuseKind::kCopied) return {.rows = kCopiedRows, .answers = true};
  return {.rows = options_.answer_rows};
}

std::string ReuseBench::text_of(const TokenList& answer) const {
  return compute_.loaded.tokenizer->decode(answer);
}

Result<void> ReuseBench::answer(Lane& lane, Cold& cold, std::uint32_t rows) {
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  std::vector<float> next;
  while (cold.rows.size() < width * rows) {
    const TokenId token{static_cast<std::int32_t>(likeliest(std::span(cold.rows).last(width)))};
    if (compute_.loaded.tokenizer->is_end_of_generation(token)) break;
    cold.answer.push_back(token);
    lane.append(std::span(&token, 1));
    RETURN_IF_ERROR(lanes_->run_from(lane, lane.last_row(), lane.last_row(), next));
    cold.rows.insert(cold.rows.end(), next.begin(), next.end());
  }
  return {};
}

Result<ReuseBench::Cold> ReuseBench::run_cold(const TokenList& prompt, std::uint32_t rows) {
  Cold cold;
  const Tick started = clock_.now();
  ASSIGN_OR_RETURN(Lane lane, lanes_->open(prompt, rows, LaneReuse::kNothing));
  RETURN_IF_ERROR(lanes_->run_from(lane, 0, lane.last_row(), cold.rows));
  cold.ttft = clock_.now() - started;
  RETURN_IF_ERROR(answer(lane, cold, rows));
  if (!std::all_of(cold.rows.begin(), cold.rows.end(), [](float x) { return std::isfinite(x); })) {
    return Error{Code::kInternal, "the model gave a NaN or an infinity", "the file may be damaged"};
  }
  return cold;
}

Result<std::vector<float>> ReuseBench::answer_rows(Lane& lane, std::vector<float> last,
                                                   const TokenList& answer) {
  if (answer.empty()) return last;
  const auto begin = static_cast<Position>(lane.length());
  lane.append(answer);
  std::vector<float> logits;
  RETURN_IF_ERROR(lanes_->run_from(lane, begin, begin, logits));
  last.insert(last.end(), logits.begin(), logits.end());
  return last;
}

// The cold rows hold as long as the tokens are the same; from there on rows are computed again.
Result<std::string> ReuseBench::own_answer(Lane& lane, std::vector<float> rows,
                                           const TokenList& cold_answer,
                                           std::uint32_t wanted_rows) {
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  const auto begin = static_cast<Position>(lane.length() - cold_answer.size());
  TokenList own;
  bool same = true;
  std::span<const float> row = std::span(rows).first(width);
  std::vector<float> computed;
  for (std::size_t i = 0; i + 1 < wanted_rows; ++i) {
    const TokenId token{static_cast<std::int32_t>(likeliest(row))};
    if (compute_.loaded.tokenizer->is_end_of_generation(token)) break;
    own.push_back(token);
    same = same && i < cold_answer.size() && cold_answer[i] == token;
    if (same) {
      row = std::span(rows).subspan((i + 1) * width, width);
      continue;
    }
    const Position at = begin + static_cast<Position>(i);
    if (at < static_cast<Position>(lane.length())) {
      lane.overwrite(at, token);
    } else {
      lane.append(std::span(&token, 1));
    }
    ASSIGN_OR_RETURN([[maybe_unused]] const std::size_t done,
                     lanes_->step(lane, {.rows = std::span(&at, 1), .first_logits = at}, output_));
    computed = output_.logits;
    row = computed;
  }
  return text_of(own);
}

// The text of the cache is that of the old context, at its place: as a cold run has it.
Result<std::string> ReuseBench::answer_before(const Messages& before, std::uint32_t rows) {
  ASSIGN_OR_RETURN(const Asked asked, encode(before));
  ASSIGN_OR_RETURN(Lane lane, lanes_->open(asked.tokens, rows, LaneReuse::kPrefix));
  Cold answered;
  RETURN_IF_ERROR(lanes_->run_from(lane, static_cast<Position>(lane.exact_tokens()),
                                   lane.last_row(), answered.rows));
  RETURN_IF_ERROR(answer(lane, answered, rows));
  return text_of(answered.answer);
}

Result<RowErrors> ReuseBench::compare_cold(const TokenList& prompt, const Cold& cold,
                                           std::uint32_t step_tokens) {
  const auto more = static_cast<std::uint32_t>(cold.answer.size());
  ASSIGN_OR_RETURN(Lane lane, lanes_->open(prompt, more, LaneReuse::kNothing));
  std::vector<float> last;
  RETURN_IF_ERROR(lanes_->run_from(lane, 0, lane.last_row(), last, step_tokens));
  ASSIGN_OR_RETURN(const std::vector<float> rows, answer_rows(lane, std::move(last), cold.answer));
  return compare_rows(cold.rows, rows, compute_.loaded.model->shape().vocabulary_size);
}

// How long that takes.
Tick ReuseBench::move_runs(const Lane& lane) {
  const Tick started = clock_.now();
  splice_->move(lane.runs(), lane.table());
  return clock_.now() - started;
}

Result<ReuseBench::Repaired> ReuseBench::repair(const Lane& lane, Position turn,
                                                const engine::RepairJudge& judge) {
  const std::vector<model::MovedRun> runs = engine::moved_runs(lane.runs());
  const auto end = static_cast<Position>(lane.length());
  Repaired repaired{
      engine::PromptRepair(runs, lane.tokens(), engine::question_begin(turn, runs, end),
                           engine::change_of(lane.runs()), judge, &probes_),
      {}};
  engine::PromptRepair& repair = repaired.repair;
  std::vector<Position> exact(static_cast<std::size_t>(repair.first_row()) - lane.exact_tokens());
  std::iota(exact.begin(), exact.end(), static_cast<Position>(lane.exact_tokens()));
  for (std::span<const Position> rows = exact; !rows.empty();) {
    ASSIGN_OR_RETURN(const std::size_t done,
                     lanes_->step(lane, {.rows = rows, .first_logits = end}, output_));
    rows = rows.subspan(done);
  }
  repair.begin(lane.table(), lane.open_tile());
  while (repair.state() == engine::PromptRepair::State::kRunning) {
    const auto rows = repair.pending();
    const auto asked =
        std::ranges::find_if(rows, [&](Position row) { return repair.wants_mass(row); });
    ASSIGN_OR_RETURN(const std::size_t done,
                     lanes_->step(lane,
                                  {.rows = rows,
                                   .first_logits = end - 1,
                                   .first_mass = asked == rows.end() ? LaneRows::kNoMass : *asked,
                                   .open_tile = &repair.open_tile()},
                                  output_));
    repair.ran(done, output_.mass.empty() ? nullptr : &output_.mass.front(), lane.table());
  }
  if (repair.state() == engine::PromptRepair::State::kAccepted)
    lane.open_tile() = std::move(repair.open_tile());
  repaired.last = output_.logits;
  return repaired;
}

Result<void> ReuseBench::compare(Lane& lane, std::vector<float> rows, const Cold& cold,
                                 const Wanted& wanted, RungResult& result) {
  result.errors = compare_rows(cold.rows, rows, compute_.loaded.model->shape().vocabulary_size);
  if (wanted.answers) {
    ASSIGN_OR_RETURN(result.answer, own_answer(lane, std::move(rows), cold.answer, wanted.rows));
  }
  return {};
}

Result<RungResult> ReuseBench::run_rung(model::RepairRung rung, const Asked& asked,
                                        const Cold& cold, const Wanted& wanted) {
  RungResult result{.rung = rung, .errors = {}, .exposure = {}};
  const Tick started = clock_.now();
  ASSIGN_OR_RETURN(Lane lane, open_warm(asked, wanted));
  std::vector<float> last;
  if (lane.runs().empty()) {
    RETURN_IF_ERROR(
        lanes_->run_from(lane, static_cast<Position>(lane.exact_tokens()), lane.last_row(), last));
  } else {
    result.move = move_runs(lane);
    ASSIGN_OR_RETURN(Repaired repaired, repair(lane, asked.turn, {.fixed = rung}));
    result.repaired_rows = repaired.repair.repaired_rows();
    last = std::move(repaired.last);
  }
  result.ttft = clock_.now() - started;
  RETURN_IF_ERROR(go_on(lane, asked, last, result.ttft));
  ASSIGN_OR_RETURN(std::vector<float> rows, answer_rows(lane, std::move(last), cold.answer));
  RETURN_IF_ERROR(compare(lane, std::move(rows), cold, wanted, result));
  return result;
}

// What a gate would see of each rung: one that allows nothing looks, and refuses.
Result<void> ReuseBench::look(const Asked& asked, std::vector<RungResult>& rungs) {
  const model::ReuseGate none({});
  ASSIGN_OR_RETURN(const Lane lane, lanes_->open(asked.tokens, 0, LaneReuse::kSegments));
  if (lane.runs().empty()) return {};
  move_runs(lane);
  ASSIGN_OR_RETURN(const Repaired repaired, repair(lane, asked.turn, {.gate = &none}));
  for (RungResult& rung : rungs) {
    if (rung.rung != model::RepairRung::kAll)
      rung.exposure = repaired.repair.exposure_at(rung.rung);
  }
  return {};
}

Result<void> ReuseBench::describe(const ReuseCase& one, const Cold& cold, ReuseResult& result) {
  constexpr std::size_t kSpanTokens = 100;
  if (one.kind == ReuseKind::kChanged || one.kind == ReuseKind::kCopied)
    result.cold_answer = text_of(cold.answer);
  if (one.changed) {
    ASSIGN_OR_RETURN(result.answer_before,
                     answer_before(one.changed->before, wanted_of(one.kind).rows));
    result.old_value = one.changed->old_value;
    result.new_value = one.changed->new_value;
  }
  if (!one.passage.empty()) {
    TokenList span = compute_.loaded.tokenizer->encode(one.passage, {.add_bos = false});
    span.resize(std::min(span.size(), kSpanTokens));
    result.span = text_of(span);
  }
  return {};
}

Result<ReuseResult> ReuseBench::measure(const ReuseCase& one) {
  RETURN_IF_ERROR(store(one));
  ASSIGN_OR_RETURN(Asked target, encode(one.target));
  const Wanted wanted = wanted_of(one.kind);
  ReuseResult result{.kind = one.kind, .cold_again = {}, .dropped = {}, .rungs = {}, .gate = {}};
  ASSIGN_OR_RETURN(const Cold cold, run_cold(target.tokens, wanted.rows));
  result.cold_ttft = cold.ttft;
  result.cold_rows = static_cast<std::uint32_t>(cold.answer.size()) + 1;
  RETURN_IF_ERROR(describe(one, cold, result));
  const TokenList prompt = target.tokens;
  ASSIGN_OR_RETURN(const Asked asked, repaired_turn(one, std::move(target)));
  TokenList rest;
  {
    ASSIGN_OR_RETURN(const Lane lane, lanes_->open(asked.tokens, 0, LaneReuse::kSegments));
    result.prompt_tokens = lane.length();
    result.exact_tokens = lane.exact_tokens();
    result.run_count = static_cast<std::uint32_t>(lane.runs().size());
    result.change = engine::change_of(lane.runs());
    for (const kv::SegmentRun& run : lane.runs()) result.moved_tokens += run.length;
    rest = without_runs(lane);
    rest.insert(rest.end(), asked.behind.begin(), asked.behind.end());
  }
  if (options_.checks && !wanted.answers) {
    const std::uint32_t other_chunks = std::max(1U, options_.step_tokens * 5 / 8);
    ASSIGN_OR_RETURN(result.cold_again, compare_cold(prompt, cold, other_chunks));
    ASSIGN_OR_RETURN(result.dropped, compare_cold(rest, cold, 0));
  }
  for (const model::RepairRung rung : options_.rungs) {
    ASSIGN_OR_RETURN(RungResult measured, run_rung(rung, asked, cold, wanted));
    result.rungs.push_back(std::move(measured));
  }
  if (std::ranges::any_of(options_.rungs, model::needs_mass))
    RETURN_IF_ERROR(look(asked, result.rungs));
  if (options_.gate != nullptr) {
    ASSIGN_OR_RETURN(result.gate, run_gate(asked, cold, wanted));
  }
  return result;
}

}  // namespace refrain::cli
