// See generation_fields.h.
#include "serve/generation_fields.h"

#include <algorithm>
#include <charconv>

#include "base/str.h"
#include "serve/reuse_words.h"

namespace refrain::serve {
namespace {

constexpr std::int64_t kMostTurns = 4096;
constexpr std::int64_t kNoUpperLimit = std::numeric_limits<std::int64_t>::max();

void read_seed(FieldReader& read, std::optional<std::uint64_t>* seed) {
  const Json* member = read.any("seed");
  if (member == nullptr) return;
  if (const auto* natural = std::get_if<std::uint64_t>(&member->value)) {
    *seed = *natural;  // 2^63 .. 2^64 - 1
    return;
  }
  std::int64_t value = 0;
  // -1 is what clients of other servers send for "any seed".
  if (read.integer("seed", -1, kNoUpperLimit, &value) && value >= 0)
    *seed = static_cast<std::uint64_t>(value);
}

void add_stop(FieldReader& read, const Json& item, std::vector<std::string>* stop) {
  const std::string* text = item.text();
  if (text == nullptr) {
    read.fail("stop", str_cat("must be a string or an array of strings, not ", item.kind_name()));
  } else if (text->empty()) {
    read.fail("stop", "must not hold an empty string");
  } else if (text->size() > kMaxStopBytes) {
    read.fail("stop",
              str_cat("holds a string of ", text->size(), " bytes; at most ", kMaxStopBytes));
  } else {
    stop->push_back(*text);
  }
}

void read_stop(FieldReader& read, std::vector<std::string>* stop) {
  const Json* member = read.any("stop");
  if (member == nullptr) return;
  const JsonArray* items = member->array();
  if (items == nullptr) {
    // A lone "" is what form-based clients send for "no stop string"; inside a list it is a
    // mistake.
    if (member->text() == nullptr || !member->text()->empty()) add_stop(read, *member, stop);
    return;
  }
  if (items->size() > kMaxStopStrings) {
    read.fail("stop", str_cat("holds ", items->size(), " strings; at most ", kMaxStopStrings));
    return;
  }
  for (const Json& item : *items) add_stop(read, item, stop);
}

void read_logit_bias(FieldReader& read, std::vector<engine::LogitBias>* bias) {
  const Json* member = read.object("logit_bias");
  if (member == nullptr) return;
  constexpr std::size_t kMaxBiases = 1024;
  if (member->object()->size() > kMaxBiases) {
    read.fail("logit_bias", str_cat("holds more than ", kMaxBiases, " tokens"));
    return;
  }
  FieldReader items(*member, read.path_of("logit_bias"));
  for (const JsonMember& item : *member->object()) {
    std::int32_t id = -1;
    const char* end = item.name.data() + item.name.size();
    const auto parsed = std::from_chars(item.name.data(), end, id);
    if (parsed.ec != std::errc{} || parsed.ptr != end || id < 0) {
      read.fail("logit_bias",
                str_cat("has the key `", item.name.substr(0, 40), "`, which is not a token id"));
      return;
    }
    float value = 0;
    items.number(item.name, -100, 100, &value);
    bias->push_back(engine::LogitBias{TokenId{id}, value});
  }
  if (items.failed()) {
    Error error = items.error();
    error.field = read.path_of("logit_bias");
    read.fail(std::move(error));
  }
}

void read_sampling(FieldReader& read, engine::SamplingParams* sampling) {
  read.number("temperature", 0, 100, &sampling->temperature);
  read.number("top_p", 0, 1, &sampling->top_p);
  // OpenAI accepts 0 and means "the best token only".
  if (sampling->top_p <= 0) sampling->top_p = 1e-6F;
  read.number("min_p", 0, 1, &sampling->min_p);
  if (sampling->min_p >= 1.0F) read.fail("min_p", "must be less than 1");
  read.integer_into("top_k", -1, std::numeric_limits<std::int32_t>::max(), &sampling->top_k);
  for (const std::string_view name : {"repeat_penalty", "repetition_penalty"}) {
    read.number(name, 0, 100, &sampling->repetition_penalty);
    if (read.any(name) != nullptr && sampling->repetition_penalty <= 0)
      read.fail(name, "must be greater than 0");
  }
  read.number("presence_penalty", -2, 2, &sampling->presence_penalty);
  read.number("frequency_penalty", -2, 2, &sampling->frequency_penalty);
  read_logit_bias(read, &sampling->logit_bias);
  read_seed(read, &sampling->seed);
}

void read_max_tokens(FieldReader& read, std::optional<std::uint32_t>* max_tokens) {
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
    std::int64_t value = 0;
    if (read.integer(name, 0, kNoUpperLimit, &value))
      *max_tokens = static_cast<std::uint32_t>(
          std::min<std::int64_t>(value, std::numeric_limits<std::uint32_t>::max()));
  }
}

void read_reuse_mode(FieldReader& read, std::string_view name, const std::string& word,
                     engine::ReuseMode* mode) {
  const std::optional<engine::ReuseMode> known = reuse_mode(word);
  if (known.has_value()) {
    *mode = *known;
  } else {
    read.fail(
        name,
        str_cat("must be exact, repair or splice, not `", to_valid_utf8(word.substr(0, 40)), "`"),
        "leave it out to take what the server was started with (--reuse)");
  }
}

// "repair" or {"mode": "repair", "max_divergence": 0.02, ...}. An unknown member is a mistake here:
// a limit that is misspelt must not go unheeded.
void read_reuse(FieldReader& read, engine::ReuseWish* reuse) {
  const Json* member = read.any("reuse");
  if (member == nullptr) return;
  if (const std::string* word = member->text()) {
    read_reuse_mode(read, "reuse", *word, &reuse->mode);
    return;
  }
  if (member->object() == nullptr) {
    read.fail("reuse", str_cat("must be an object or a string, not ", member->kind_name()),
              R"(write {"mode": "repair", "max_divergence": 0.02} or "repair")");
    return;
  }
  FieldReader inner(*member, read.path_of("reuse"));
  for (const JsonMember& item : *member->object()) {
    if (item.name != "mode" && item.name != "max_divergence" &&
        item.name != "max_changed_first_tokens")
      inner.fail(to_valid_utf8(item.name.substr(0, 40)), "is not known",
                 "`reuse` holds `mode`, `max_divergence` and `max_changed_first_tokens`");
  }
  std::string word;
  if (inner.text("mode", &word)) read_reuse_mode(inner, "mode", word, &reuse->mode);
  inner.number("max_divergence", 0, kLargestMaxDivergence, &reuse->max_divergence);
  inner.number("max_changed_first_tokens", 0, 1, &reuse->max_changed_first_tokens);
  if (inner.failed()) read.fail(inner.error());
}

void read_context_policy(FieldReader& read, std::string_view name, const std::string& word,
                         GenerationFields* fields) {
  fields->context.policy = model::trim_policy_named(word);
  fields->summary.on = word == kSummaryPolicy;
  if (fields->context.policy != nullptr || fields->summary.on || word == kNoPolicy) return;
  read.fail(name,
            str_cat("must be ", context_policy_words(", "), " or ", kSummaryPolicy, ", not `",
                    to_valid_utf8(word.substr(0, 40)), "`"),
            "leave it out to take what the server was started with (--context-policy)");
}

// {"policy": "heavy_hitters", "budget_tokens": 1024}, {"policy": "summary", "budget_tokens": 1024,
// "recent_turns": 2, "split_turns": 0} or "none". As with `reuse` an unknown member is a mistake.
// The engine knows how small a budget may be.
void read_context(FieldReader& read, GenerationFields* fields) {
  const Json* member = read.any("context");
  if (member == nullptr) return;
  if (member->text() != nullptr && *member->text() == kNoPolicy) {
    fields->context = {};
    fields->summary = {};
    return;
  }
  if (member->text() != nullptr) {
    read_context_policy(read, "context", *member->text(), fields);
    if (fields->context.budget_tokens == 0)
      read.fail("context", "lacks a budget", R"(write {"policy": ..., "budget_tokens": 1024})");
    fields->summary.budget_tokens = fields->context.budget_tokens;
    return;
  }
  if (member->object() == nullptr) {
    read.fail("context", "must be an object or the name of a policy",
              R"(write {"policy": "heavy_hitters", "budget_tokens": 1024})");
    return;
  }
  FieldReader inner(*member, read.path_of("context"));
  static constexpr std::string_view kMembers[] = {"policy", "budget_tokens", "recent_turns",
                                                  "split_turns"};
  for (const JsonMember& item : *member->object()) {
    if (std::find(std::begin(kMembers), std::end(kMembers), item.name) == std::end(kMembers))
      inner.fail(to_valid_utf8(item.name.substr(0, 40)), "is not known",
                 "`context` holds `policy`, `budget_tokens`, `recent_turns` and `split_turns`");
  }
  std::string word;
  if (inner.text("policy", &word)) read_context_policy(inner, "policy", word, fields);
  std::uint32_t budget_tokens = fields->context.budget_tokens;
  inner.integer_into("budget_tokens", 1, std::numeric_limits<std::int32_t>::max(), &budget_tokens);
  fields->context.budget_tokens = budget_tokens;
  fields->summary.budget_tokens = budget_tokens;
  for (const auto& [name, value] : {std::pair{"recent_turns", &fields->summary.recent_turns},
                                    std::pair{"split_turns", &fields->summary.split_turns}}) {
    if (inner.integer_into(name, 0, kMostTurns, value) && !fields->summary.on)
      inner.fail(name, "belongs to the policy `summary`");
  }
  if ((fields->context.policy != nullptr || fields->summary.on) && budget_tokens == 0)
    inner.fail("budget_tokens", "is missing", "say how many tokens of context may be kept");
  if (inner.failed()) read.fail(inner.error());
}

}  // namespace

GenerationFields read_generation_fields(FieldReader& read, const GenerationDefaults& defaults) {
  GenerationFields fields;
  fields.sampling = defaults.sampling;
  fields.reuse = defaults.reuse;
  fields.context = defaults.context;
  fields.summary = defaults.summary;
  read.text("model", &fields.model);
  read_sampling(read, &fields.sampling);
  read_max_tokens(read, &fields.max_tokens);
  read.integer_into("n", 1, defaults.max_choices, &fields.choice_count);
  read_stop(read, &fields.stop);
  read.boolean("ignore_eos", &fields.ignore_eos);
  read.boolean("stream", &fields.stream);
  if (const Json* options = read.object("stream_options")) {
    FieldReader inner(*options, read.path_of("stream_options"));
    inner.boolean("include_usage", &fields.include_usage);
    if (inner.failed()) read.fail(inner.error());
  }
  read.boolean("return_progress", &fields.return_progress);
  read.boolean("cache_prompt", &fields.use_cache);
  read.text("cache_salt", &fields.cache_salt);
  read_reuse(read, &fields.reuse);
  read_context(read, &fields);
  return fields;
}

}  // namespace refrain::serve
