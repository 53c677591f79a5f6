// ContextTrim: takes the context of one running sequence down to a budget. Looks, if its policy
// needs that: runs rows in slots behind the sequence that are given back afterwards, and asks what
// they attend to. Then cuts: the sequence's block table becomes a view of what is kept (kv::Cut).
// The cut rows stay in the prefix tree for others; keys keep their positions. It knows ledger,
// executor and arena, not requests or batches of others. Engine thread, or an eval's main thread.
//
//   look (last rows)    table [ b0 b1 .. bk | their blocks ]  scratch [ the last rows again ]
//   look (repetition)   table [ b0 b1 .. bk | their blocks ]  scratch [ a piece again: surprise ]
//                       table [ b0 b1 .. bn ]                 scratch [ request, the piece ] ...
//   look (queries)      table [ b0 b1 .. bk | their blocks ]  scratch [ recent rows again ]
//                       table [ b0 b1 .. bn ]                 their keys and values read, no pass
//   cut                 table [ b0 | gathered: best rows of each layer and head | recent blocks ]
//   slide               later rows push the oldest recent blocks out
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kv/ledger.h"
#include "model/batch.h"
#include "model/executor.h"
#include "model/expected_attention.h"
#include "model/head_view.h"
#include "model/kv_arena.h"
#include "model/model.h"
#include "model/open_tile.h"
#include "model/trim_policy.h"

namespace refrain::engine {

// What trimming works with; all outlive it. Without an arena there is no trimming.
struct TrimParts {
  kv::Ledger* ledger = nullptr;
  model::Executor* executor = nullptr;
  model::KvArena* arena = nullptr;
  const model::Model* model = nullptr;  // with can_look
  bool can_look = false;                // the operators give attention mass and queries
  std::uint32_t layer_count = 0;
  std::uint32_t kv_head_count = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t window = 0;       // of the model's local layers; 0 = none
  TokenList repeat_request = {};  // asks the model to repeat what came before

  model::TrimBounds bounds() const { return {ledger->options().block_size, window}; }
};

// What is trimmed.
struct TrimmedContext {
  TokenList tokens;
  std::uint32_t head_tokens = 0;               // at its beginning, which always stay
  std::vector<std::uint32_t> turn_begin = {};  // where its turns begin, ascending
};

// What asks the model for a repetition.
inline constexpr std::string_view kRepeatRequest = "\n\nRepeat the previous context exactly.\n\n";

class ContextTrim {
 public:
  // Tokens that a look needs behind the sequence, within what was reserved for it.
  static std::uint32_t scratch_tokens(const TrimParts& parts, const model::TrimPolicy& policy);

  // `context`: that of the sequence, all committed and published no more, none cut yet. `scores`
  // of an earlier look at the same context with the same policy spare the look; those of a
  // beginning of it spare that part, where a look repeats the context.
  ContextTrim(const TrimParts& parts, SequenceId id, const model::TrimPolicy& policy,
              TrimmedContext context, model::TrimScores scores = {});

  bool looking() const { return looked_ < context().size(); }
  // One pass, or about as much work. Errors of the executor; the sequence is as it was.
  Result<void> look(Tick now);
  const model::TrimScores& scores() const { return scores_; }
  const TokenList& context() const { return context_.tokens; }
  std::size_t looked() const { return looked_; }  // tokens of it

  // Cuts to `budget_tokens`, with room for `room_tokens` more of them where that is little. The
  // sequence will have at most `max_total_tokens`. kUnavailable: no room to gather in now; nothing
  // has changed.
  Result<void> cut(std::uint32_t budget_tokens, std::uint32_t room_tokens,
                   std::uint32_t max_total_tokens);
  bool was_cut() const { return kept_front_ > 0; }
  // Later: what is behind the chosen rows goes, the oldest first, down to the budget or a little
  // further, to the beginning of a turn.
  void slide(std::uint32_t budget_tokens);
  // What heads see of it, for its batches; null if all see the table.
  const model::HeadView* view() const { return view_.get(); }

 private:
  struct Pass {
    TokenList tokens;
    std::uint32_t first = 0;       // position of the first one
    std::uint32_t asked_from = 0;  // index of the first one that is asked ...
    std::uint32_t begin = 0;       // ... about the context's rows [begin, end)
    std::uint32_t end = 0;
    kv::BlockTable table;
  };
  Pass rows_again(std::size_t begin, std::size_t end, Tick now);
  Pass repetition(std::size_t end, Tick now);
  std::size_t lead_tokens() const;  // in front of the piece of a repetition
  std::size_t piece_end() const;
  Result<void> look_at_piece(Tick now);
  void fill_batch(const Pass& pass, std::uint32_t done, std::uint32_t end);
  Result<void> run(const Pass& pass, std::span<const float> weights);
  Result<void> find_surprise(const Pass& pass);
  Result<void> look_at_queries(Tick now);
  Result<void> run_for_queries(const Pass& pass, model::ExpectedAttention& expected);
  void score_heads();
  Result<void> cut_rows(const model::TrimShape& shape, std::uint32_t max_total_tokens);
  void cut_blocks(const model::TrimShape& shape, std::uint32_t max_total_tokens);
  void gather(const kv::BlockTable& from, std::uint32_t first_row, std::span<const BlockId> to);
  model::TrimScores scores_of_rows(std::uint32_t first, std::uint32_t count) const;

  const TrimParts& parts_;
  const SequenceId id_;
  const model::TrimPolicy& policy_;
  const TrimmedContext context_;
  model::TrimScores scores_;
  std::unique_ptr<model::HeadView> view_;
  std::size_t looked_ = 0;       // tokens of the context, from its beginning
  std::vector<float> surprise_;  // in nats, of the tokens behind those of the piece at looked_
  std::unique_ptr<model::ExpectedAttention> expected_;  // once the queries are known
  std::uint32_t scored_heads_ = 0;                      // of all layers, from the first on
  std::uint32_t kept_front_ = 0;  // blocks of the table in front of the recent ones, once cut
  std::uint32_t recent_row_ = 0;  // first row of the context in the recent ones
  std::uint32_t max_total_tokens_ = 0;
  model::Batch batch_;
  // Of the pass at hand. Not the sequence's, which goes on where it was: the first rows of a pass
  // see those of their tile in front of it as they are stored.
  model::OpenTile open_tile_;
  model::BatchOutput output_;
};

}  // namespace refrain::engine
