#include "engine/grammar.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/str.h"
#include "engine/schema_bounds.h"

namespace refrain::engine {

class CompiledGrammar {
 public:
  CompiledGrammar(xgrammar::CompiledGrammar grammar, std::size_t vocabulary_size)
      : grammar_(std::move(grammar)), vocabulary_size_(vocabulary_size) {}
  const xgrammar::CompiledGrammar& grammar() const { return grammar_; }
  std::size_t vocabulary_size() const { return vocabulary_size_; }

 private:
  xgrammar::CompiledGrammar grammar_;
  std::size_t vocabulary_size_;
};

namespace {

using Json = nlohmann::json;

// Longest run of blanks between two JSON tokens: room for deep indentation, no endless white space.
// Within it the model writes as it likes: forcing compact JSON did not make SmolLM2 finish more
// often (it ends by length inside strings and lists, not in blanks).
constexpr int kMaxWhitespace = 32;
constexpr std::string_view kResponseFormat = "response_format";
constexpr std::string_view kTools = "tools";

std::string_view field_of(const GrammarSpec& spec) {
  return spec.kind == GrammarSpec::Kind::kToolCall ? kTools : kResponseFormat;
}

// The library prefixes some messages with time, source file and line; clients get the rest.
std::string plain_message(std::string_view what) {
  if (const auto file = what.find(".cc:"); file != std::string_view::npos)
    if (const auto colon = what.find(": ", file + 4); colon != std::string_view::npos)
      what.remove_prefix(colon + 2);
  while (!what.empty() && (what.back() == '\n' || what.back() == '.')) what.remove_suffix(1);
  return to_valid_utf8(what.substr(0, 300));
}

Error not_compiled(const GrammarSpec& spec, std::string_view what) {
  return Error{
      Code::kInvalidArgument,
      str_cat("the schema in `", field_of(spec), "` cannot be used: ", plain_message(what)),
      "use the common keywords of JSON schema", std::string(field_of(spec))};
}

class Matcher final : public GrammarState {
 public:
  explicit Matcher(const CompiledGrammar& compiled)
      : matcher_(compiled.grammar()),
        vocabulary_size_(compiled.vocabulary_size()),
        allowed_(static_cast<std::size_t>(
            xgrammar::GetBitmaskSize(static_cast<int>(compiled.vocabulary_size())))) {
    refill();
  }

  void mask(std::span<float> logits) override {
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (!is_allowed(i)) logits[i] = -std::numeric_limits<float>::infinity();
  }

  bool accept(TokenId token) override {
    if (!is_allowed(static_cast<std::size_t>(to_int(token)))) return false;
    try {
      if (!matcher_.AcceptToken(to_int(token))) return false;
      refill();
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }

  bool finished() const override { return finished_; }

 private:
  bool is_allowed(std::size_t token) const {
    if (token >= vocabulary_size_) return false;
    return (static_cast<std::uint32_t>(allowed_[token / 32]) >> (token % 32) & 1U) != 0;
  }

  // The mask for the next token; an exception of the library leaves a mask that allows nothing,
  // which ends the request with an error.
  void refill() {
    std::fill(allowed_.begin(), allowed_.end(), 0);
    if (matcher_.IsTerminated()) {
      finished_ = true;
      return;
    }
    std::int64_t shape = static_cast<std::int64_t>(allowed_.size());
    DLTensor tensor{};
    tensor.data = allowed_.data();
    tensor.device = DLDevice{kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = xgrammar::GetBitmaskDLType();
    tensor.shape = &shape;
    matcher_.FillNextTokenBitmask(&tensor);
    finished_ = matcher_.IsCompleted() && only_stop_tokens_left();
  }

  bool only_stop_tokens_left() const {
    std::size_t left = 0;
    for (std::size_t i = 0; i < vocabulary_size_; ++i) left += is_allowed(i) ? 1 : 0;
    for (const int stop : matcher_.GetStopTokenIds())
      if (is_allowed(static_cast<std::size_t>(stop))) --left;
    return left == 0;
  }

  xgrammar::GrammarMatcher matcher_;
  const std::size_t vocabulary_size_;
  std::vector<std::int32_t> allowed_;  // one bit per token
  bool finished_ = false;
};

// A state for a grammar that failed to start: allows nothing.
class DeadState final : public GrammarState {
 public:
  void mask(std::span<float> logits) override {
    std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
  }
  bool accept(TokenId /*token*/) override { return false; }
  bool finished() const override { return false; }
};

xgrammar::TokenizerInfo describe_tokenizer(const text::Tokenizer& tokenizer) {
  std::vector<std::string> pieces(tokenizer.size());
  std::vector<std::int32_t> stops;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    // Control tokens have no bytes, which makes them unusable inside a grammar.
    if (!tokenizer.is_control(token)) pieces[i] = std::string(tokenizer.piece(token));
    if (tokenizer.is_end_of_generation(token)) stops.push_back(to_int(token));
  }
  return xgrammar::TokenizerInfo(pieces, xgrammar::VocabType::RAW, static_cast<int>(pieces.size()),
                                 stops);
}

// Most recently used grammars, by a hash of what they were compiled from.
class GrammarCache {
 public:
  explicit GrammarCache(const GrammarLimits& limits) : limits_(limits) {}

