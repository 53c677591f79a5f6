// SequenceRunner: one sequence straight through the executor, without engine, cache or sampling;
// for measuring and scoring. Main thread.
//
//   SequenceRunner runner(compute, 256);
//   RETURN_IF_ERROR(runner.begin(600));              // room for 600 tokens
//   RETURN_IF_ERROR(runner.feed(tokens));            // K/V only; logits of the last row
//   RETURN_IF_ERROR(runner.feed(tokens, on_logits)); // logits of every row
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "cli/runtime.h"
#include "model/batch.h"
#include "model/open_tile.h"

namespace refrain::cli {

class SequenceRunner {
 public:
  // `compute` outlives the runner. At most `step_tokens` rows run together.
  static Result<std::unique_ptr<SequenceRunner>> create(Compute& compute,
                                                        std::uint32_t step_tokens);
  ~SequenceRunner();

  // Forgets what was fed. kInvalidArgument if `token_count` is beyond the longest context.
  Result<void> begin(std::uint32_t token_count);

  // logits: [vocabulary_size] of the row at `position`.
  using OnLogits = std::function<void(Position position, std::span<const float> logits)>;
  Result<void> feed(std::span<const TokenId> tokens, const OnLogits& on_logits = {});
  // Logits of the last row fed, [vocabulary_size].
  std::span<const float> last_logits() const;

 private:
  SequenceRunner(Compute& compute, std::uint32_t step_tokens, std::unique_ptr<kv::Ledger> ledger);
  Result<void> step(std::span<const TokenId> tokens, const OnLogits& on_logits);

  Compute& compute_;
  const std::uint32_t step_tokens_;
  std::unique_ptr<kv::Ledger> ledger_;
  SequenceId sequence_{0};
  bool running_ = false;
  model::OpenTile open_tile_;
  model::BatchOutput output_;
};

}  // namespace refrain::cli
