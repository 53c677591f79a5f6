// Composition: the concrete objects of one process, made from settings. Three storeys, each usable
// without the one above:
//
//   LoadedModel   model file, tokenizer, chat template                  tokenize
//   Compute       + arena, executor                                     bench prefill|decode, eval
//   EngineHost    + ledger, engine, grammars, metrics, clock            run, chat, serve
//
// Built on the main thread; the engine thread runs inside Engine.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/result.h"
#include "capacity/ledgers.h"
#include "cli/console.h"
#include "cli/kv_sizing.h"
#include "cli/settings.h"
#include "engine/engine.h"
#include "engine/grammar.h"
#include "kernels/cpu_kernels.h"
#include "kv/ledger.h"
#include "metrics/registry.h"
#include "model/executor.h"
#include "model/kv_arena.h"
#include "model/model.h"
#include "serve/summary_rule.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace refrain::cli {

// Sampling of requests that leave it out.
engine::SamplingParams default_sampling(const Settings& settings);
// Reuse of requests that leave it out.
engine::ReuseWish default_reuse(const Settings& settings);
// How much context requests that leave it out hold on to.
engine::ContextWish default_context(const Settings& settings);
serve::SummaryRule default_summary(const Settings& settings);

// What --kernels chooses; kInvalidArgument if this processor lacks it or it is ggml's.
Result<kernels::InstructionSet> instruction_set(const Settings& settings);

struct LoadedModel {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;  // empty: chat is refused, completions work
  std::string name;                                 // first --alias or the file's name
  std::vector<std::string> aliases;                 // further ones

  // Shows progress on the console. A --chat-template that does not parse is an error, a broken one
  // of the model's own a warning: both come here, not at the first request.
  static Result<LoadedModel> load(const Settings& settings, Console& console);
};

struct Compute {
  LoadedModel loaded;
  KvSizing sizing;
  std::uint32_t block_size = 16;
  std::unique_ptr<model::KvArena> arena;
  std::unique_ptr<model::Executor> executor;
  bool gives_attention = true;  // its operators say what rows attend to
  std::string kv_note;  // how the KV format came about: "checked (mean KL ..)"; may be empty

  static Result<Compute> create(LoadedModel loaded, const Settings& settings, Console& console);
  // In that format, whatever the settings say, and unchecked.
  static Result<Compute> create_with(model::KvFormat format, LoadedModel loaded,
                                     const Settings& settings, Console& console);
  // Hash of everything of this process that changes the bits of a block.
  Hash128 cache_root() const;
  Hash128 cache_root(model::KvFormat format) const;  // as if the arena had that one
  // What the ledgers are computed from, as this process stores and reads it; the speed of reading
  // is left out.
  capacity::LedgerInput ledger_input() const;
  // What trims contexts of sequences in `ledger`, whose blocks are those of the arena.
  engine::TrimParts trim_parts(kv::Ledger& ledger) const;
  // How equal a warm answer is to a cold one: "bitwise" where `refrain eval exact` holds, "token"
  // where it has not been tried.
  std::string_view exactness() const;

 private:
  Result<void> make_arena(const Settings& settings, model::KvFormat format, Console& console);
};

struct Calibration;

// Not movable: the engine holds pointers to its neighbours. Members are destroyed in reverse order,
// so the engine goes first.
struct EngineHost {
  Compute compute;
  SteadyClock clock;
  metrics::Registry metrics;
  std::unique_ptr<kv::Ledger> ledger;
  double read_bytes_per_s = 0;  // of the weights, measured for `serve`; 0 = not measured
  std::unique_ptr<engine::GrammarCompiler> grammars;
  // For text at other places; none of them with ggml's operators, which show no attention.
  std::unique_ptr<model::Splice> splice;
  std::optional<model::ProbeReader> probes;
  std::shared_ptr<const Calibration> calibration;  // null: none
  std::optional<model::ReuseGate> gate;            // made of it
  engine::TrimParts trim;
  std::unique_ptr<engine::Engine> engine;

  // Likewise: what trims contexts. kInvalidArgument for a default that cannot be kept to.
  Result<void> prepare_trim(const Settings& settings);
  // `compute` is there: what moves text, and the gate if it is calibrated.
  Result<void> prepare_reuse(const Settings& settings);
  // Loads everything and starts the engine thread.
  static Result<std::unique_ptr<EngineHost>> start(const Settings& settings, Console& console);
};

}  // namespace refrain::cli