  std::shared_ptr<const CompiledGrammar> find(const Hash128& key) {
    std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->grammar;
  }

  void insert(const Hash128& key, std::shared_ptr<const CompiledGrammar> grammar) {
    const std::size_t bytes = grammar->grammar().MemorySizeBytes();
    std::lock_guard lock(mutex_);
    if (bytes > limits_.max_cached_bytes || by_key_.contains(key)) return;
    recent_.push_front(Entry{key, std::move(grammar), bytes});
    by_key_[key] = recent_.begin();
    bytes_ += bytes;
    while (recent_.size() > limits_.max_cached || bytes_ > limits_.max_cached_bytes) {
      bytes_ -= recent_.back().bytes;
      by_key_.erase(recent_.back().key);
      recent_.pop_back();
    }
  }

 private:
  struct Entry {
    Hash128 key;
    std::shared_ptr<const CompiledGrammar> grammar;
    std::size_t bytes;
  };
  const GrammarLimits limits_;
  std::mutex mutex_;
  std::list<Entry> recent_;
  std::map<Hash128, std::list<Entry>::iterator> by_key_;
  std::size_t bytes_ = 0;
};

Hash128 key_of(const GrammarSpec& spec) {
  return hash_text(str_cat(static_cast<int>(spec.kind), spec.parallel_calls ? 'p' : 's',
                           spec.schema_json.size(), ':', spec.schema_json, spec.tools_json));
}

// <tool_call>\n{"name": NAME, "arguments": ARGUMENTS}\n</tool_call>, one or several
Result<std::string> tool_call_tags(const GrammarSpec& spec, const GrammarLimits& limits) {
  const Json tools = Json::parse(spec.tools_json, nullptr, /*allow_exceptions=*/false);
  const auto bad = [](std::string message) {
    return Error{Code::kInvalidArgument, std::move(message),
                 "send an array of functions with `name` and `parameters`", std::string(kTools)};
  };
  if (!tools.is_array() || tools.empty()) return bad("`tools` holds no callable function");
  if (tools.size() > limits.max_tools)
    return Error{
        Code::kTooLarge,
        str_cat("`tools` holds ", tools.size(), " functions, allowed are ", limits.max_tools),
        "send fewer tools", std::string(kTools)};
  Json tags = Json::array();
  for (const Json& tool : tools) {
    if (!tool.is_object() || !tool.contains("name") || !tool["name"].is_string())
      return bad("a function in `tools` has no `name`");
    Json parameters = tool.value("parameters", Json(nullptr));
    if (parameters.is_null()) parameters = Json{{"type", "object"}};
    if (!parameters.is_object()) return bad("`parameters` of a function in `tools` is no object");
    tags.push_back(Json{
        {"type", "tag"},
        {"begin", str_cat("<tool_call>\n{\"name\": ", tool["name"].dump(), ", \"arguments\": ")},
        {"content",
         {{"type", "json_schema"},
          {"json_schema", std::move(parameters)},
          {"max_whitespace_cnt", kMaxWhitespace}}},
        {"end", "}\n</tool_call>"}});
  }
  const Json format{{"type", "tags_with_separator"},
                    {"tags", std::move(tags)},
                    {"separator", "\n"},
                    {"at_least_one", true},
                    {"stop_after_first", !spec.parallel_calls}};
  return Json{{"type", "structural_tag"}, {"format", format}}.dump();
}

}  // namespace

struct GrammarCompiler::Impl {
  Impl(const text::Tokenizer& tokenizer, const GrammarLimits& grammar_limits)
      : limits(grammar_limits),
        vocabulary_size(tokenizer.size()),
        compiler(describe_tokenizer(tokenizer), /*max_threads=*/1, /*cache_enabled=*/false),
        cache(grammar_limits) {}

