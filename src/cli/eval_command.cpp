// `refrain eval perplexity`: teacher-forced scoring of a text file. Main thread.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/perplexity.h"
#include "cli/runtime.h"
#include "cli/sequence_runner.h"

namespace refrain::cli {
namespace {

struct Score {
  std::size_t windows = 0;
  std::size_t tokens = 0;  // scored
  double nll = 0;          // sum, nats
  double nll_square = 0;   // sum of squares, for the standard error

  double mean() const { return nll / static_cast<double>(tokens); }
  double standard_error() const {
    const auto count = static_cast<double>(tokens);
    const double variance = std::max(0.0, nll_square / count - mean() * mean());
    return count > 1 ? std::sqrt(variance / (count - 1)) : 0.0;
  }
};

// Logits of all rows are large (vocabulary x rows), so few rows run together.
constexpr std::uint32_t kScoredRowsPerStep = 64;

Result<void> score_window(SequenceRunner& runner, const TokenList& tokens,
                          const ScoreWindow& window, std::optional<TokenId> bos, Score& score) {
  TokenList fed;
  if (bos.has_value()) fed.push_back(*bos);
  // The last token of the window is only predicted, never fed.
  fed.insert(fed.end(), tokens.begin() + static_cast<std::ptrdiff_t>(window.begin),
             tokens.begin() + static_cast<std::ptrdiff_t>(window.end) - 1);
  const std::size_t shift =
      bos.has_value() ? 0 : 1;  // row at position p predicts tokens[begin + p + shift]
  RETURN_IF_ERROR(runner.begin(static_cast<std::uint32_t>(fed.size() + 1)));
  bool finite = true;
  const auto on_logits = [&](Position position, std::span<const float> logits) {
    const std::size_t target = window.begin + static_cast<std::size_t>(position) + shift;
    if (target < window.scored_begin) return;
    const double nll = negative_log_likelihood(logits, tokens[target]);
    finite = finite && std::isfinite(nll);
    ++score.tokens;
    score.nll += nll;
    score.nll_square += nll * nll;
  };
  RETURN_IF_ERROR(runner.feed(fed, on_logits));
  if (!finite)
    return Error{Code::kInternal, "the model gave a NaN or an infinity", "the file may be damaged"};
  ++score.windows;
  return {};
}

std::string report_text(const Score& score, std::size_t window, std::size_t stride) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(),
                "perplexity %.4f  (mean NLL %.6f +- %.6f nats per token)\n", std::exp(score.mean()),
                score.mean(), score.standard_error());
  return str_cat(line.data(), score.tokens, " tokens scored in ", score.windows, " windows of ",
                 window, " tokens, begun every ", stride, "\n");
}

Result<Score> evaluate(const Settings& settings, Console& console, std::string& report) {
  constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20U;
  if (settings.text("--file").empty()) {
    return Error{Code::kInvalidArgument, "no text to score", "give a text file with --file",
                 "--file"};
  }
  ASSIGN_OR_RETURN(const std::string text, read_file(settings.text("--file"), kMaxFileBytes));
  const auto window = static_cast<std::size_t>(settings.integer("--window"));
  auto stride = static_cast<std::size_t>(settings.integer("--stride"));
  if (stride == 0) stride = window;
  if (stride > window) {
    return Error{Code::kInvalidArgument, "--stride is longer than --window",
                 "tokens between windows would be left out", "--stride"};
  }
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
  TokenList tokens = loaded.tokenizer->encode(text, {.add_bos = false});
  if (const auto limit = static_cast<std::size_t>(settings.integer("--limit"));
      limit > 0 && tokens.size() > limit) {
    tokens.resize(limit);
  }
  const text::Vocabulary& vocabulary = loaded.tokenizer->vocabulary();
  const std::optional<TokenId> bos = vocabulary.add_bos ? vocabulary.bos : std::nullopt;
  const std::vector<ScoreWindow> windows =
      score_windows(tokens.size(), window, stride, bos.has_value());
  if (windows.empty()) {
    return Error{Code::kInvalidArgument,
                 str_cat("`", settings.text("--file"), "` is too short to score"),
                 "it needs at least two tokens", "--file"};
  }
  ASSIGN_OR_RETURN(Compute compute, Compute::create(std::move(loaded), settings, console));
  const auto rows =
      std::min(kScoredRowsPerStep, static_cast<std::uint32_t>(settings.integer("--step-tokens")));
  ASSIGN_OR_RETURN(const auto runner, SequenceRunner::create(compute, rows));
  Score score;
  for (const ScoreWindow& each : windows) {
    console.progress("scoring",
                     static_cast<double>(score.windows) / static_cast<double>(windows.size()));
    RETURN_IF_ERROR(score_window(*runner, tokens, each, bos, score));
  }
  console.end_progress();
  if (!settings.boolean("--json")) {
    report = report_text(score, window, stride);
    return score;
  }
  const nlohmann::ordered_json json = {
      {"model", compute.loaded.name},  {"perplexity", std::exp(score.mean())},
      {"mean_nll", score.mean()},      {"standard_error", score.standard_error()},
      {"tokens_scored", score.tokens}, {"windows", score.windows},
      {"window_tokens", window},       {"stride_tokens", stride},
      {"bos", bos.has_value()},        {"numerics", compute.executor->numerics()}};
  report = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return score;
}

}  // namespace

Exit run_eval_perplexity(const Settings& settings, Console& console) {
  std::string report;
  const Result<Score> score = evaluate(settings, console, report);
  console.end_progress();
  if (!score.ok()) return fail(score.error(), console);
  console.out(report);
  return Exit::kOk;
}

}  // namespace refrain::cli
