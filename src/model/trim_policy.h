// Trim policies: what a sequence keeps of its context when it may only keep so much. Each policy is
// one row of a table: where its scores come from and how they become the kept rows. Pure functions;
// any thread. How a policy is carried out: engine/context_trim.h.
//
//   table rows   [ head  | ............ middle ............ | recent ]
//   kept         [ head  | those with the highest scores    | recent ]
//           system turn,   chosen for each layer and KV head,  whole blocks, in place;
//         1 block or more  of some heads more (head_view.h)    if near, from a turn on
//
//   window             no middle: attention sinks and a recent window (Xiao et al. 2023)
//   heavy_hitters      attention that the last rows pay, summed (Zhang et al. 2023, H2O; Li et al.
//                      2024, SnapKV: the last 64 rows ask, neighbours of a hit count as well)
//   kvzip              the most attention that a row gets while the model is made to repeat the
//                      piece it is in; the rows of all layers and heads are ranked together
//                      (Kim et al. 2025). It does not depend on a question. Our own: attention on
//                      the way to a token counts as much as that token surprised the model when
//                      it first read it, so that what could be guessed need not be kept
//   expected_attention the attention that queries to come are expected to pay, judged from mean and
//                      covariance of recent ones, times the length of the value (Devoto et al.
//                      2025; expected_attention.h). It does not depend on a question either
//   prefix_importance  attention of the last rows over all layers and heads, by block: the blocks
//                      with least go whole, so nothing is copied
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/batch.h"

namespace refrain::model {

// Who is asked what it attends to.
enum class TrimLook : std::uint8_t {
  kNone,
  kLastRows,    // the last rows of the context
  kRepetition,  // rows behind the context that repeat all of it
  kQueries,     // nobody: what is to come, judged from the queries of recent rows
};

// How rows of the middle are chosen.
enum class TrimChoice : std::uint8_t {
  kBlocks,    // one choice for all layers and heads, of whole blocks
  kEachHead,  // for each layer and KV head others, as many of each
  kAllHeads,  // for each layer and KV head others, more of those whose rows have higher scores
};

struct TrimPolicy {
  std::string_view name;
  TrimLook look = TrimLook::kNone;
  MassKind mass = MassKind::kHeadSum;
  double recent_share = 1.0;  // of the kept rows
  std::uint32_t reach = 0;    // a row counts as much as the best of its neighbours this far away
  TrimChoice choice = TrimChoice::kEachHead;
  bool weighs_surprise = false;  // of a repetition: by what each row leads to, in nats
};
std::span<const TrimPolicy> trim_policies();
// Null if there is no such policy.
const TrimPolicy* trim_policy_named(std::string_view name);

// How much attention each row of a context got; larger = more worth keeping.
struct TrimScores {
  std::uint32_t layer_count = 0;
  std::uint32_t kv_head_count = 0;
  std::uint32_t length = 0;   // rows
  std::vector<float> values;  // [layer_count][kv_head_count][length]

  bool empty() const { return values.empty(); }
  std::span<const float> of(std::uint32_t layer, std::uint32_t head) const;
  // The same for a context of `rows` rows: cut off, or zero behind.
  TrimScores resized(std::uint32_t rows) const;
  // Takes over what some rows paid to keys [begin, end) of the context; `mass` is per head.
  void add(const AttentionMass& mass, MassKind kind, std::uint32_t begin, std::uint32_t end);
};

// What a cut may not touch.
struct TrimBounds {
  std::uint32_t block_size = 16;
  std::uint32_t window = 0;     // of the model's local layers, which drop by position; 0 = none
  std::uint32_t head_rows = 0;  // at the beginning, which always stay: the system turn of a chat
};
// Blocks at the end that every cut leaves.
std::uint32_t least_recent_blocks(const TrimBounds& bounds);
// The smallest budget that a cut can keep to, in tokens.
std::uint32_t least_trim_budget(const TrimBounds& bounds);

// Blocks of a table that stay; the rest goes.
struct TrimShape {
  std::uint32_t sink_blocks = 0;    // the first: attention sinks, and the head
  std::uint32_t middle_blocks = 0;  // room for chosen rows
  std::uint32_t recent_begin = 0;   // index into the table; from there on
};
// For a table of `rows` rows, so that at most `budget_tokens` (>= least_trim_budget) are kept and
// up to `room_tokens`, but no more than a quarter of the budget, can follow before the next cut.
// Nothing if that needs no cut. `turn_begin`: rows where turns begin, ascending; the recent rows
// begin with the block of one of them if that is within their first quarter.
std::optional<TrimShape> trim_shape(const TrimPolicy& policy, std::uint32_t rows,
                                    std::uint32_t budget_tokens, std::uint32_t room_tokens,
                                    const TrimBounds& bounds,
                                    std::span<const std::uint32_t> turn_begin = {});

// Of `blocks` blocks from row `first_row` on, how many to pass over so that the first one left
// holds a row of `turn_begin`: at most a quarter of them; 0 if no turn begins there.
std::uint32_t blocks_before_turn(std::uint32_t first_row, std::uint32_t blocks,
                                 std::uint32_t block_size,
                                 std::span<const std::uint32_t> turn_begin);

// Of `scores` [rows] the indices of the `count` highest, ascending; of equal ones the later: what
// is nearer is more likely to matter. NaN counts as lowest.
std::vector<std::uint32_t> choose_rows(std::span<const float> scores, std::uint32_t count,
                                       std::uint32_t reach);

// Spreads room for `tiles` tiles over the layers and KV heads of `scores`: [layer_count *
// kv_head_count] numbers of tiles, their sum is `tiles` or what all rows fill. With kAllHeads the
// rows of all heads are ranked together: a head's best rows by tiles, each as high as its mean.
std::vector<std::uint32_t> spread_tiles(const TrimScores& scores, std::uint32_t tiles,
                                        TrimChoice choice);

// One score per block of `block_size` rows in [begin, end): the mean over layers and heads of the
// block's sum. Rows beyond scores.length count as zero.
std::vector<float> block_scores(const TrimScores& scores, std::uint32_t begin, std::uint32_t end,
                                std::uint32_t block_size);

}  // namespace refrain::model
