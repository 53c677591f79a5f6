// See trim_bench.h.
#include "cli/trim_bench.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/str.h"
#include "cli/row_errors.h"

namespace refrain::cli {
namespace {

const kv::CacheSpace kSpace = hash_text("trim");

std::size_t common_prefix(const TokenList& a, const TokenList& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

text::ChatMessage message(std::string_view role, std::string content) {
  return {.role = std::string(role), .content = std::move(content)};
}

Error no_room(std::size_t tokens) {
  return Error{Code::kInvalidArgument, str_cat("no room for a case of ", tokens, " tokens"),
               "ask for fewer --pairs, or raise --kv-budget"};
}

}  // namespace

TrimBench::TrimBench(Compute& compute, const TrimOptions& options,
                     std::unique_ptr<kv::Ledger> ledger)
    : compute_(compute),
      options_(options),
      ledger_(std::move(ledger)),
      parts_(compute.trim_parts(*ledger_)) {}

Result<std::unique_ptr<TrimBench>> TrimBench::create(Compute& compute, const TrimOptions& options) {
  ASSIGN_OR_RETURN(auto ledger, kv::Ledger::create({.block_size = compute.block_size,
                                                    .block_count = compute.sizing.block_count,
                                                    .reuse_step_tokens = kernels::reuse_step_tokens(
                                                        compute.arena->layout())}));
  return std::unique_ptr<TrimBench>(new TrimBench(compute, options, std::move(ledger)));
}

// ---- words to tokens

Result<TokenList> TrimBench::encode(const std::vector<text::ChatMessage>& messages) const {
  text::Prompt prompt;
  if (compute_.loaded.chat_template.has_value()) {
    ASSIGN_OR_RETURN(prompt, compute_.loaded.chat_template->render({.messages = messages}));
  } else {  // the roles have to be seen all the same
    for (const text::ChatMessage& one : messages)
      prompt.parts.push_back({str_cat(one.content, one.role == "user" ? "\nAnswer: " : "\n\n")});
  }
  return compute_.loaded.tokenizer->encode_prompt(prompt).tokens;
}

Result<TrimBench::Question> TrimBench::encode_question(const TrimCase& one, std::size_t first,
                                                       std::optional<std::size_t> second) const {
  const TrimPair& asked = one.pairs[second.value_or(first)];
  std::vector<text::ChatMessage> messages = {message("user", one.context),
                                             message("assistant", "I have read the list.")};
  messages.push_back(message("user", one.pairs[first].question()));
  if (second) {
    const TrimPair& before = one.pairs[first];
    messages.push_back(message("assistant", str_cat(before.answer_lead(), " ", before.value, ".")));
    messages.push_back(message("user", asked.question()));
  }
  Question question;
  question.second_turn = second.has_value();
  question.place = static_cast<double>(second.value_or(first)) /
                   static_cast<double>(std::max<std::size_t>(1, one.pairs.size() - 1));
  ASSIGN_OR_RETURN(question.tokens, encode(messages));
  const auto answer = [&](const std::string& text) {
    TokenList tokens = question.tokens;
    const TokenList more = compute_.loaded.tokenizer->encode(text, {.add_bos = false});
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  };
  const TokenList lead = answer(asked.answer_lead());
  const TokenList whole = answer(str_cat(asked.answer_lead(), " ", asked.value));
  question.value_begin = common_prefix(lead, whole);
  question.value_end = whole.size();
  question.tokens = whole;
  return question;
}

Result<std::vector<TrimBench::Question>> TrimBench::encode_questions(const TrimCase& one,
                                                                     TokenList* context) const {
  std::vector<Question> questions;
  const std::size_t count = std::min(options_.questions, one.pairs.size());
  const auto pair_of = [&](std::size_t i) { return i * one.pairs.size() / count; };
  for (std::size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Question single, encode_question(one, pair_of(i), std::nullopt));
    ASSIGN_OR_RETURN(Question turn,
                     encode_question(one, pair_of((i + count / 2) % count), pair_of(i)));
    questions.push_back(std::move(single));
    questions.push_back(std::move(turn));
  }
  // Another question has only what comes before both in common with them.
  ASSIGN_OR_RETURN(const TokenList other,
                   encode({message("user", one.context),
                           message("assistant", "I have read the list."), message("user", "?")}));
  std::size_t shared = other.size();
  for (const Question& question : questions)
    shared = std::min(shared, common_prefix(other, question.tokens));
  context->assign(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(shared));
  for (Question& question : questions) {
    question.tokens.erase(question.tokens.begin(),
                          question.tokens.begin() + static_cast<std::ptrdiff_t>(shared));
    question.value_begin -= shared;
    question.value_end -= shared;
    if (question.value_begin <= kRowsInFront || question.value_begin == question.value_end)
      return Error{Code::kInternal, "a generated case has no answer to score"};
  }
  return questions;
}

// ---- running

Result<SequenceId> TrimBench::open(const TokenList& context, std::uint32_t more) {
  const SequenceId id{next_id_++};
  const auto wanted = static_cast<std::uint32_t>(context.size()) + more;
  const kv::ReusePlan plan = ledger_->plan(kSpace, context);
  if (wanted > compute_.sizing.max_context)
    return Error{Code::kInvalidArgument,
                 str_cat("a case of ", wanted, " tokens is longer than the ",
                         compute_.sizing.max_context, " served"),
                 too_long_hint(compute_.sizing, "ask for fewer --pairs")};
  if (!ledger_->can_admit(plan, wanted)) return no_room(wanted);
  ASSIGN_OR_RETURN(const kv::Admission admission, ledger_->admit(id, plan, wanted, 0));
  for (const kv::BlockCopy& copy : admission.copies) compute_.executor->copy_rows(copy);
  std::vector<float> none;
  const auto rest = std::span(context).subspan(admission.cached_tokens);
  const Result<void> ran = run(id, rest, rest.size(), none);
  if (!ran.ok()) {
    close(id);
    return ran.error();
  }
  ledger_->commit(id);
  return id;
}

void TrimBench::close(SequenceId id) {
  ledger_->rollback(id);
  ledger_->release(id, 0);
}

Result<void> TrimBench::run(SequenceId id, std::span<const TokenId> tokens,
                            std::size_t first_logits, std::vector<float>& logits) {
  for (std::size_t done = 0; done < tokens.size();) {
    const auto part =
        tokens.subspan(done, std::min<std::size_t>(options_.step_tokens, tokens.size() - done));
    const std::uint32_t begin = ledger_->length(id), dropped = ledger_->dropped(id);
    ledger_->append(id, part, 0);
    const kv::BlockTable& table = ledger_->table(id);
    model::Batch batch;
    batch.sequences.push_back({.table = &table,
                               .length = ledger_->length(id),
                               .dropped = dropped,
                               .view = view_,
                               .open_tile = &open_tile_});
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto position = static_cast<Position>(begin + i);
      batch.rows.push_back({.token = part[i],
                            .position = position,
                            .sequence = 0,
                            .slot = kv::slot_of(table, position - static_cast<Position>(dropped),
                                                compute_.block_size),
                            .wants_logits = done + i >= first_logits});
    }
    RETURN_IF_ERROR(compute_.executor->run(batch, output_));
    logits.insert(logits.end(), output_.logits.begin(), output_.logits.end());
    done += part.size();
  }
  return {};
}

