// Cold runs. Main thread.
#include "cli/exact_reference.h"

#include <algorithm>

#include "base/check.h"
#include "base/str.h"
#include "engine/sampler.h"
#include "kv/block_table.h"
#include "model/open_tile.h"

namespace refrain::cli {
namespace {

constexpr std::uint32_t kReferenceBlockSize = 16;

std::uint32_t blocks_of(std::uint32_t tokens) {
  return (tokens + kReferenceBlockSize - 1) / kReferenceBlockSize;
}

// One sequence after the other in an arena of their own; each takes blocks that none has used.
class ColdRun {
 public:
  static Result<std::unique_ptr<ColdRun>> create(const ExactSubject& subject,
                                                 const TrialPlan& plan) {
    std::uint32_t blocks = 0, longest = 1;
    for (const TrialTurn& turn : plan.turns) {
      blocks += blocks_of(turn.length());
      longest = std::max(longest, turn.prompt_length());
    }
    std::unique_ptr<ColdRun> run(new ColdRun(subject, plan.row_by_row ? 1 : longest));
    ASSIGN_OR_RETURN(run->arena_, model::KvArena::create(subject.model->shape(), subject.format,
                                                         kReferenceBlockSize, blocks));
    ASSIGN_OR_RETURN(run->executor_,
                     subject.make_executor(*subject.model, *run->arena_,
                                           {.thread_count = 1, .max_batch_rows = run->chunk_}));
    return run;
  }

  // Another sequence; nothing of the one before is used.
  void begin(std::uint32_t length) {
    table_.clear();
    for (std::uint32_t i = blocks_of(length); i > 0; --i) table_.push_back(BlockId{next_block_++});
    done_ = 0;
    logits_.clear();
  }

  Result<void> feed(std::span<const TokenId> tokens) {
    for (; !tokens.empty(); tokens = tokens.subspan(std::min<std::size_t>(chunk_, tokens.size())))
      RETURN_IF_ERROR(step(tokens.first(std::min<std::size_t>(chunk_, tokens.size()))));
    return {};
  }

  const std::vector<float>& logits() const { return logits_; }  // [rows fed, vocabulary_size]

  // The likeliest token behind the last row, chosen as the engine chooses.
  Result<TokenId> next_token() {
    const std::size_t width = subject_.model->shape().vocabulary_size;
    std::vector<float> last(logits_.end() - static_cast<std::ptrdiff_t>(width), logits_.end());
    engine::SamplingParams greedy;
    greedy.temperature = 0.0F;
    engine::Sampler sampler(greedy, 0, {});
    ASSIGN_OR_RETURN(const engine::Sample sample, sampler.sample(last, nullptr));
    return sample.token;
  }

 private:
  ColdRun(const ExactSubject& subject, std::uint32_t chunk) : subject_(subject), chunk_(chunk) {}

  Result<void> step(std::span<const TokenId> tokens) {
    model::Batch batch;
    const auto end = done_ + static_cast<std::uint32_t>(tokens.size());
    batch.sequences.push_back({.table = &table_, .length = end, .open_tile = &open_tile_});
    for (const TokenId token : tokens) {
      const auto position = static_cast<Position>(done_++);
      batch.rows.push_back({.token = token,
                            .position = position,
                            .sequence = 0,
                            .slot = kv::slot_of(table_, position, kReferenceBlockSize),
                            .wants_logits = true});
    }
    RETURN_IF_ERROR(executor_->run(batch, output_));
    logits_.insert(logits_.end(), output_.logits.begin(), output_.logits.end());
    return {};
  }

  const ExactSubject& subject_;
  const std::uint32_t chunk_;
  std::unique_ptr<model::KvArena> arena_;
  std::unique_ptr<model::Executor> executor_;
  kv::BlockTable table_;
  model::OpenTile open_tile_;
  std::uint32_t next_block_ = 0;
  std::uint32_t done_ = 0;
  model::BatchOutput output_;
  std::vector<float> logits_;
};

Result<void> compute_turn(ColdRun& run, const TrialTurn& turn, TokenList prompt,
                          ReferenceBook& book, Findings& findings) {
  const std::uint32_t prompt_length = turn.prompt_length();
  run.begin(turn.length());
  TokenList tokens = std::move(prompt);
  RETURN_IF_ERROR(run.feed(tokens));
  while (tokens.size() < turn.length()) {
    ASSIGN_OR_RETURN(const TokenId next, run.next_token());
    tokens.push_back(next);
    RETURN_IF_ERROR(run.feed(std::span(tokens).last(1)));
  }
  book.add({.tokens = std::move(tokens), .prompt_length = prompt_length}, run.logits(), findings);
  return {};
}

}  // namespace

Hash128 extend_prefix(const Hash128& previous, TokenId token) {
  return hash_chain(previous, std::as_bytes(std::span(&token, 1)));
}

void ReferenceBook::add(Turn turn, std::span<const float> logits, Findings& findings) {
  const std::size_t length = turn.tokens.size();
  CHECK(length > 0 && logits.size() % length == 0, "a turn without all its logits");
  const std::size_t width = logits.size() / length;
  const std::size_t index = turns_.size();
  turns_.push_back(std::move(turn));
  const std::span<const TokenId> tokens = turns_.back().tokens;
  Hash128 prefix{};
  for (std::size_t i = 0; i < length; ++i) {
    prefix = extend_prefix(prefix, tokens[i]);
    const std::span<const float> row = logits.subspan(i * width, width);
    const auto position = static_cast<Position>(i);
    if (const Row* known = find(prefix, tokens.first(i + 1))) {
      findings.compare(known->logits, row,
                       {.turn = index, .position = position, .row = i, .row_count = length});
      continue;
    }
    rows_.push_back(Row{.turn = index,
                        .position = position,
                        .in_reply = i >= turns_.back().prompt_length,
                        .logits = {row.begin(), row.end()}});
    by_prefix_.emplace(prefix, &rows_.back());
  }
}

const ReferenceBook::Row* ReferenceBook::find(const Hash128& prefix,
                                              std::span<const TokenId> tokens) const {
  const auto found = by_prefix_.find(prefix);
  if (found == by_prefix_.end()) return nullptr;
  const Row& row = *found->second;
  const TokenList& known = turns_[row.turn].tokens;
  const auto length = static_cast<std::size_t>(row.position) + 1;
  return length == tokens.size() && std::equal(tokens.begin(), tokens.end(), known.begin())
             ? &row
             : nullptr;
}

Result<ReferenceBook> compute_reference(const ExactSubject& subject, const TrialPlan& plan,
                                        Findings& findings) {
  ReferenceBook book;
  findings.setting = str_cat("two cold runs, executor ", subject.executor_name, ", KV format ",
                             subject.format_name);
  ASSIGN_OR_RETURN(const auto run, ColdRun::create(subject, plan));
  for (const TrialTurn& turn : plan.turns) {
    TokenList tokens;
    if (turn.parent) {
      const TokenList& before = book.turns()[*turn.parent].tokens;
      tokens.assign(before.begin(), before.begin() + turn.kept);
      if (turn.fresh.empty()) {  // asked again: prompt and reply are known
        book.add_known(book.turns()[*turn.parent]);
        continue;
      }
    }
    tokens.insert(tokens.end(), turn.fresh.begin(), turn.fresh.end());
    RETURN_IF_ERROR(compute_turn(*run, turn, std::move(tokens), book, findings));
  }
  return book;
}

}  // namespace refrain::cli
