// A trial's turns over the ledger: admissions, chunks, batch mates, rejected rows, early ends, lost
// caches and restarts, all drawn at random. The tokens of replies are those of the reference, so a
// turn may begin before its parent has ended. Main thread.
#include <algorithm>
#include <deque>

#include "base/check.h"
#include "base/str.h"
#include "cli/exact_host.h"
#include "cli/exact_run.h"
#include "model/open_tile.h"

namespace refrain::cli {
namespace {

struct RunningTurn {
  std::size_t turn = 0;
  SequenceId id{};
  std::uint32_t done = 0;  // rows that count
  model::OpenTile open_tile = {};
};

// Rows of one turn in one step.
struct Piece {
  RunningTurn* running = nullptr;
  TokenList tokens;
  bool right = true;  // tokens of the turn; else a draft to be rejected
  bool kept = true;   // committed after the step; else rolled back
};

class LedgerRun {
 public:
  LedgerRun(const ExactSubject& subject, const TrialPlan& plan, const ReferenceBook& book,
            Findings& findings)
      : subject_(subject), book_(book), findings_(findings), rng_(plan.schedule_seed) {
    for (std::size_t turn = 0; turn < plan.turns.size(); ++turn) waiting_.push_back(turn);
    // Alone half of the time, so that turns find the replies of their parents.
    if (rng_.below(2) == 0) max_running_ = 2 + rng_.below(3);
  }

  Result<void> run() {
    ASSIGN_OR_RETURN(host_, TrialHost::create(subject_, book_, rng_, findings_));
    while (!waiting_.empty() || !running_.empty()) {
      RETURN_IF_ERROR(admit_some());
      RETURN_IF_ERROR(step());
      end_some();
      RETURN_IF_ERROR(disturb());
    }
    host_->close();
    return {};
  }

 private:
  Result<void> admit_some();
  Result<bool> admit(std::size_t turn);
  Result<void> step();
  Piece choose_piece(RunningTurn& running, std::uint32_t room);
  void add_rows(const Piece& piece, model::Batch& batch);
  void end_some();
  Result<void> disturb();
  Result<void> restart();

  const ExactSubject& subject_;
  const ReferenceBook& book_;
  Findings& findings_;
  Rng rng_;
  std::unique_ptr<TrialHost> host_;
  std::deque<std::size_t> waiting_;
  std::vector<RunningTurn> running_;
  std::size_t max_running_ = 1;
  std::uint64_t next_id_ = 1;
  Tick now_ = 0;
  // Bounded, so that every trial ends.
  std::uint32_t rejections_left_ = 8;
  std::uint32_t early_ends_left_ = 2;
  std::uint32_t restarts_left_ = 2;
  model::BatchOutput output_;
};

Result<void> LedgerRun::admit_some() {
  while (!waiting_.empty() && running_.size() < max_running_) {
    // Mostly in order, so that a turn finds what its parent left.
    const std::size_t at = rng_.below(4) == 0 ? rng_.below(waiting_.size()) : 0;
    ASSIGN_OR_RETURN(const bool admitted, admit(waiting_[at]));
    if (!admitted) return {};
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    if (rng_.below(2) == 0) return {};
  }
  return {};
}

// False if it has to wait.
Result<bool> LedgerRun::admit(std::size_t turn) {
  const ReferenceBook::Turn& known = book_.turns()[turn];
  const TokenList prompt(known.tokens.begin(), known.tokens.begin() + known.prompt_length);
  kv::Ledger& ledger = host_->ledger();
  const SequenceId id{next_id_++};
  const Result<kv::Admission> admission = ledger.admit(
      id, ledger.plan({}, prompt), static_cast<std::uint32_t>(known.tokens.size()), ++now_);
  if (!admission.ok()) {
    if (admission.error().code == Code::kUnavailable && !running_.empty()) return false;
    return admission.error();
  }
  for (const kv::BlockCopy& copy : admission->copies) host_->executor().copy_rows(copy);
  const std::uint32_t block_size = host_->settings().ledger.block_size;
  for (std::uint32_t at = 0; at < admission->cached_tokens; ++at)
    findings_.coverage.reply_rows += host_->executor().was_generated(
        kv::slot_of(ledger.table(id), static_cast<Position>(at), block_size));
  running_.push_back({.turn = turn, .id = id, .done = admission->cached_tokens});
  return true;
}

Piece LedgerRun::choose_piece(RunningTurn& running, std::uint32_t room) {
  const ReferenceBook::Turn& turn = book_.turns()[running.turn];
  const bool in_prompt = running.done < turn.prompt_length;
  const auto length = static_cast<std::uint32_t>(turn.tokens.size());
  const std::uint32_t left = (in_prompt ? turn.prompt_length : length) - running.done;
  std::uint32_t count = 1;
  if (in_prompt) {
    const std::uint64_t draw = rng_.below(6);
    if (draw > 0) count = draw < 3 ? left : 1 + static_cast<std::uint32_t>(rng_.below(40));
  } else if (rng_.below(4) == 0) {
    count = 1 + static_cast<std::uint32_t>(rng_.below(4));  // a draft that is verified
  }
  count = std::min({count, left, room});
  const auto first = turn.tokens.begin() + running.done;
  Piece piece{.running = &running, .tokens = {first, first + count}};
  if (rejections_left_ > 0 && rng_.below(10) == 0) {
    --rejections_left_;
    piece.kept = false;
    piece.right = rng_.below(2) == 0;
    if (!piece.right)
      piece.tokens = random_tokens(rng_, count, subject_.model->shape().vocabulary_size);
  }
  return piece;
}

void LedgerRun::add_rows(const Piece& piece, model::Batch& batch) {
  kv::Ledger& ledger = host_->ledger();
  RunningTurn& running = *piece.running;
  const ReferenceBook::Turn& turn = book_.turns()[running.turn];
  const kv::BlockTable& table = ledger.table(running.id);
  const auto sequence = static_cast<std::uint32_t>(batch.sequences.size());
  batch.sequences.push_back(
      {.table = &table, .length = ledger.length(running.id), .open_tile = &running.open_tile});
  for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
    const std::uint32_t at = running.done + static_cast<std::uint32_t>(i);
    // Some rows go without, as they do in the engine; the others must not notice.
    const bool wants = at + 1 >= turn.prompt_length || rng_.below(2) == 0;
    batch.rows.push_back(
        {.token = piece.tokens[i],
         .position = static_cast<Position>(at),
         .sequence = sequence,
         .slot = kv::slot_of(table, static_cast<Position>(at), host_->settings().ledger.block_size),
         .wants_logits = piece.right && wants});
  }
}

Result<void> LedgerRun::step() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < running_.size(); ++i)
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(rng_.below(order.size() + 1)), i);
  std::vector<Piece> pieces;
  std::uint32_t room = host_->settings().max_batch_rows;
  for (const std::size_t index : order) {
    if (room == 0 || (!pieces.empty() && rng_.below(4) == 0)) continue;
    pieces.push_back(choose_piece(running_[index], room));
    room -= static_cast<std::uint32_t>(pieces.back().tokens.size());
  }
  model::Batch batch;
  for (const Piece& piece : pieces) host_->ledger().append(piece.running->id, piece.tokens, ++now_);
  for (const Piece& piece : pieces) add_rows(piece, batch);
  RETURN_IF_ERROR(host_->executor().run(batch, output_));
  for (const Piece& piece : pieces) {
    const auto count = static_cast<std::uint32_t>(piece.tokens.size());
    if (piece.kept) {
      host_->ledger().commit(piece.running->id);
      piece.running->done += count;
    } else {
      host_->ledger().rollback(piece.running->id);
      findings_.coverage.rejected_rows += count;
    }
  }
  return {};
}

