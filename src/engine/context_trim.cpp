// See context_trim.h.
#include "engine/context_trim.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/distribution.h"

namespace refrain::engine {
namespace {

constexpr std::uint32_t kAskedRows = 64;   // of the end of a context
constexpr std::uint32_t kPieceRows = 256;  // of a repetition, with what asks for it
constexpr std::uint32_t kLeadRows = 8;     // in front of a piece, so that it is clear what follows
constexpr std::uint32_t kQueryRows = 256;  // of the end of a context
constexpr std::uint32_t kLogits = 8U << 20U;              // held at a time, 32 MiB
constexpr std::uint32_t kQueries = 8U << 20U;             // numbers held at a time, 32 MiB
constexpr std::size_t kProducts = std::size_t{1} << 28U;  // of one look: some 50 ms

std::uint32_t blocks_of(std::uint32_t tokens, std::uint32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

// In nats; 1 where the logits say nothing.
float surprise_of(std::span<const float> logits, TokenId token) {
  const LogitScan scan = scan_logits(logits);
  if (!scan.finite) return 1.0F;
  const double logit = double{logits[static_cast<std::size_t>(to_int(token))]};
  return static_cast<float>(std::max(0.0, log_sum_exp(logits, scan.max) - logit));
}

}  // namespace

std::uint32_t ContextTrim::scratch_tokens(const TrimParts& parts, const model::TrimPolicy& policy) {
  const std::uint32_t block_size = parts.bounds().block_size;
  switch (policy.look) {
    case model::TrimLook::kNone:
      return 0;
    case model::TrimLook::kLastRows:
      return kAskedRows + 3 * block_size;  // whole blocks on both sides
    case model::TrimLook::kRepetition:
      return kPieceRows + (policy.weighs_surprise ? 3 * block_size : 0);
    case model::TrimLook::kQueries:
      return kQueryRows + 3 * block_size;
  }
  return 0;
}

ContextTrim::ContextTrim(const TrimParts& parts, SequenceId id, const model::TrimPolicy& policy,
                         TrimmedContext context, model::TrimScores scores)
    : parts_(parts),
      id_(id),
      policy_(policy),
      context_(std::move(context)),
      scores_(std::move(scores)) {
  const std::uint32_t length = parts_.ledger->length(id_);
  CHECK(length == context_.tokens.size() && parts_.ledger->dropped(id_) == 0, "another context");
  looked_ = policy_.look == model::TrimLook::kNone ? length : scores_.length;
  CHECK(looked_ <= length &&
            (looked_ == 0 || looked_ == length || policy_.look == model::TrimLook::kRepetition),
        "scores of another context");
  if (!looking()) return;
  CHECK(parts_.can_look, "operators that show no attention");
  scores_ = scores_.empty()
                ? model::TrimScores{parts_.layer_count, parts_.kv_head_count, length, {}}
                : scores_.resized(length);
}

Result<void> ContextTrim::look(Tick now) {
  CHECK(looking(), "all was looked at");
  Result<void> ran;
  if (policy_.look == model::TrimLook::kLastRows) {
    const std::size_t length = context().size();
    ran = run(rows_again(length - std::min<std::size_t>(length, kAskedRows), length, now), {});
    looked_ = length;
  } else if (policy_.look == model::TrimLook::kQueries) {
    ran = look_at_queries(now);
  } else {
    ran = look_at_piece(now);
  }
  parts_.ledger->rollback(id_);
  return ran;
}

// One of its two passes: the first finds what the second is weighted with.
Result<void> ContextTrim::look_at_piece(Tick now) {
  const std::size_t end = piece_end();
  if (policy_.weighs_surprise && surprise_.empty())
    return find_surprise(rows_again(looked_, end, now));
  const Result<void> ran = run(repetition(end, now), surprise_);
  surprise_.clear();
  looked_ = end;
  return ran;
}

// Rows [begin, end) once more, at their own positions, in blocks of their own: what they write is
// what their shared blocks hold already.
ContextTrim::Pass ContextTrim::rows_again(std::size_t begin, std::size_t end, Tick now) {
  const std::uint32_t block_size = parts_.bounds().block_size;
  const auto length = static_cast<std::uint32_t>(context().size());
  Pass pass;
  pass.first = static_cast<std::uint32_t>(begin / block_size * block_size);
  pass.asked_from = static_cast<std::uint32_t>(begin) - pass.first;
  pass.end = length;
  const auto at = [&](std::size_t index) {
    return context().begin() + static_cast<std::ptrdiff_t>(index);
  };
  pass.tokens.assign(at(pass.first), at(end));
  const std::uint32_t blocks = blocks_of(length, block_size);
  const std::uint32_t again =
      blocks_of(static_cast<std::uint32_t>(end), block_size) - pass.first / block_size;
  const TokenList fill((blocks + again) * block_size - length, TokenId{0});
  parts_.ledger->append(id_, fill, now);
  const kv::BlockTable& table = parts_.ledger->table(id_);
  pass.table.assign(table.begin(), table.begin() + pass.first / block_size);
  pass.table.insert(pass.table.end(), table.begin() + blocks, table.end());
  return pass;
}

std::size_t ContextTrim::lead_tokens() const {
  return parts_.repeat_request.size() + std::min<std::size_t>(looked_, kLeadRows);
}

std::size_t ContextTrim::piece_end() const {
  CHECK(lead_tokens() < kPieceRows, "no room for a piece behind what asks for it");
  return std::min<std::size_t>(context().size(), looked_ + kPieceRows - lead_tokens());
}

ContextTrim::Pass ContextTrim::repetition(std::size_t end, Tick now) {
  Pass pass;
  pass.first = static_cast<std::uint32_t>(context().size());
  pass.tokens = parts_.repeat_request;
  const auto at = [&](std::size_t index) {
    return context().begin() + static_cast<std::ptrdiff_t>(index);
  };
  pass.tokens.insert(pass.tokens.end(), at(looked_ - std::min<std::size_t>(looked_, kLeadRows)),
                     at(looked_));
  pass.asked_from = static_cast<std::uint32_t>(pass.tokens.size());
  pass.tokens.insert(pass.tokens.end(), at(looked_), at(end));
  parts_.ledger->append(id_, pass.tokens, now);
  pass.table = parts_.ledger->table(id_);
  // Each row is judged by its own piece alone: so what was found for a beginning stays what it is.
  pass.begin = static_cast<std::uint32_t>(looked_);
  pass.end = static_cast<std::uint32_t>(end);
  return pass;
}

// Rows [done, end) of a pass; those from `asked_from` on are asked for.
void ContextTrim::fill_batch(const Pass& pass, std::uint32_t done, std::uint32_t end) {
  if (done == 0) open_tile_ = {};
  batch_.sequences.assign(
      1, {.table = &pass.table, .length = pass.first + end, .open_tile = &open_tile_});
  batch_.rows.clear();
  for (; done < end; ++done) {
    const auto position = static_cast<Position>(pass.first + done);
    batch_.rows.push_back({.token = pass.tokens[done],
                           .position = position,
                           .sequence = 0,
                           .slot = kv::slot_of(pass.table, position, parts_.bounds().block_size)});
  }
}

// `weights`: of the rows that are asked; empty: all count the same.
Result<void> ContextTrim::run(const Pass& pass, std::span<const float> weights) {
  const auto count = static_cast<std::uint32_t>(pass.tokens.size());
  batch_.first_mass_layer = 0;
  batch_.mass_kind = policy_.mass;
  for (std::uint32_t done = 0; done < count;) {
    const std::uint32_t end = std::min(count, done + parts_.executor->max_batch_rows());
    fill_batch(pass, done, end);
    for (std::uint32_t row = std::max(done, pass.asked_from); row < end; ++row) {
      batch_.rows[row - done].wants_mass = true;
      if (!weights.empty()) batch_.rows[row - done].mass_weight = weights[row - pass.asked_from];
    }
    // Without a row that wants logits the last layer attends to nothing.
    batch_.rows.back().wants_logits = true;
    RETURN_IF_ERROR(parts_.executor->run(batch_, output_));
    for (const model::AttentionMass& mass : output_.mass)
      scores_.add(mass, policy_.mass, pass.begin, pass.end);
    done = end;
  }
  return {};
}

// How much the token behind each asked row surprises the model: -log of its probability. Nobody
// knows what comes behind the last one.
Result<void> ContextTrim::find_surprise(const Pass& pass) {
  const auto count = static_cast<std::uint32_t>(pass.tokens.size());
  std::vector<float> found;
  const std::uint32_t most =
      std::clamp(kLogits / parts_.vocabulary_size, 1U, parts_.executor->max_batch_rows());
  for (std::uint32_t done = 0; done < count;) {
    const std::uint32_t end = std::min(count, done + most);
    fill_batch(pass, done, end);
    const std::uint32_t asked = std::max(done, pass.asked_from);
    for (std::uint32_t row = asked; row < end; ++row) batch_.rows[row - done].wants_logits = true;
    RETURN_IF_ERROR(parts_.executor->run(batch_, output_));
    for (std::uint32_t row = asked; row < end; ++row) {
      const auto logits =
          std::span(output_.logits)
              .subspan(std::size_t{row - asked} * parts_.vocabulary_size, parts_.vocabulary_size);
      const std::size_t next = std::size_t{pass.first} + row + 1;
      found.push_back(next < context().size() ? surprise_of(logits, context()[next]) : 1.0F);
    }
    done = end;
  }
  surprise_ = std::move(found);
  // A look may be one of many, and each lives as long as its answer.
  std::vector<float>().swap(output_.logits);
  return {};
}

// First the pass, then the heads, some at a time.
Result<void> ContextTrim::look_at_queries(Tick now) {
  if (expected_ != nullptr) {
    score_heads();
    return {};
  }
  constexpr std::size_t kSinks = model::ExpectedAttention::kSinkRows;
  const std::size_t length = context().size();
  const std::size_t begin =
      length <= kSinks ? 0 : std::max(kSinks, length - std::min<std::size_t>(length, kQueryRows));
  auto expected = std::make_unique<model::ExpectedAttention>(*parts_.model);
  RETURN_IF_ERROR(run_for_queries(rows_again(begin, length, now), *expected));
  expected->expect_from(static_cast<Position>(length));
  expected_ = std::move(expected);
  return {};
}

Result<void> ContextTrim::run_for_queries(const Pass& pass, model::ExpectedAttention& expected) {
  const auto count = static_cast<std::uint32_t>(pass.tokens.size());
  const model::ModelShape& shape = parts_.model->shape();
  const std::uint32_t most =
      std::clamp(kQueries / (shape.layer_count * shape.head_count * shape.key_dim), 1U,
                 parts_.executor->max_batch_rows());
  std::vector<Position> positions;
  for (std::uint32_t done = 0; done < count;) {
    const std::uint32_t end = std::min(count, done + most);
    fill_batch(pass, done, end);
    positions.clear();
    for (std::uint32_t row = std::max(done, pass.asked_from); row < end; ++row) {
      batch_.rows[row - done].wants_queries = true;
      positions.push_back(batch_.rows[row - done].position);
    }
    batch_.rows.back().wants_logits = true;  // for the last layer, as in run()
    RETURN_IF_ERROR(parts_.executor->run(batch_, output_));
    expected.add(output_.queries, positions);
    done = end;
  }
  std::vector<float>().swap(output_.queries);  // as in find_surprise()
  return {};
}

void ContextTrim::score_heads() {
  const std::size_t length = context().size();
  const kv::BlockTable& table = parts_.ledger->table(id_);
  std::vector<std::size_t> slots;
  slots.reserve(length);
  for (std::size_t row = 0; row < length; ++row)
    slots.push_back(kv::slot_of(table, static_cast<Position>(row), parts_.bounds().block_size));
  const std::uint32_t heads = parts_.layer_count * parts_.kv_head_count;
  scores_.values.resize(heads * length, 0.0F);
  for (std::size_t products = 0; scored_heads_ < heads && products < kProducts; ++scored_heads_) {
    expected_->score(scored_heads_ / parts_.kv_head_count, scored_heads_ % parts_.kv_head_count,
                     *parts_.arena, slots,
                     std::span(scores_.values).subspan(scored_heads_ * length, length));
    products += length * expected_->products_per_row();
  }
  if (scored_heads_ < heads) return;
  looked_ = length;
  expected_.reset();
}

Result<void> ContextTrim::cut(std::uint32_t budget_tokens, std::uint32_t room_tokens,
                              std::uint32_t max_total_tokens) {
  CHECK(!looking() && !was_cut(), "a context is cut once, after the look");
  const std::uint32_t rows = parts_.ledger->length(id_);
  model::TrimBounds bounds = parts_.bounds();
  bounds.head_rows = context_.head_tokens;
  if (budget_tokens < model::least_trim_budget(bounds))
    return Error{Code::kInternal,
                 "a budget without room for the head got past the check of requests"};
  const std::optional<model::TrimShape> shape =
      model::trim_shape(policy_, rows, budget_tokens, room_tokens, bounds, context_.turn_begin);
  if (!shape) return {};
  if (policy_.choice == model::TrimChoice::kBlocks) {
    cut_blocks(*shape, max_total_tokens);
  } else {
    RETURN_IF_ERROR(cut_rows(*shape, max_total_tokens));
  }
  max_total_tokens_ = max_total_tokens;
  kept_front_ = shape->sink_blocks + shape->middle_blocks;
  recent_row_ = shape->recent_begin * bounds.block_size;
  scores_ = {};
  return {};
}

Result<void> ContextTrim::cut_rows(const model::TrimShape& shape, std::uint32_t max_total_tokens) {
  const kv::Cut cut{shape.sink_blocks, shape.recent_begin, shape.middle_blocks};
  ASSIGN_OR_RETURN(const kv::BlockTable dropped, parts_.ledger->trim(id_, cut, max_total_tokens));
  const auto gathered = std::span(parts_.ledger->table(id_)).subspan(cut.begin, cut.gathered);
  if (!gathered.empty()) gather(dropped, cut.begin * parts_.bounds().block_size, gathered);
  return {};
}

// Of rows [first, first + count); those that came after the look have none.
model::TrimScores ContextTrim::scores_of_rows(std::uint32_t first, std::uint32_t count) const {
  model::TrimScores scores{parts_.layer_count, parts_.kv_head_count, count, {}};
  scores.values.assign(std::size_t{parts_.layer_count} * parts_.kv_head_count * count, 0.0F);
  const std::uint32_t end = std::min(first + count, scores_.length);
  auto to = scores.values.begin();
  for (std::uint32_t layer = 0; layer < parts_.layer_count; ++layer) {
    for (std::uint32_t head = 0; head < parts_.kv_head_count; ++head, to += count) {
      const std::span<const float> looked = scores_.of(layer, head);
      if (first < end) std::copy(looked.begin() + first, looked.begin() + end, to);
    }
  }
  return scores;
}

// `from`: the blocks of the cut, whose first row is row `first_row` of the context.
void ContextTrim::gather(const kv::BlockTable& from, std::uint32_t first_row,
                         std::span<const BlockId> to) {
  const std::uint32_t block_size = parts_.bounds().block_size;
  const auto rows = static_cast<std::uint32_t>(from.size()) * block_size;
  const auto tiles = static_cast<std::uint32_t>(to.size()) * block_size / kernels::kTileTokens;
  const model::TrimScores scores = scores_of_rows(first_row, rows);
  const std::vector<std::uint32_t> counts = model::spread_tiles(
      scores, tiles * parts_.layer_count * parts_.kv_head_count, policy_.choice);
  view_ = std::make_unique<model::HeadView>(*parts_.arena, first_row, to, counts);
  std::vector<std::size_t> slots;
  for (std::uint32_t layer = 0; layer < parts_.layer_count; ++layer) {
    for (std::uint32_t head = 0; head < parts_.kv_head_count; ++head) {
      const std::uint32_t count = counts[layer * parts_.kv_head_count + head];
      slots.clear();
      for (const std::uint32_t row :
           model::choose_rows(scores.of(layer, head), count * kernels::kTileTokens, policy_.reach))
        slots.push_back(kv::slot_of(from, static_cast<Position>(row), block_size));
      view_->gather(*parts_.arena, layer, head, slots);
    }
  }
}

// Whole blocks go, from the back to the front, so that indices in front stay what they are.
void ContextTrim::cut_blocks(const model::TrimShape& shape, std::uint32_t max_total_tokens) {
  const std::uint32_t block_size = parts_.bounds().block_size;
  const std::uint32_t begin = shape.sink_blocks, end = shape.recent_begin;
  const std::vector<float> scores =
      model::block_scores(scores_, begin * block_size, end * block_size, block_size);
  std::vector<bool> stays(end, false);
  for (const std::uint32_t block : model::choose_rows(scores, shape.middle_blocks, policy_.reach))
    stays[begin + block] = true;
  for (std::uint32_t at = end; at > begin;) {
    const std::uint32_t run_end = at;
    while (at > begin && !stays[at - 1]) --at;
    if (at < run_end) {
      const auto cut = parts_.ledger->trim(id_, {at, run_end, 0}, max_total_tokens);
      CHECK(cut.ok(), "a cut that gathers nothing needs no room");
    }
    while (at > begin && stays[at - 1]) --at;
  }
}

void ContextTrim::slide(std::uint32_t budget_tokens) {
  CHECK(was_cut(), "slide() before cut()");
  const std::uint32_t block_size = parts_.bounds().block_size;
  const auto most = budget_tokens / block_size;
  const auto have = static_cast<std::uint32_t>(parts_.ledger->table(id_).size());
  if (have <= most) return;
  std::uint32_t gone = have - most;
  const std::uint32_t left = have - kept_front_ - gone;
  const std::uint32_t more = model::blocks_before_turn(recent_row_ + gone * block_size, left,
                                                       block_size, context_.turn_begin);
  if (left - more >= model::least_recent_blocks(parts_.bounds())) gone += more;
  const auto cut =
      parts_.ledger->trim(id_, {kept_front_, kept_front_ + gone, 0}, max_total_tokens_);
  CHECK(cut.ok(), "a cut that gathers nothing needs no room");
  recent_row_ += gone * block_size;
}

}  // namespace refrain::engine
