// Verdicts on KV formats. Main thread.
#include "cli/kv_check.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/rng.h"
#include "base/str.h"
#include "cli/invented_text.h"

namespace refrain::cli {
namespace {

constexpr std::uint32_t kContextTokens = 64;  // fed before rows are compared
// Rows to compare: fewer where the vocabulary is large, so that the check stays short.
constexpr std::uint32_t kMostRows = 1024, kLeastRows = 512;
constexpr std::uint32_t kComparedLogits = 1U << 27U;
constexpr std::uint32_t kStepTokens = 64;  // logits of all rows are large
// Part of the key of verdicts that are kept: raised when text, rows or measure change.
constexpr std::string_view kCheckVersion = "kv-check/2";

std::string figures(const KvScore& score) {
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "mean KL %.4f nats, same top %.1f %%", score.mean_kl(),
                100.0 * score.same_top());
  return text.data();
}

Hash128 verdict_key(const Compute& compute, model::KvFormat format) {
  return hash_text(str_cat(kCheckVersion, "|", to_hex(compute.cache_root(format))));
}

// As check_kv_formats(), of those that no earlier start has left.
Result<std::vector<KvVerdict>> verdicts_on(Compute& compute,
                                           const std::vector<model::KvFormat>& formats,
                                           const KvVerdictStore& store) {
  std::vector<KvVerdict> verdicts;
  std::vector<model::KvFormat> unknown;
  for (const model::KvFormat format : formats) {
    const std::optional<KvScore> kept = store.find(verdict_key(compute, format));
    verdicts.push_back({format, kept.value_or(KvScore{})});
    if (!kept) unknown.push_back(format);
  }
  if (unknown.empty()) return verdicts;
  ASSIGN_OR_RETURN(const std::vector<KvVerdict> made, check_kv_formats(compute, unknown));
  for (const KvVerdict& verdict : made) {
    store.keep(verdict_key(compute, verdict.format), compute.loaded.name,
               kernels::kv_format_name(verdict.format), verdict.score);
    *std::ranges::find(verdicts, verdict.format, &KvVerdict::format) = verdict;
  }
  return verdicts;
}

std::string joined(const std::vector<KvVerdict>& verdicts) {
  std::string text;
  for (const KvVerdict& verdict : verdicts) {
    text += str_cat(text.empty() ? "" : "; ", verdict.text());
  }
  return text;
}

}  // namespace

std::string KvVerdict::text() const {
  return str_cat(kernels::kv_format_name(format), ": ", figures(score));
}

std::optional<TokenId> begin_token(const LoadedModel& loaded) {
  const text::Vocabulary& vocabulary = loaded.tokenizer->vocabulary();
  return vocabulary.add_bos ? vocabulary.bos : std::nullopt;
}

TokenList invented_tokens(const LoadedModel& loaded, std::size_t count) {
  Rng rng(1);
  std::string text;
  TokenList tokens;
  // A place has a paragraph of some sentences.
  while (tokens.size() < count) {
    const std::size_t more = count - tokens.size();
    for (std::size_t paragraph = 0; paragraph <= more / 128; ++paragraph) {
      const std::string place = str_cat("the ", invented_place(rng));
      for (int i = 0; i < 6; ++i) text += invented_sentence(rng, place, rng.below(12)) + " ";
      text += "\n\n";
    }
    tokens = loaded.tokenizer->encode(text, {.add_bos = false});
  }
  tokens.resize(count);
  return tokens;
}

Result<std::vector<KvVerdict>> check_kv_formats(Compute& compute,
                                                const std::vector<model::KvFormat>& formats) {
  const std::uint32_t room = compute.loaded.model->max_context();
  const std::uint32_t compared =
      std::clamp(kComparedLogits / std::max(1U, compute.loaded.model->shape().vocabulary_size),
                 kLeastRows, kMostRows);
  TokenList tokens = invented_tokens(compute.loaded, std::min(room, kContextTokens + compared));
  if (const auto begin = begin_token(compute.loaded)) tokens.front() = *begin;
  std::vector<model::KvFormat> all = {model::KvFormat::kF16};
  all.insert(all.end(), formats.begin(), formats.end());
  const auto count = static_cast<std::uint32_t>(tokens.size());
  ASSIGN_OR_RETURN(const auto comparison,
                   KvComparison::create(compute, std::move(all), count,
                                        std::min(kStepTokens, compute.executor->max_batch_rows())));
  std::vector<KvVerdict> verdicts;
  verdicts.reserve(formats.size());
  for (const model::KvFormat format : formats) verdicts.push_back({format, {}});
  const std::size_t width = comparison->vocabulary_size();
  const auto on_rows = [&](Position /*first*/, std::uint32_t rows,
                           const KvComparison::Rows& logits) {
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < formats.size(); ++i) {
        verdicts[i].score.add(logits[0].subspan(row * width, width),
                              logits[i + 1].subspan(row * width, width));
      }
    }
  };
  const std::size_t before = count > compared ? count - compared : 0;
  RETURN_IF_ERROR(comparison->feed(std::span(tokens).first(before)));
  RETURN_IF_ERROR(comparison->feed(std::span(tokens).subspan(before), on_rows));
  return verdicts;
}

Result<model::KvFormat> smallest_good_format(Compute& compute, const KvVerdictStore& store) {
  std::vector<model::KvFormat> formats;
  for (const kernels::KvFormatInfo& info : kernels::kv_formats()) {
    if (info.format != model::KvFormat::kF16) formats.push_back(info.format);
  }
  ASSIGN_OR_RETURN(const std::vector<KvVerdict> verdicts, verdicts_on(compute, formats, store));
  model::KvFormat best = model::KvFormat::kF16;  // formats come with fewer and fewer bytes
  for (const KvVerdict& verdict : verdicts) {
    if (verdict.good()) best = verdict.format;
  }
  compute.kv_note = str_cat("chosen by --kv-format auto (", joined(verdicts), ")");
  return best;
}

Result<void> require_good_format(Compute& compute, model::KvFormat format,
                                 const KvVerdictStore& store) {
  ASSIGN_OR_RETURN(const std::vector<KvVerdict> verdicts, verdicts_on(compute, {format}, store));
  const KvVerdict& verdict = verdicts.front();
  compute.kv_note = str_cat("checked (", figures(verdict.score), ")");
  if (verdict.good()) return {};
  return Error{
      Code::kInvalidArgument,
      str_cat("KV format ", kernels::kv_format_name(format),
              " changes this model's answers too much: ", figures(verdict.score), " over ",
              verdict.score.rows, " tokens, where ", kMostKvDivergence, " nats and ",
              100.0 * kLeastSameTop, " % are the bounds"),
      "take --kv-format auto, which finds the smallest within the bounds, or one of more bits; "
      "--kv-check off takes this one all the same",
      "--kv-format"};
}

}  // namespace refrain::cli
