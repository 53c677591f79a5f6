// `refrain bench prefill` and `refrain bench decode`: speed of the executor alone, without engine,
// cache or HTTP. Main thread.
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "base/statistics.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/runtime.h"
#include "cli/sequence_runner.h"
#include "model/core_count.h"

namespace refrain::cli {
namespace {

struct Measurement {
  std::uint32_t length = 0;  // prompt tokens or depth
  std::uint32_t tokens = 0;  // computed in the measured time
  double seconds = 0;        // median over the repetitions
  double of_cold = 1;        // share of the time that all tokens of the prompt take
};

// Any tokens will do: the work of a row does not depend on them.
TokenList random_tokens(std::size_t count, std::uint32_t vocabulary_size) {
  Rng rng(1);
  TokenList tokens(count);
  for (TokenId& token : tokens)
    token = TokenId{static_cast<std::int32_t>(rng.below(vocabulary_size))};
  return tokens;
}

std::uint32_t thread_count(const Settings& settings) {
  return model::compute_thread_count(static_cast<std::uint32_t>(settings.integer("--threads")));
}

class Bench {
 public:
  static Result<std::unique_ptr<Bench>> create(const Settings& settings, Console& console) {
    auto bench = std::make_unique<Bench>();
    ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
    ASSIGN_OR_RETURN(bench->compute, Compute::create(std::move(loaded), settings, console));
    const auto step_tokens = static_cast<std::uint32_t>(settings.integer("--step-tokens"));
    ASSIGN_OR_RETURN(bench->runner, SequenceRunner::create(bench->compute, step_tokens));
    bench->repetitions = static_cast<std::size_t>(settings.integer("--repetitions"));
    // Threads, buffers and page tables come into being here.
    RETURN_IF_ERROR(bench->runner->begin(16));
    RETURN_IF_ERROR(bench->runner->feed(random_tokens(16, bench->vocabulary_size())));
    return bench;
  }

  // The first `reused` tokens are there already when the measured time begins.
  Result<Measurement> prefill(std::uint32_t prompt_tokens, std::uint32_t reused) {
    const TokenList tokens = random_tokens(prompt_tokens, vocabulary_size());
    std::vector<double> seconds, of_cold;
    for (std::size_t i = 0; i < repetitions; ++i) {
      RETURN_IF_ERROR(runner->begin(prompt_tokens));
      const Tick cold = clock.now();
      if (reused > 0) RETURN_IF_ERROR(runner->feed(std::span(tokens).first(reused)));
      const Tick warm = clock.now();
      RETURN_IF_ERROR(runner->feed(std::span(tokens).subspan(reused)));
      const Tick end = clock.now();
      seconds.push_back(to_seconds(end - warm));
      of_cold.push_back(to_seconds(end - warm) / to_seconds(end - cold));
    }
    return Measurement{.length = prompt_tokens,
                       .tokens = prompt_tokens - reused,
                       .seconds = median(std::move(seconds)),
                       .of_cold = median(std::move(of_cold))};
  }

  Result<Measurement> decode(std::uint32_t depth, std::uint32_t count) {
    const TokenList tokens = random_tokens(depth + count, vocabulary_size());
    std::vector<double> seconds;
    for (std::size_t i = 0; i < repetitions; ++i) {
      RETURN_IF_ERROR(runner->begin(depth + count));
      RETURN_IF_ERROR(runner->feed(std::span(tokens).first(depth)));
      const Tick started = clock.now();
      for (std::uint32_t at = depth; at < depth + count; ++at) {
        RETURN_IF_ERROR(runner->feed(std::span(tokens).subspan(at, 1)));
      }
      seconds.push_back(to_seconds(clock.now() - started));
    }
    return Measurement{.length = depth, .tokens = count, .seconds = median(std::move(seconds))};
  }

  std::uint32_t vocabulary_size() const { return compute.loaded.model->shape().vocabulary_size; }