Result<std::vector<float>> TrimBench::ask(SequenceId id, const Question& question) {
  std::vector<float> rows;
  // The last token of the value is predicted, and need not be fed.
  const auto fed = std::span(question.tokens).first(question.value_end - 1);
  const Result<void> ran = run(id, fed, question.scored_from() - 1, rows);
  ledger_->rollback(id);
  if (!ran.ok()) return ran.error();
  return rows;
}

bool TrimBench::is_right(const Question& question, std::span<const float> rows) const {
  const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
  for (std::size_t at = question.value_begin; at < question.value_end; ++at) {
    const auto row = rows.subspan((at - question.scored_from()) * width, width);
    if (static_cast<std::int32_t>(likeliest(row)) != to_int(question.tokens[at])) return false;
  }
  return true;
}

Result<TrimResult> TrimBench::measure_cut(const TokenList& context,
                                          const std::vector<Question>& questions,
                                          const model::TrimPolicy& policy, std::uint32_t ratio,
                                          model::TrimScores& scores, Tick& look) {
  const std::uint32_t length = static_cast<std::uint32_t>(context.size());
  const std::uint32_t budget = length / ratio;
  if (budget < model::least_trim_budget(parts_.bounds()))
    return Error{Code::kInvalidArgument,
                 str_cat("a context of ", length, " tokens cannot be cut to 1/", ratio, " of it"),
                 "ask for more --pairs or a smaller ratio"};
  std::uint32_t longest = 0;
  for (const Question& question : questions)
    longest = std::max(longest, static_cast<std::uint32_t>(question.tokens.size()));
  const std::uint32_t scratch = engine::ContextTrim::scratch_tokens(parts_, policy);
  ASSIGN_OR_RETURN(const SequenceId id, open(context, std::max(longest, scratch)));
  ledger_->stop_publishing(id);
  engine::ContextTrim trim(parts_, id, policy, {.tokens = context}, scores);
  TrimResult result{.policy = &policy, .ratio = ratio, .context_tokens = length};
  const auto cut_and_ask = [&]() -> Result<void> {
    const Tick began = clock_.now();
    while (trim.looking()) RETURN_IF_ERROR(trim.look(0));
    if (scores.empty()) look = clock_.now() - began;
    scores = trim.scores();
    RETURN_IF_ERROR(trim.cut(budget, 0, length + longest));
    view_ = trim.view();
    result.kept_tokens = ledger_->length(id) - ledger_->dropped(id);
    const std::size_t width = compute_.loaded.model->shape().vocabulary_size;
    for (const Question& question : questions) {
      ASSIGN_OR_RETURN(const std::vector<float> rows, ask(id, question));
      const RowErrors errors = compare_rows(question.full_rows, rows, width);
      TrimAnswer answer{question.place, is_right(question, rows), question.second_turn};
      for (const double kl : errors.kl) answer.kl += kl / static_cast<double>(errors.kl.size());
      answer.same_top =
          static_cast<double>(errors.agreeing) / static_cast<double>(errors.kl.size());
      result.answers.push_back(answer);
    }
    return {};
  };
  const Result<void> done = cut_and_ask();
  view_ = nullptr;
  close(id);
  if (!done.ok()) return done.error();
  result.look = look;
  return result;
}

