// `refrain eval kv`: what each KV format takes in bytes, loses in quality and gains in speed. Main
// thread.
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/kv_check.h"
#include "cli/kv_prompts.h"
#include "cli/kv_report.h"
#include "cli/runtime.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20U;
constexpr std::uint32_t kDepth = 4096;

Result<std::vector<model::KvFormat>> formats_of(const Settings& settings) {
  std::vector<model::KvFormat> formats;
  for (const std::string_view name : split(settings.text("--formats"), ',')) {
    const auto format = kernels::kv_format_named(trim(name));
    if (!format) {
      std::string known;
      for (const kernels::KvFormatInfo& info : kernels::kv_formats()) {
        known += str_cat(known.empty() ? "" : ", ", info.name);
      }
      return Error{Code::kInvalidArgument,
                   str_cat("`", to_valid_utf8(std::string(name)), "` is no KV format"),
                   str_cat("there are ", known, "; keys never have fewer bits than values"),
                   "--formats"};
    }
    if (std::find(formats.begin(), formats.end(), *format) == formats.end()) {
      formats.push_back(*format);
    }
  }
  return formats;
}

Result<std::uint32_t> depth_of(const Settings& settings) {
  if (!settings.is_set("--depth")) return kDepth;
  ASSIGN_OR_RETURN(const auto depths,
                   parse_token_counts(settings.text("--depth"), "--depth", 0, 10'000'000));
  if (depths.size() > 1) {
    return Error{Code::kInvalidArgument, "more than one depth", "give one", "--depth"};
  }
  return depths.front();
}

Result<TokenList> text_tokens(const Settings& settings, const LoadedModel& loaded,
                              std::size_t count) {
  const std::string& path = settings.text("--data");
  if (path.empty()) return invented_tokens(loaded, count);
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  TokenList tokens = loaded.tokenizer->encode(text, {.add_bos = false});
  if (tokens.size() < 2) {
    return Error{Code::kInvalidArgument, str_cat("`", path, "` has no text to compare over"),
                 "it needs at least two tokens", "--data"};
  }
  return tokens;
}

// Lengths that the model and the budget have room for.
Result<KvReportOptions> options_of(const Settings& settings, const Compute& compute) {
  KvReportOptions options;
  const std::uint32_t longest = compute.sizing.max_context;
  ASSIGN_OR_RETURN(options.formats, formats_of(settings));
  ASSIGN_OR_RETURN(options.depth, depth_of(settings));
  const auto number = [&](std::string_view flag) {
    return static_cast<std::uint32_t>(settings.integer(flag));
  };
  options.decode_tokens = number("--decode-tokens");
  options.answer_rows = number("--answer-rows");
  options.context = settings.is_set("--context") ? number("--context") : longest;
  options.window = number("--window");
  const auto too_long = [&](const std::string& what, std::string_view flag) {
    return Error{Code::kInvalidArgument,
                 str_cat(what, " is longer than the ", longest, " served"),
                 too_long_hint(compute.sizing, str_cat("lower ", flag)), std::string(flag)};
  };
  if (options.context > longest)
    return too_long(str_cat("a context of ", options.context, " tokens"), "--context");
  if (options.window > longest) {
    if (settings.is_set("--window"))
      return too_long(str_cat("a window of ", options.window, " tokens"), "--window");
    options.window = longest;
  }
  if (options.decode_tokens > longest)
    return too_long(str_cat("decoding ", options.decode_tokens, " tokens"), "--decode-tokens");
  if (options.depth + options.decode_tokens > longest) {
    if (settings.is_set("--depth"))
      return too_long(
          str_cat("depth ", options.depth, " with ", options.decode_tokens, " tokens more"),
          "--depth");
    options.depth = longest - options.decode_tokens;
  }
  const std::size_t most =
      std::max<std::size_t>({options.context, std::size_t{options.window} * options.window_count,
                             std::size_t{options.depth} + options.decode_tokens});
  ASSIGN_OR_RETURN(options.tokens, text_tokens(settings, compute.loaded, most));
  options.begin = begin_token(compute.loaded);
  // A short text is scored once, and repeated only to fill a context.
  const std::size_t windows = options.tokens.size() / options.window;
  options.window_count =
      static_cast<std::uint32_t>(std::clamp<std::size_t>(windows, 1, options.window_count));
  if (const std::string& path = settings.text("--prompts"); !path.empty()) {
    ASSIGN_OR_RETURN(const std::string lines, read_file(path, kMaxFileBytes));
    ASSIGN_OR_RETURN(options.prompts, read_kv_prompts(lines, compute.loaded));
    for (std::size_t i = 0; i < options.prompts.size(); ++i) {
      if (options.prompts[i].size() + options.answer_rows > longest) {
        return Error{Code::kInvalidArgument,
                     str_cat("prompt ", i + 1, " with its answer is longer than the ", longest,
                             " tokens served"),
                     too_long_hint(compute.sizing, "shorten it"), "--prompts"};
      }
    }
  }
  return options;
}

