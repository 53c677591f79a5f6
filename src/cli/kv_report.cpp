// The measurements of `refrain eval kv`. Main thread.
#include "cli/kv_report.h"

#include <algorithm>

#include "base/clock.h"
#include "base/statistics.h"
#include "cli/row_errors.h"

namespace refrain::cli {
namespace {

constexpr std::uint32_t kStepTokens = 64;      // logits of all rows are large
constexpr std::uint32_t kRowsAtContext = 256;  // compared there

class KvMeasurement {
 public:
  KvMeasurement(Compute& compute, const KvReportOptions& options, const OnKvProgress& on_progress)
      : compute_(compute), options_(options), on_progress_(on_progress) {
    const auto f16 = model::KvFormat::kF16;
    if (std::find(options.formats.begin(), options.formats.end(), f16) == options.formats.end()) {
      formats_.push_back(f16);
    }
    formats_.insert(formats_.end(), options.formats.begin(), options.formats.end());
    // Rows are compared with those of the first.
    std::stable_partition(formats_.begin(), formats_.end(),
                          [f16](model::KvFormat format) { return format == f16; });
  }

  Result<std::vector<KvFigures>> run() {
    const model::ModelShape& shape = compute_.loaded.model->shape();
    for (const model::KvFormat format : formats_) {
      figures_.push_back({.format = format,
                          .bytes_per_token = model::kv_bytes_per_token(shape, format),
                          .bits_per_value = model::kv_bits_per_value(shape, format)});
    }
    std::size_t room =
        std::max({options_.context, options_.window, options_.depth + options_.decode_tokens});
    for (const TokenList& prompt : options_.prompts) {
      room = std::max(room, prompt.size() + options_.answer_rows);
    }
    const std::uint32_t step = std::min(kStepTokens, compute_.executor->max_batch_rows());
    ASSIGN_OR_RETURN(comparison_, KvComparison::create(compute_, formats_,
                                                       static_cast<std::uint32_t>(room), step));
    RETURN_IF_ERROR(score_windows());
    RETURN_IF_ERROR(score_context());
    RETURN_IF_ERROR(time_decoding());
    RETURN_IF_ERROR(answer_prompts());
    return std::move(figures_);
  }

 private:
  // `count` tokens: what every text begins with, then the text, repeated without end, from token
  // `from` on.
  TokenList text(std::size_t from, std::size_t count) const {
    TokenList part;
    if (options_.begin) part.push_back(*options_.begin);
    for (std::size_t i = from; part.size() < count; ++i) {
      part.push_back(options_.tokens[i % options_.tokens.size()]);
    }
    return part;
  }

  // Adds the rows of `tokens` to `score` of each format's figures; the last row predicts nothing.
  KvComparison::OnRows scoring(const TokenList& tokens, KvScore KvFigures::* score) {
    return [this, &tokens, score](Position first, std::uint32_t count,
                                  const KvComparison::Rows& rows) {
      const std::size_t width = comparison_->vocabulary_size();
      for (std::size_t row = 0; row < count; ++row) {
        const std::size_t next = static_cast<std::size_t>(first) + row + 1;
        const auto reference = rows[0].subspan(row * width, width);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const auto own = rows[i].subspan(row * width, width);
          (figures_[i].*score).add(reference, own);
          if (next < tokens.size()) (figures_[i].*score).add_target(own, tokens[next]);
        }
      }
    };
  }

  Result<void> score_windows() {
    for (std::uint32_t w = 0; w < options_.window_count; ++w) {
      on_progress_("short windows", static_cast<double>(w) / options_.window_count);
      const TokenList tokens = text(std::size_t{w} * options_.window, options_.window);
      comparison_->begin();
      RETURN_IF_ERROR(comparison_->feed(tokens, scoring(tokens, &KvFigures::windows)));
    }
    return {};
  }

  Result<void> feed_with_progress(std::span<const TokenId> tokens, const char* what) {
    constexpr std::size_t kPiece = 1024;
    for (std::size_t done = 0; done < tokens.size(); done += kPiece) {
      on_progress_(what, static_cast<double>(done) / static_cast<double>(tokens.size()));
      RETURN_IF_ERROR(
          comparison_->feed(tokens.subspan(done, std::min(kPiece, tokens.size() - done))));
    }
    return {};
  }

