// Steps over several arenas. Main thread.
#include "cli/kv_comparison.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/str.h"
#include "capacity/ledgers.h"
#include "cli/perplexity.h"
#include "cli/row_errors.h"
#include "engine/distribution.h"

namespace refrain::cli {

KvComparison::KvComparison(Compute& compute, std::vector<model::KvFormat> formats,
                           std::uint32_t max_tokens, std::uint32_t step_tokens)
    : compute_(compute),
      formats_(std::move(formats)),
      max_tokens_(max_tokens),
      step_tokens_(step_tokens) {}

Result<std::unique_ptr<KvComparison>> KvComparison::create(Compute& compute,
                                                           std::vector<model::KvFormat> formats,
                                                           std::uint32_t max_tokens,
                                                           std::uint32_t step_tokens) {
  std::unique_ptr<KvComparison> made(
      new KvComparison(compute, std::move(formats), max_tokens, step_tokens));
  const std::uint32_t blocks =
      static_cast<std::uint32_t>(capacity::blocks_for(max_tokens, compute.block_size));
  for (std::uint32_t b = 0; b < blocks; ++b) made->table_.push_back(BlockId{b});
  for (const model::KvFormat format : made->formats_) {
    Lane lane;
    ASSIGN_OR_RETURN(lane.arena, model::KvArena::create(compute.loaded.model->shape(), format,
                                                        compute.block_size, blocks));
    made->lanes_.push_back(std::move(lane));
  }
  return made;
}

std::size_t KvComparison::vocabulary_size() const {
  return compute_.loaded.model->shape().vocabulary_size;
}

Result<void> KvComparison::run(Lane& lane, std::span<const TokenId> tokens, std::uint32_t at,
                               bool all_logits) {
  model::Batch batch;
  batch.sequences.push_back({.table = &table_,
                             .length = at + static_cast<std::uint32_t>(tokens.size()),
                             .open_tile = &lane.open_tile});
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto position = static_cast<Position>(at + i);
    batch.rows.push_back({.token = tokens[i],
                          .position = position,
                          .sequence = 0,
                          .slot = kv::slot_of(table_, position, compute_.block_size),
                          .wants_logits = all_logits || i + 1 == tokens.size()});
  }
  compute_.arena->swap(*lane.arena);
  Result<void> done = compute_.executor->run(batch, lane.output);
  compute_.arena->swap(*lane.arena);
  return done;
}

Result<void> KvComparison::feed(std::span<const TokenId> tokens, const OnRows& on_rows) {
  if (tokens.size() > max_tokens_ - length_) {
    return Error{Code::kInvalidArgument,
                 str_cat(length_ + tokens.size(), " tokens are more than the ", max_tokens_,
                         " there is room for"),
                 "ask for fewer tokens"};
  }
  while (!tokens.empty()) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::size_t>(tokens.size(), step_tokens_));
    Rows rows;
    for (Lane& lane : lanes_) {
      RETURN_IF_ERROR(run(lane, tokens.first(count), length_, static_cast<bool>(on_rows)));
      rows.emplace_back(lane.output.logits);
    }
    if (on_rows) on_rows(static_cast<Position>(length_), count, rows);
    length_ += count;
    tokens = tokens.subspan(count);
  }
  return {};
}

Result<void> KvComparison::feed_one(std::size_t format, std::span<const TokenId> tokens,
                                    std::uint32_t at) {
  CHECK(at + tokens.size() <= max_tokens_, "no room for a token");
  return run(lanes_.at(format), tokens, at, false);
}

double KvScore::perplexity() const {
  return std::exp(nll / static_cast<double>(std::max<std::size_t>(1, scored)));
}

void KvScore::add(std::span<const float> reference, std::span<const float> row) {
  ++rows;
  const double error = reference.data() == row.data() ? 0.0 : engine::divergence(reference, row);
  agreeing += likeliest(reference) == likeliest(row) && std::isfinite(error) ? 1 : 0;
  kl += error;
}

void KvScore::add_target(std::span<const float> row, TokenId target) {
  ++scored;
  nll += negative_log_likelihood(row, target);
}

}  // namespace refrain::cli
