// What goes into the engine and what comes out. Plain data that crosses from network threads to
// the engine thread and back.
//
//   Engine::submit(GenerateRequest, OutputStream) -> events: kAccepted? kToken* (kFinished |
//   kError) once
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/sampling.h"
#include "kv/ledger.h"
#include "model/trim_policy.h"

namespace refrain::engine {

class CompiledGrammar;  // grammar.h

// How a request may reuse text that stands at another place than it was computed at.
enum class ReuseMode {
  kExact,   // not at all: the answer is that of a cold run, bit for bit
  kRepair,  // moved and repaired where a calibrated gate expects at most `max_divergence`
  kSplice,  // moved and never repaired or judged; for measuring
};

struct ReuseWish {
  ReuseMode mode = ReuseMode::kExact;
  double max_divergence = 0.05;  // mean KL in nats against a cold run, of the first answer tokens
  // Of greedy answers: how likely each of the first tokens may be another one than that of a cold
  // run before the rest is computed exactly (where little is expected to be off: reuse_gate.h).
  double max_changed_first_tokens = 0.1;
};

// How much context an answer may hold on to while it is generated.
struct ContextWish {
  const model::TrimPolicy* policy = nullptr;  // null: all of it
  std::uint32_t budget_tokens = 0;
};

// Why text that was found at another place was computed all the same.
enum class ReuseRefusal {
  kNone,          // it was reused, or there was none, or none was wanted
  kUncalibrated,  // this model and KV format have no calibration: see `refrain calibrate`
  kDivergence,    // the expected divergence is above what the request allows
  kNearTie,       // a first token led by so little that a cold run may choose another one
  kNoRoom,        // its blocks could not be kept beside what runs
  kUnsupported,   // these operators give no attention to look at
};

enum class Task { kGenerate, kEmbed };  // kEmbed: mean of the final hidden states, L2-normalised

struct GenerateRequest {
  RequestId id{};  // given by submit()
  Task task = Task::kGenerate;
  TokenList prompt;                             // at least one token
  std::vector<std::size_t> message_begin = {};  // see text/prompt.h; for miss reports
  std::vector<std::size_t> header_begin = {};   // see text/prompt.h; trimming cuts there
  std::size_t head_tokens = 0;                  // see text/prompt.h; trimming keeps them
  SamplingParams sampling;
  std::uint32_t max_tokens = 0;    // generated tokens; 0 = compute the prompt only
  std::uint32_t choice_count = 1;  // n
  std::vector<std::string> stop;   // non-empty strings
  std::vector<TokenId> stop_tokens;
  bool ignore_eos = false;
  bool prompt_logprobs = false;  // echo with logprobs
  std::string label = {};        // what reports call it; the id of the caller's answer
  std::string tenant;            // "" = default tenant; selects salt and queue share
  Hash128 salt{};                // mixed into the cache space
  bool use_cache = true;         // false: neither match nor publish (reference runs)
  bool gives_way = false;        // nobody waits for it: others go before it
  ReuseWish reuse = {};
  ContextWish context = {};
  std::shared_ptr<const CompiledGrammar> grammar;  // null = free text
  Tick deadline = 0;                               // 0 = none
};

enum class FinishReason { kStop, kLength, kCancelled, kDeadline, kError };

struct TokenLogprob {
  TokenId token{};
  std::string bytes;     // raw bytes of the token
  float logprob = 0.0F;  // natural log, of the model's distribution before temperature,
                         // penalties and truncation
  struct Alternative {
    TokenId token{};
    std::string bytes;
    float logprob = 0.0F;
  };
  std::vector<Alternative> top;
};

// Tokens of the prompt by provenance, and what was generated:
// prompt == cached + moved + repaired + computed once the prompt is done.
struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;    // K/V came from the cache, exactly
  std::uint32_t moved_tokens = 0;     // K/V came from another place or behind approximate text
  std::uint32_t repaired_tokens = 0;  // found at another place, and computed again
  std::uint32_t computed_tokens = 0;  // found nowhere
  // Mean KL in nats that the gate expects of this request; none if all of it is exact, or where
  // nothing judges it (kSplice).
  std::optional<double> divergence_estimate = {};
  ReuseRefusal refusal = ReuseRefusal::kNone;
  std::uint32_t dropped_tokens = 0;     // of the first choice's context, trimmed away by its end
  std::uint32_t completion_tokens = 0;  // over all choices
  kv::MissReason miss_reason = kv::MissReason::kNone;
};

struct Timings {
  double queue_ms = 0;
  double prefill_ms = 0;  // first step until the first token is sampled
  double ttft_ms = 0;     // submit until the first token
  double decode_ms = 0;   // first until last token
  double tpot_ms = 0;     // mean per output token after the first; 0 if there is none
};

struct TokenEvent {
  enum class Kind {
    kPromptProgress,  // computed/total prompt tokens, during a long prefill
    kText,            // text and logprobs of one choice
    kChoiceFinished,  // finish reason of one choice
    kFinished,        // whole request done; usage and timings final; nothing follows
    kError,           // request ended by an error; nothing follows
  };
  Kind kind = Kind::kText;
  std::uint32_t choice = 0;
  std::string text;                    // well-formed UTF-8, stop strings already removed
  std::vector<TokenLogprob> logprobs;  // items whose text is released by this event
  std::vector<TokenId> tokens;         // tokens sampled since the last event of this choice
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_matched;  // stop string or token that ended the choice
  std::uint32_t progress_done = 0, progress_total = 0;
  Usage usage;
  Timings timings;
  std::vector<float> embedding;  // kFinished of Task::kEmbed
  std::vector<TokenLogprob>
      prompt_logprobs;  // kFinished when asked for; first item has no logprob (NaN)
  Error error{};
};

// Where a request's events go. on_event is called by the engine thread and must not block; the
// number of events is bounded by max_tokens * choice_count plus a few.
class OutputStream {
 public:
  virtual ~OutputStream() = default;
  virtual void on_event(TokenEvent event) = 0;
};

}  // namespace refrain::engine
