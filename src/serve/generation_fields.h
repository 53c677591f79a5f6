// What chat and completion requests have in common: sampling, lengths, stops, streaming. Reads the
// fields of a body into plain data; every fault names its field. Plain functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/sampling.h"
#include "serve/field_reader.h"
#include "serve/summary_rule.h"

namespace refrain::serve {

inline constexpr std::size_t kMaxStopStrings = 16;
inline constexpr std::size_t kMaxStopBytes = 4096;
inline constexpr double kLargestMaxDivergence = 10;  // nats

// What holds where a request leaves a field out, and how far one may go.
struct GenerationDefaults {
  std::uint32_t max_choices = 16;
  engine::SamplingParams sampling = {};
  engine::ReuseWish reuse = {};
  engine::ContextWish context = {};
  SummaryRule summary = {};
};

struct GenerationFields {
  std::string model;  // "" = not given
  engine::SamplingParams sampling;
  std::optional<std::uint32_t> max_tokens;  // absent = server default; clamped later
  std::uint32_t choice_count = 1;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = false;
  bool return_progress = false;  // extension: prompt progress in the stream
  bool use_cache = true;         // extension: cache_prompt
  std::string cache_salt;        // extension: own cache space
  engine::ReuseWish reuse;       // extension: text that stood at another place
  engine::ContextWish context;   // extension: how much context an answer may hold on to
  SummaryRule summary;           // extension: when older turns of a chat are summarised
};

// Everything but logprobs, whose form differs between the two endpoints.
GenerationFields read_generation_fields(FieldReader& read, const GenerationDefaults& defaults);

}  // namespace refrain::serve
