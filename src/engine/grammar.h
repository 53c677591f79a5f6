// Grammars: constrains what may be sampled to JSON, a JSON schema or a forced tool call, through
// xgrammar (grammar.cpp only). Compiling runs on the caller's thread (never the engine thread) and
// is bounded in schema size and depth; compiled grammars are cached by their text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace refrain::engine {

struct GrammarSpec {
  enum class Kind { kJsonObject, kJsonSchema, kToolCall };
  Kind kind = Kind::kJsonObject;
  std::string schema_json;  // kJsonSchema: the schema
  // kToolCall: JSON array of the callable tools' {"name", "parameters"}; the output is then
  // <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>
  std::string tools_json;
  bool parallel_calls = false;
};

struct GrammarLimits {
  std::size_t max_schema_bytes = 64U << 10U;
  std::uint32_t max_depth = 32;
  std::uint32_t max_values = 10'000;             // JSON values in one schema
  std::uint32_t max_pattern_bytes = 1024;        // one regular expression
  std::uint32_t max_pattern_repetitions = 2000;  // sum of the upper bounds of all {m,n}
  std::uint32_t max_tools = 128;
  std::size_t max_cached = 64;  // compiled grammars kept, least recently used out
  std::size_t max_cached_bytes = 256U << 20U;
};

class CompiledGrammar;  // immutable, shared

// Per choice, engine thread: follows the sampled tokens.
class GrammarState {
 public:
  virtual ~GrammarState() = default;
  // Sets logits of tokens that may not come next to -infinity. logits: [vocab_size].
  virtual void mask(std::span<float> logits) = 0;
  // Takes a sampled token; false if the grammar does not allow it (our bug or a race).
  virtual bool accept(TokenId token) = 0;
  // The text is complete; only an end token may follow.
  virtual bool finished() const = 0;
};

class GrammarCompiler {
 public:
  explicit GrammarCompiler(const text::Tokenizer& tokenizer, GrammarLimits limits = {});
  ~GrammarCompiler();
  // Thread-safe. kInvalidArgument (field "response_format" or "tools") or kTooLarge.
  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec);
  static std::unique_ptr<GrammarState> start(const CompiledGrammar& grammar);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::engine
