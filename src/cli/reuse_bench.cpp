// One case of reuse. Main thread.
#include "cli/reuse_bench.h"

#include <algorithm>
#include <cmath>

#include "base/str.h"

namespace refrain::cli {
namespace {

// The question is at most so many last rows of the prompt.
constexpr Position kQuestionRows = 64;
// Fewer fresh rows at the end are no question: it was moved with what stood before it.
constexpr Position kLeastFreshQuestion = 8;

std::vector<model::MovedRun> moved_runs(const FoundTokens& found) {
  std::vector<model::MovedRun> runs;
  runs.reserve(found.runs.size());
  for (const FoundRun& run : found.runs) {
    runs.push_back({run.to, run.to + static_cast<Position>(run.length)});
  }
  return runs;
}

std::vector<Position> fresh_rows(const FoundTokens& found, Position end) {
  std::vector<Position> rows;
  auto next = static_cast<Position>(found.prefix.length);
  for (const model::MovedRun& run : moved_runs(found)) {
    for (; next < run.begin; ++next) rows.push_back(next);
    next = run.end;
  }
  for (; next < end; ++next) rows.push_back(next);
  return rows;
}

TokenList without_runs(const TokenList& prompt, const FoundTokens& found) {
  TokenList rest;
  for (std::uint32_t i = 0; i < found.prefix.length; ++i) rest.push_back(prompt[i]);
  for (const Position row : fresh_rows(found, static_cast<Position>(prompt.size())))
    rest.push_back(prompt[static_cast<std::size_t>(row)]);
  return rest;
}

// Rows from the question on belong to the last user turn, but not to a document that was moved
// into it.
Position question_begin(Position turn, const FoundTokens& found, Position end) {
  Position begin = std::max(turn, end - kQuestionRows);
  if (!found.runs.empty()) {
    const FoundRun& last = found.runs.back();
    const Position behind = last.to + static_cast<Position>(last.length);
    if (end - behind >= kLeastFreshQuestion) begin = std::max(begin, behind);
  }
  return std::min(begin, end - 1);
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

std::vector<float> tail(const std::vector<float>& values, std::size_t count) {
  return {values.end() - static_cast<std::ptrdiff_t>(count), values.end()};
}

}  // namespace

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

Result<void> ReuseBench::store(const ReuseCase& one, std::vector<Lane>& stored, RunSearch& search) {
  for (const Messages& messages : one.warm) {
    ASSIGN_OR_RETURN(Asked asked, encode(messages));
    const auto length = static_cast<std::uint32_t>(asked.tokens.size());
    ASSIGN_OR_RETURN(Lane lane, lanes_->open(length));
    lane.append(asked.tokens);
    LaneOutput output;
    RETURN_IF_ERROR(lanes_->run_from(lane, 0, static_cast<Position>(length) - 1, output));
    stored.push_back(std::move(lane));
    search.add(std::move(asked.tokens));
  }
  return {};
}

Result<ReuseBench::Cold> ReuseBench::run_cold(const TokenList& prompt) {
  const auto length = static_cast<std::uint32_t>(prompt.size());
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  ASSIGN_OR_RETURN(Lane lane, lanes_->open(length + options_.answer_rows));
  lane.append(prompt);
  Cold cold;
  LaneOutput output;
  const Tick started = clock_.now();
  RETURN_IF_ERROR(lanes_->run_from(lane, 0, static_cast<Position>(length) - 1, output));
  cold.ttft = clock_.now() - started;
  cold.rows = output.logits;
  while (cold.rows.size() < width * options_.answer_rows) {
    const TokenId token{static_cast<std::int32_t>(likeliest(std::span(cold.rows).last(width)))};
    if (compute_.loaded.tokenizer->is_end_of_generation(token)) break;
    cold.answer.push_back(token);
    lane.append(std::span(&token, 1));
    const auto position = static_cast<Position>(lane.length()) - 1;
    RETURN_IF_ERROR(lanes_->run_from(lane, position, position, output));
    cold.rows.insert(cold.rows.end(), output.logits.begin(), output.logits.end());
  }
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
  LaneOutput output;
  RETURN_IF_ERROR(lanes_->run_from(lane, begin, begin, output));
  last.insert(last.end(), output.logits.begin(), output.logits.end());
  return last;
}

Result<RowErrors> ReuseBench::compare_cold(const TokenList& prompt, const Cold& cold,
                                           std::uint32_t step_tokens) {
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  ASSIGN_OR_RETURN(Lane lane,
                   lanes_->open(static_cast<std::uint32_t>(prompt.size()) + options_.answer_rows));
  lane.append(prompt);
  LaneOutput output;
  RETURN_IF_ERROR(
      lanes_->run_from(lane, 0, static_cast<Position>(prompt.size()) - 1, output, step_tokens));
  ASSIGN_OR_RETURN(const std::vector<float> rows,
                   answer_rows(lane, tail(output.logits, width), cold.answer));
  return compare_rows(cold.rows, rows, width);
}

void ReuseBench::move_rows(const FoundTokens& found, const std::vector<Lane>& stored,
                           const Lane& lane) {
  std::vector<model::RowMove> moves;
  const auto append = [&](const FoundRun& run) {
    if (run.length == 0) return;
    model::append_moves({&stored[run.stored].table(), run.from, &lane.table(), run.to, run.length},
                        compute_.block_size, moves);
  };
  append(found.prefix);
  for (const FoundRun& run : found.runs) append(run);
  splice_->move(moves);
}

Result<std::vector<Position>> ReuseBench::rows_to_run(model::RepairRung rung, const Lane& lane,
                                                      Position question, const FoundTokens& found,
                                                      std::uint32_t& repaired) {
  const auto end = static_cast<Position>(lane.length());
  const std::vector<model::MovedRun> runs = moved_runs(found);
  const std::vector<Position> fresh = fresh_rows(found, end);
  const model::RepairRules rules = model::rules_of(rung);
  if (!model::needs_mass(rung) || runs.empty()) {
    const std::vector<Position> chosen = model::choose_repair(runs, {}, rules);
    repaired = static_cast<std::uint32_t>(chosen.size());
    return model::repair_pass(chosen, fresh);
  }
  std::vector<Position> asked;
  for (Position row = question; row < end; ++row) asked.push_back(row);
  const std::vector<Position> looked = model::repair_pass(asked, fresh);
  LaneOutput output;
  RETURN_IF_ERROR(
      lanes_->run(lane, {.rows = looked, .first_logits = end - 1, .first_mass = question}, output));
  const std::vector<Position> chosen = model::choose_repair(runs, output.attention, rules);
  const std::vector<Position> rows = model::second_pass(chosen, looked);
  // A question that was moved itself is repaired, too.
  repaired = static_cast<std::uint32_t>(model::repair_pass(chosen, looked).size() - fresh.size());
  return rows;
}

Result<RungResult> ReuseBench::run_rung(model::RepairRung rung, const Asked& asked,
                                        const RunSearch& search, const std::vector<Lane>& stored,
                                        const Cold& cold) {
  const auto length = static_cast<Position>(asked.tokens.size());
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  ASSIGN_OR_RETURN(Lane lane,
                   lanes_->open(static_cast<std::uint32_t>(length) + options_.answer_rows));
  lane.append(asked.tokens);
  RungResult result{.rung = rung, .errors = {}};
  LaneOutput output;
  const Tick started = clock_.now();
  const FoundTokens found = search.find(asked.tokens);
  const Tick moving = clock_.now();
  move_rows(found, stored, lane);
  result.move = clock_.now() - moving;
  ASSIGN_OR_RETURN(const std::vector<Position> rows,
                   rows_to_run(rung, lane, question_begin(asked.question, found, length), found,
                               result.repaired_rows));
  RETURN_IF_ERROR(lanes_->run(lane, {.rows = rows, .first_logits = length - 1}, output));
  result.ttft = clock_.now() - started;
  ASSIGN_OR_RETURN(const std::vector<float> got,
                   answer_rows(lane, std::move(output.logits), cold.answer));
  result.errors = compare_rows(cold.rows, got, width);
  return result;
}

Result<ReuseResult> ReuseBench::measure(const ReuseCase& one) {
  std::vector<Lane> stored;
  RunSearch search;
  RETURN_IF_ERROR(store(one, stored, search));
  ASSIGN_OR_RETURN(const Asked asked, encode(one.target));
  const FoundTokens found = search.find(asked.tokens);
  ReuseResult result{.kind = one.kind, .cold_again = {}, .dropped = {}, .rungs = {}};
  result.prompt_tokens = static_cast<std::uint32_t>(asked.tokens.size());
  result.exact_tokens = found.prefix.length;
  result.run_count = static_cast<std::uint32_t>(found.runs.size());
  for (const FoundRun& run : found.runs) result.moved_tokens += run.length;
  ASSIGN_OR_RETURN(const Cold cold, run_cold(asked.tokens));
  result.cold_ttft = cold.ttft;
  const std::uint32_t other_chunks = std::max(1U, options_.step_tokens * 5 / 8);
  ASSIGN_OR_RETURN(result.cold_again, compare_cold(asked.tokens, cold, other_chunks));
  ASSIGN_OR_RETURN(result.dropped, compare_cold(without_runs(asked.tokens, found), cold, 0));
  for (const model::RepairRung rung : options_.rungs) {
    ASSIGN_OR_RETURN(RungResult measured, run_rung(rung, asked, search, stored, cold));
    result.rungs.push_back(std::move(measured));
  }
  return result;
}

}  // namespace refrain::cli