// Turns that are through, and now and then one that is not: it starts again later.
void LedgerRun::end_some() {
  for (std::size_t i = running_.size(); i-- > 0;) {
    const RunningTurn& running = running_[i];
    const bool through = running.done == book_.turns()[running.turn].tokens.size();
    const bool early = !through && early_ends_left_ > 0 && rng_.below(16) == 0;
    if (!through && !early) continue;
    if (early) {
      --early_ends_left_;
      waiting_.push_back(running.turn);
    }
    host_->ledger().release(running.id, ++now_);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Result<void> LedgerRun::disturb() {
  if (rng_.below(32) == 0) host_->ledger().drop_all();
  // Threads that wait for each other by spinning are slow on a busy machine: a few steps are
  // enough.
  const std::uint64_t rarity = host_->settings().threads > 1 ? 4 : 24;
  if (rng_.below(rarity) == 0) RETURN_IF_ERROR(host_->replace_executor());
  if (restarts_left_ > 0 && rng_.below(40) == 0) RETURN_IF_ERROR(restart());
  return {};
}

Result<void> LedgerRun::restart() {
  --restarts_left_;
  ++findings_.coverage.restarts;
  for (const RunningTurn& running : running_) {
    waiting_.push_front(running.turn);
    host_->ledger().release(running.id, ++now_);
  }
  running_.clear();
  host_->close();
  ASSIGN_OR_RETURN(host_, TrialHost::create(subject_, book_, rng_, findings_));
  return {};
}

}  // namespace

Result<void> run_over_ledger(const ExactSubject& subject, const TrialPlan& plan,
                             const ReferenceBook& book, Findings& findings) {
  return LedgerRun(subject, plan, book, findings).run();
}

Result<Findings> run_trial(const ExactSubject& subject, const TrialPlan& plan) {
  Findings findings;
  ASSIGN_OR_RETURN(const ReferenceBook book, compute_reference(subject, plan, findings));
  const bool engine = plan.way == TrialWay::kEngine;
  RETURN_IF_ERROR((engine ? run_through_engine : run_over_ledger)(subject, plan, book, findings));
  return findings;
}

}  // namespace refrain::cli