  Result<void> score_context() {
    const TokenList tokens = text(0, options_.context);
    const std::size_t before =
        tokens.size() > kRowsAtContext ? tokens.size() - kRowsAtContext : tokens.size() / 2;
    comparison_->begin();
    RETURN_IF_ERROR(feed_with_progress(std::span(tokens).first(before), "long context"));
    return comparison_->feed(std::span(tokens).subspan(before),
                             scoring(tokens, &KvFigures::at_context));
  }

  // Formats take turns, so that what else the machine does meets all of them.
  Result<void> time_decoding() {
    const TokenList tokens = text(0, options_.depth + options_.decode_tokens);
    if (options_.context < tokens.size()) {
      comparison_->begin();
      RETURN_IF_ERROR(
          feed_with_progress(std::span(tokens).first(options_.depth), "context to decode behind"));
    }
    const SteadyClock clock;
    std::vector<std::vector<double>> seconds(formats_.size());
    for (std::uint32_t i = 0; i < options_.decode_tokens; ++i) {
      on_progress_("decoding", static_cast<double>(i) / options_.decode_tokens);
      for (std::size_t format = 0; format < formats_.size(); ++format) {
        const std::uint32_t at = options_.depth + i;
        const Tick started = clock.now();
        RETURN_IF_ERROR(comparison_->feed_one(format, std::span(tokens).subspan(at, 1), at));
        seconds[format].push_back(to_seconds(clock.now() - started));
      }
    }
    for (std::size_t format = 0; format < formats_.size(); ++format) {
      figures_[format].decode_seconds = median(std::move(seconds[format]));
    }
    return {};
  }

  // Every format reads the answer of f16: as long as the likeliest tokens agree, it is the one that
  // the format itself would have given.
  Result<void> answer_prompts() {
    for (std::size_t p = 0; p < options_.prompts.size(); ++p) {
      on_progress_("prompts",
                   static_cast<double>(p) / static_cast<double>(options_.prompts.size()));
      const TokenList& prompt = options_.prompts[p];
      comparison_->begin();
      RETURN_IF_ERROR(comparison_->feed(std::span(prompt).first(prompt.size() - 1)));
      std::vector<KvScore> scores(formats_.size());
      std::vector<KvAnswer> answers(formats_.size());
      TokenId next = prompt.back();
      for (std::uint32_t i = 0; i < options_.answer_rows; ++i) {
        const auto on_row = [&](Position, std::uint32_t, const KvComparison::Rows& rows) {
          for (std::size_t format = 0; format < rows.size(); ++format) {
            KvScore& score = scores[format];
            score.add(rows[0], rows[format]);
            if (score.agreeing == score.rows) answers[format].common_prefix = score.rows;
          }
          next = TokenId{static_cast<std::int32_t>(likeliest(rows[0]))};
        };
        RETURN_IF_ERROR(comparison_->feed({&next, 1}, on_row));
        const text::Vocabulary& vocabulary = compute_.loaded.tokenizer->vocabulary();
        if (next == vocabulary.eos || next == vocabulary.eot) break;
      }
      for (std::size_t format = 0; format < formats_.size(); ++format) {
        answers[format].rows = scores[format].rows;
        answers[format].mean_kl = scores[format].mean_kl();
        answers[format].same_first = answers[format].common_prefix > 0;
        figures_[format].answers.push_back(answers[format]);
      }
    }
    return {};
  }

  Compute& compute_;
  const KvReportOptions& options_;
  const OnKvProgress& on_progress_;
  std::vector<model::KvFormat> formats_;
  std::unique_ptr<KvComparison> comparison_;
  std::vector<KvFigures> figures_;
};

}  // namespace

Result<std::vector<KvFigures>> measure_kv_formats(Compute& compute, const KvReportOptions& options,
                                                  const OnKvProgress& on_progress) {
  return KvMeasurement(compute, options, on_progress).run();
}

}  // namespace refrain::cli
