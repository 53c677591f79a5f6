// ReuseBench: measures one case of reuse on a model, rung by rung, against the same prompt computed
// cold. Errors are those of the first rows of the answer: the last row of the prompt and those of
// the tokens that the cold run answers greedily, the same tokens for every rung. Main thread.
//
//   cold        all rows                                          -> answer, its rows, TTFT
//   cold again  all rows in other chunks                          -> must be the same bits
//   rung        prefix copied, runs moved | look | chosen + fresh -> rows of the same answer, TTFT
//   dropped     the prompt without what would have been moved     -> rows of the same answer
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/lane.h"
#include "cli/reuse_cases.h"
#include "cli/row_errors.h"
#include "cli/run_search.h"
#include "cli/runtime.h"
#include "model/repair_choice.h"
#include "model/splice.h"

namespace refrain::cli {

struct ReuseOptions {
  std::uint32_t step_tokens = 256;
  std::uint32_t answer_rows = 24;
  std::vector<model::RepairRung> rungs;
};

struct RungResult {
  model::RepairRung rung{};
  RowErrors errors;
  std::uint32_t repaired_rows = 0;  // moved rows computed again
  Tick ttft = 0;                    // from the prompt's tokens to the logits of its last row
  Tick move = 0;                    // of that, copying and turning rows
};

struct ReuseResult {
  ReuseKind kind{};
  std::uint32_t prompt_tokens = 0;
  std::uint32_t exact_tokens = 0;
  std::uint32_t moved_tokens = 0;
  std::uint32_t run_count = 0;
  Tick cold_ttft = 0;
  RowErrors cold_again;
  RowErrors dropped;
  std::vector<RungResult> rungs;

  std::uint32_t fresh_tokens() const { return prompt_tokens - exact_tokens - moved_tokens; }
};

class ReuseBench {
 public:
  // `compute` outlives it. kUnavailable.
  static Result<std::unique_ptr<ReuseBench>> create(Compute& compute, const ReuseOptions& options);

  // kUnsupported if the executor gives no attention mass and a rung needs it; kInvalidArgument for
  // a case that does not fit.
  Result<ReuseResult> measure(const ReuseCase& one);

 private:
  // A prompt, and where the last user turn begins.
  struct Asked {
    TokenList tokens;
    Position question = 0;
  };
  struct Cold {
    TokenList answer;
    std::vector<float> rows;  // [1 + answer][vocabulary_size]
    Tick ttft = 0;
  };

  ReuseBench(Compute& compute, const ReuseOptions& options)
      : compute_(compute), options_(options) {}
  Result<Asked> encode(const Messages& messages) const;
  Result<void> store(const ReuseCase& one, std::vector<Lane>& stored, RunSearch& search);
  Result<Cold> run_cold(const TokenList& prompt);
  // Rows of the answer behind a prompt whose rows are computed; `last` are its last logits.
  Result<std::vector<float>> answer_rows(Lane& lane, std::vector<float> last,
                                         const TokenList& answer);
  Result<RowErrors> compare_cold(const TokenList& prompt, const Cold& cold,
                                 std::uint32_t step_tokens);
  Result<RungResult> run_rung(model::RepairRung rung, const Asked& asked, const RunSearch& search,
                              const std::vector<Lane>& stored, const Cold& cold);
  // Rows to compute again behind a look at where the question's attention goes.
  Result<std::vector<Position>> rows_to_run(model::RepairRung rung, const Lane& lane,
                                            Position question, const FoundTokens& found,
                                            std::uint32_t& repaired);
  void move_rows(const FoundTokens& found, const std::vector<Lane>& stored, const Lane& lane);

  Compute& compute_;
  const ReuseOptions options_;
  SteadyClock clock_;
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<model::Splice> splice_;
};

}  // namespace refrain::cli