std::string report_text(const std::vector<KvFigures>& all, const KvReportOptions& options) {
  std::array<char, 200> line{};
  std::snprintf(line.data(), line.size(),
                "%-7s %8s %6s %11s %9s %7s %9s %7s %10s %9s\n%-7s %8s %6s %11s %9s %7s %9s %7s "
                "%10s %9s\n",
                "", "bytes/", "bits/", "", "KL at", "same", "KL at", "same", "ms/token", "tokens/s",
                "format", "token", "value", "perplexity", str_cat(options.window).c_str(), "top %",
                str_cat(options.context).c_str(), "top %", str_cat("at ", options.depth).c_str(),
                "");
  std::string text = line.data();
  for (const KvFigures& one : all) {
    std::snprintf(
        line.data(), line.size(), "%-7s %8llu %6.2f %11.4f %9.5f %7.1f %9.5f %7.1f %10.3f %9.1f\n",
        kernels::kv_format_name(one.format), static_cast<unsigned long long>(one.bytes_per_token),
        one.bits_per_value, one.windows.perplexity(), one.windows.mean_kl(),
        100.0 * one.windows.same_top(), one.at_context.mean_kl(), 100.0 * one.at_context.same_top(),
        1000.0 * one.decode_seconds, 1.0 / one.decode_seconds);
    text += line.data();
  }
  for (std::size_t p = 0; p < options.prompts.size(); ++p) {
    for (const KvFigures& one : all) {
      if (one.format == model::KvFormat::kF16) continue;
      const KvAnswer& answer = one.answers[p];
      std::snprintf(line.data(), line.size(),
                    "prompt %zu, %-6s KL %.5f, first token %s, %zu of %zu tokens in common\n",
                    p + 1, kernels::kv_format_name(one.format), answer.mean_kl,
                    answer.same_first ? "the same" : "another", answer.common_prefix, answer.rows);
      text += line.data();
    }
  }
  return text;
}

Json score_json(const KvScore& score) {
  return {{"rows", score.rows},
          {"kl_mean", score.mean_kl()},
          {"same_top", score.same_top()},
          {"perplexity", score.perplexity()}};
}

Json report_json(const std::vector<KvFigures>& all, const KvReportOptions& options,
                 const Compute& compute, const Settings& settings) {
  Json formats = Json::array();
  for (const KvFigures& one : all) {
    Json answers = Json::array();
    for (const KvAnswer& answer : one.answers) {
      answers.push_back({{"rows", answer.rows},
                         {"kl_mean", answer.mean_kl},
                         {"same_first", answer.same_first},
                         {"common_prefix", answer.common_prefix}});
    }
    formats.push_back({{"format", kernels::kv_format_name(one.format)},
                       {"bytes_per_token", one.bytes_per_token},
                       {"bits_per_value", one.bits_per_value},
                       {"windows", score_json(one.windows)},
                       {"context", score_json(one.at_context)},
                       {"ms_per_token", 1000.0 * one.decode_seconds},
                       {"prompts", std::move(answers)}});
  }
  const std::string& data = settings.text("--data");
  return {{"model", compute.loaded.name},
          {"numerics", compute.executor->numerics()},
          {"data", data.empty() ? "generated" : data},
          {"window_tokens", options.window},
          {"windows", options.window_count},
          {"context_tokens", options.context},
          {"depth", options.depth},
          {"decode_tokens", options.decode_tokens},
          {"formats", std::move(formats)}};
}

Result<void> evaluate(const Settings& settings, Console& console) {
  RETURN_IF_ERROR(formats_of(settings));  // before the model is loaded
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
  ASSIGN_OR_RETURN(Compute compute, Compute::create_with(model::KvFormat::kF16, std::move(loaded),
                                                         settings, console));
  ASSIGN_OR_RETURN(const KvReportOptions options, options_of(settings, compute));
  ASSIGN_OR_RETURN(const auto figures,
                   measure_kv_formats(compute, options, [&](const char* what, double share) {
                     console.progress(what, share);
                   }));
  console.end_progress();
  if (settings.boolean("--json")) {
    console.out(report_json(figures, options, compute, settings)
                    .dump(2, ' ', false, Json::error_handler_t::replace) +
                "\n");
  } else {
    console.out(report_text(figures, options));
  }
  return {};
}

}  // namespace

Exit run_eval_kv(const Settings& settings, Console& console) {
  const Result<void> done = evaluate(settings, console);
  console.end_progress();
  return done.ok() ? Exit::kOk : fail(done.error(), console);
}

}  // namespace refrain::cli