Result<std::vector<TrimResult>> TrimBench::measure(const TrimCase& one) {
  ledger_->drop_all();
  TokenList context;
  ASSIGN_OR_RETURN(std::vector<Question> questions, encode_questions(one, &context));
  std::uint32_t longest = 0;
  for (const Question& question : questions)
    longest = std::max(longest, static_cast<std::uint32_t>(question.tokens.size()));
  ASSIGN_OR_RETURN(const SequenceId id, open(context, longest));
  std::vector<TrimResult> results(1);
  TrimResult& full = results.front();
  full.context_tokens = full.kept_tokens = static_cast<std::uint32_t>(context.size());
  for (Question& question : questions) {
    Result<std::vector<float>> rows = ask(id, question);
    if (!rows.ok()) {
      close(id);
      return rows.error();
    }
    question.full_rows = std::move(*rows);
    full.answers.push_back({.place = question.place,
                            .right = is_right(question, question.full_rows),
                            .second_turn = question.second_turn});
  }
  close(id);
  for (const model::TrimPolicy* policy : options_.policies) {
    model::TrimScores scores;
    Tick look = 0;
    for (const std::uint32_t ratio : options_.ratios) {
      ASSIGN_OR_RETURN(TrimResult cut,
                       measure_cut(context, questions, *policy, ratio, scores, look));
      results.push_back(std::move(cut));
    }
  }
  return results;
}

}  // namespace refrain::cli