  xgrammar::CompiledGrammar compile_schema(const std::string& schema, bool strict) {
    return compiler.CompileJSONSchema(schema, /*any_whitespace=*/true, /*indent=*/std::nullopt,
                                      /*separators=*/std::nullopt, strict, kMaxWhitespace);
  }

  xgrammar::CompiledGrammar compile(const GrammarSpec& spec, const std::string& tags) {
    switch (spec.kind) {
      case GrammarSpec::Kind::kJsonObject:
        return compile_schema(R"({"type":"object"})", /*strict=*/false);
      case GrammarSpec::Kind::kJsonSchema:
        return compile_schema(spec.schema_json, /*strict=*/true);
      case GrammarSpec::Kind::kToolCall:
        break;
    }
    return compiler.CompileStructuralTag(tags);
  }

  const GrammarLimits limits;
  const std::size_t vocabulary_size;
  std::mutex compiling;  // one at a time: bounds memory and leaves cores to the engine
  xgrammar::GrammarCompiler compiler;
  GrammarCache cache;
};

GrammarCompiler::GrammarCompiler(const text::Tokenizer& tokenizer, GrammarLimits limits)
    : impl_(std::make_unique<Impl>(tokenizer, limits)) {}

GrammarCompiler::~GrammarCompiler() = default;

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::compile(const GrammarSpec& spec) {
  const Hash128 key = key_of(spec);
  if (auto known = impl_->cache.find(key)) return known;
  std::string tags;
  if (spec.kind == GrammarSpec::Kind::kJsonSchema)
    RETURN_IF_ERROR(check_schema_bounds(spec.schema_json, impl_->limits, kResponseFormat));
  if (spec.kind == GrammarSpec::Kind::kToolCall) {
    RETURN_IF_ERROR(check_schema_bounds(spec.tools_json, impl_->limits, kTools));
    ASSIGN_OR_RETURN(tags, tool_call_tags(spec, impl_->limits));
  }
  std::lock_guard lock(impl_->compiling);
  if (auto known = impl_->cache.find(key)) return known;
  try {
    auto grammar =
        std::make_shared<const CompiledGrammar>(impl_->compile(spec, tags), impl_->vocabulary_size);
    impl_->cache.insert(key, grammar);
    return std::shared_ptr<const CompiledGrammar>(std::move(grammar));
  } catch (const std::exception& error) {
    return not_compiled(spec, error.what());
  }
}

std::unique_ptr<GrammarState> GrammarCompiler::start(const CompiledGrammar& grammar) {
  try {
    return std::make_unique<Matcher>(grammar);
  } catch (const std::exception&) {
    return std::make_unique<DeadState>();
  }
}

}  // namespace refrain::engine