  Compute compute;
  std::unique_ptr<SequenceRunner> runner;
  std::size_t repetitions = 1;
  SteadyClock clock;
};

nlohmann::ordered_json header_json(const Bench& bench, const Settings& settings) {
  const model::ModelShape& shape = bench.compute.loaded.model->shape();
  return {{"model", bench.compute.loaded.name},
          {"parameters", shape.parameter_count},
          {"weight_bytes", shape.weight_bytes},
          {"numerics", bench.compute.executor->numerics()},
          {"threads", thread_count(settings)},
          {"kv_format", kernels::kv_format_name(bench.compute.arena->format())},
          {"step_tokens", settings.integer("--step-tokens")},
          {"repetitions", bench.repetitions}};
}

// What the figures below it were measured with.
std::string header_text(const Bench& bench, const Settings& settings) {
  const model::Model& model = *bench.compute.loaded.model;
  return str_cat(bench.compute.loaded.name, ", ", model.quantization(), ", ",
                 format_bytes(model.shape().weight_bytes), "; ", thread_count(settings),
                 " threads, KV format ", kernels::kv_format_name(bench.compute.arena->format()),
                 ", ", settings.integer("--step-tokens"), " rows a step, median of ",
                 bench.repetitions, ", ", bench.compute.executor->numerics(), "\n");
}

std::string table_line(const Measurement& m, double rate, double second_rate) {
  std::array<char, 96> line{};
  std::snprintf(line.data(), line.size(), "%13u %10.1f %12.1f %10.2f\n", m.length,
                m.seconds * 1000.0, rate, second_rate);
  return line.data();
}

std::string with_share(std::string line, double share) {
  std::array<char, 32> column{};
  std::snprintf(column.data(), column.size(), " %9.1f%%\n", 100.0 * share);
  line.back() = ' ';
  return line + column.data();
}

void write_json(nlohmann::ordered_json json, nlohmann::ordered_json rows, Console& console) {
  json["results"] = std::move(rows);
  console.out(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Result<void> bench_prefill(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(const auto lengths, parse_token_counts(settings.text("--prompt-tokens"),
                                                          "--prompt-tokens", 1, 10'000'000));
  const auto reused_percent = static_cast<std::uint64_t>(settings.integer("--reused-percent"));
  ASSIGN_OR_RETURN(const auto bench, Bench::create(settings, console));
  const bool as_json = settings.boolean("--json");
  auto rows = nlohmann::ordered_json::array();
  if (!as_json)
    console.out(header_text(*bench, settings) + "prompt tokens         ms     tokens/s    GFLOP/s" +
                (reused_percent > 0 ? "    of cold\n" : "\n"));
  for (const std::uint32_t length : lengths) {
    console.progress(str_cat("prefill of ", length), 0);
    const auto reused = static_cast<std::uint32_t>(length * reused_percent / 100);
    ASSIGN_OR_RETURN(const Measurement m, bench->prefill(length, reused));
    const double rate = m.tokens / m.seconds;
    const double gflops =
        2e-9 * static_cast<double>(bench->compute.loaded.model->shape().parameter_count) * rate;
    rows.push_back({{"prompt_tokens", length},
                    {"seconds", m.seconds},
                    {"tokens_per_s", rate},
                    {"gflop_per_s", gflops},
                    {"reused_tokens", reused},
                    {"of_cold", m.of_cold}});
    if (as_json) continue;
    const std::string line = table_line(m, rate, gflops);
    console.out(reused_percent > 0 ? with_share(line, m.of_cold) : line);
  }
  if (as_json) write_json(header_json(*bench, settings), std::move(rows), console);
  return {};
}

Result<void> bench_decode(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(const auto depths,
                   parse_token_counts(settings.text("--depth"), "--depth", 0, 10'000'000));
  const auto count = static_cast<std::uint32_t>(settings.integer("--decode-tokens"));
  ASSIGN_OR_RETURN(const auto bench, Bench::create(settings, console));
  const model::ModelShape& shape = bench->compute.loaded.model->shape();
  const std::uint64_t per_token = model::kv_bytes_per_token(shape, bench->compute.arena->format());
  const bool as_json = settings.boolean("--json");
  auto rows = nlohmann::ordered_json::array();
  if (!as_json)
    console.out(header_text(*bench, settings) +
                "        depth         ms     tokens/s       GB/s\n");
  for (const std::uint32_t depth : depths) {
    console.progress(str_cat("decode at ", depth), 0);
    ASSIGN_OR_RETURN(const Measurement m, bench->decode(depth, count));
    const double rate = m.tokens / m.seconds;
    const double bytes = static_cast<double>(shape.weight_bytes) +
                         static_cast<double>(per_token) * (depth + count / 2.0);
    const double gigabytes = 1e-9 * bytes * rate;
    rows.push_back({{"depth", depth},
                    {"decoded_tokens", count},
                    {"ms_per_token", 1000.0 / rate},
                    {"tokens_per_s", rate},
                    {"gb_read_per_s", gigabytes}});
    if (!as_json) console.out(table_line(m, rate, gigabytes));
  }
  if (as_json) write_json(header_json(*bench, settings), std::move(rows), console);
  return {};
}

Exit finish(const Result<void>& result, Console& console) {
  console.end_progress();
  return result.ok() ? Exit::kOk : fail(result.error(), console);
}

}  // namespace

Exit run_bench_prefill(const Settings& settings, Console& console) {
  return finish(bench_prefill(settings, console), console);
}

Exit run_bench_decode(const Settings& settings, Console& console) {
  return finish(bench_decode(settings, console), console);
}

}  // namespace refrain::cli
