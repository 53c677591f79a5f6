// Wiring. Main thread.
#include "cli/runtime.h"

#include <filesystem>

#include "base/str.h"
#include "capacity/model_ledger.h"
#include "cli/calibration.h"
#include "cli/kv_check.h"
#include "model/repair_choice.h"
#include "serve/reuse_words.h"

namespace refrain::cli {
namespace {

// Raised when what a block holds, or how its key is made, changes.
constexpr std::string_view kBlockFormat = "refrain-block/2";
constexpr std::size_t kMaxTemplateBytes = 1U << 20U;

text::SpecialTokens special_tokens(const text::Vocabulary& vocabulary) {
  const auto written = [&](const std::optional<TokenId>& id) {
    return id.has_value() ? vocabulary.tokens.at(static_cast<std::size_t>(to_int(*id)))
                          : std::string{};
  };
  return {.bos = written(vocabulary.bos), .eos = written(vocabulary.eos)};
}

// A template given by the user must parse. A broken one of the model's own is reported, and chat is
// then refused; text can still be continued.
Result<std::optional<text::ChatTemplate>> load_template(const Settings& settings,
                                                        const model::Model& model,
                                                        Console& console) {
  using Maybe = std::optional<text::ChatTemplate>;
  const std::string& path = settings.text("--chat-template");
  std::string source = model.chat_template();
  if (!path.empty()) {
    ASSIGN_OR_RETURN(source, read_file(path, kMaxTemplateBytes));
  }
  if (source.empty()) return Maybe{};
  Result<text::ChatTemplate> parsed =
      text::ChatTemplate::parse(source, special_tokens(model.vocabulary()));
  if (parsed.ok()) return Maybe(std::move(*parsed));
  if (!path.empty()) {
    Error error = parsed.error();
    error.message = str_cat("chat template `", path, "` is broken: ", error.message);
    return error;
  }
  console.warn(
      str_cat("the model's chat template is broken, so chat is off: ", parsed.error().message),
      "give a working template with --chat-template FILE");
  return Maybe{};
}

// "a.gguf" or "folder/a.gguf" -> "a"
std::string file_stem(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

std::string rope_text(const model::RopeSettings& rope) {
  std::string text = str_cat(static_cast<int>(rope.layout), ",", rope.dimensions, ",", rope.base,
                             ",", rope.base_local, ",", static_cast<int>(rope.scaling), ",",
                             rope.factor, ",", rope.original_context, ",", rope.attention_factor,
                             ",", rope.beta_fast, ",", rope.beta_slow);
  for (const float factor : rope.frequency_factors) text += str_cat(",", factor);
  return text;
}

Result<std::unique_ptr<model::Executor>> make_executor(const LoadedModel& loaded,
                                                       model::KvArena& arena,
                                                       const Settings& settings, Console& console) {
  model::ExecutorOptions options{
      .thread_count = static_cast<std::uint32_t>(settings.integer("--threads")),
      .max_batch_rows = static_cast<std::uint32_t>(settings.integer("--step-tokens"))};
  const std::string& kernels = settings.text("--kernels");
  if (kernels == "ggml") return model::Executor::create_ggml(*loaded.model, arena, options);
  ASSIGN_OR_RETURN(options.instruction_set, instruction_set(settings));
  options.on_progress = [&](double share) { console.progress("packing weights", share); };
  auto made = model::Executor::create_cpu(*loaded.model, arena, options);
  console.end_progress();
  return made;
}

engine::IsolationOptions isolation_options(const Settings& settings) {
  // Whoever talks to a model alone shares it with nobody.
  if (settings.command() != "serve") return {};
  const auto number = [&](std::string_view flag) {
    return static_cast<std::uint32_t>(settings.integer(flag));
  };
  return {.long_tokens = number("--long-tokens"),
          .step_percent = number("--long-step-percent"),
          .pool_percent = number("--long-pool-percent"),
          .alarm_factor = settings.real("--alarm-factor"),
          .throttle = settings.boolean("--throttle")};
}

}  // namespace

Result<kernels::InstructionSet> instruction_set(const Settings& settings) {
  const std::string& name = settings.text("--kernels");
  if (name == "auto") return kernels::best_instruction_set();
  const auto set = kernels::instruction_set_named(name);
  if (!set) {
    return Error{Code::kInvalidArgument, str_cat("there are no ", name, " kernels of our own"),
                 "--kernels avx512, avx2 or portable", "--kernels"};
  }
  if (!kernels::is_available(*set)) {
    return Error{Code::kInvalidArgument,
                 str_cat("this processor does not have what the ", name, " kernels need"),
                 "--kernels auto takes the best that it has", "--kernels"};
  }
  return *set;
}

engine::SamplingParams default_sampling(const Settings& settings) {
  return {.temperature = static_cast<float>(settings.real("--temperature")),
          .top_k = static_cast<std::int32_t>(settings.integer("--top-k")),
          .top_p = static_cast<float>(settings.real("--top-p")),
          .min_p = static_cast<float>(settings.real("--min-p")),
          .repetition_penalty = static_cast<float>(settings.real("--repeat-penalty"))};
}

engine::ReuseWish default_reuse(const Settings& settings) {
  return {.mode = serve::reuse_mode(settings.text("--reuse")).value(),
          .max_divergence = settings.real("--max-divergence"),
          .max_changed_first_tokens = settings.real("--max-changed-first-tokens")};
}

engine::ContextWish default_context(const Settings& settings) {
  return {.policy = model::trim_policy_named(settings.text("--context-policy")),
          .budget_tokens = static_cast<std::uint32_t>(settings.integer("--context-budget-tokens"))};
}

serve::SummaryRule default_summary(const Settings& settings) {
  const auto number = [&](std::string_view flag) {
    return static_cast<std::uint32_t>(settings.integer(flag));
  };
  return {.on = settings.text("--context-policy") == serve::kSummaryPolicy,
          .budget_tokens = number("--context-budget-tokens"),
          .recent_turns = number("--context-recent-turns"),
          .split_turns = number("--context-split-turns")};
}

Result<LoadedModel> LoadedModel::load(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(
      const std::string path,
      find_model(settings.text("--model"), model_folders(settings.environment(), binary_path())));
  LoadedModel loaded;
  // A process has one place for rope scaling: the longest context asked for.
  const auto wanted_context = static_cast<std::uint32_t>(settings.integer("--max-context"));
  const auto show = [&](double share) { console.progress(str_cat("loading ", path), share); };
  ASSIGN_OR_RETURN(
      loaded.model,
      model::Model::load({.path = path, .max_context = wanted_context, .on_progress = show}));
  console.end_progress();
  ASSIGN_OR_RETURN(loaded.tokenizer, text::Tokenizer::create(loaded.model->vocabulary()));
  ASSIGN_OR_RETURN(loaded.chat_template, load_template(settings, *loaded.model, console));
  const std::vector<std::string>& names = settings.list("--alias");
  loaded.name = names.empty() ? file_stem(path) : names.front();
  if (names.size() > 1) loaded.aliases.assign(names.begin() + 1, names.end());
  return loaded;
}

Result<void> Compute::make_arena(const Settings& settings, model::KvFormat format,
                                 Console& console) {
  const model::ModelShape& shape = loaded.model->shape();
  ASSIGN_OR_RETURN(
      sizing,
      size_kv({.budget_bytes = settings.size("--kv-budget"),
               .available_bytes = available_memory_bytes(),
               .bytes_per_token = model::kv_bytes_per_token(shape, format),
               .block_size = block_size,
               .wanted_context = static_cast<std::uint32_t>(settings.integer("--max-context")),
               .model_context = shape.context_length}));
  for (const std::string& note : sizing.notes) console.note(note);
  ASSIGN_OR_RETURN(auto made,
                   model::KvArena::create(shape, format, block_size, sizing.block_count));
  if (arena == nullptr) {
    arena = std::move(made);
  } else {
    arena->swap(*made);  // the executor holds on to the arena it was made with
  }
  return {};
}

Result<Compute> Compute::create_with(model::KvFormat format, LoadedModel loaded,
                                     const Settings& settings, Console& console) {
  Compute compute;
  compute.loaded = std::move(loaded);
  compute.block_size = static_cast<std::uint32_t>(settings.integer("--block-size"));
  compute.gives_attention = settings.text("--kernels") != "ggml";
  RETURN_IF_ERROR(compute.make_arena(settings, format, console));
  ASSIGN_OR_RETURN(compute.executor,
                   make_executor(compute.loaded, *compute.arena, settings, console));
  return compute;
}

Result<Compute> Compute::create(LoadedModel loaded, const Settings& settings, Console& console) {
  // Which format `auto` is takes an executor to tell, and an executor takes an arena.
  const std::optional<model::KvFormat> named =
      kernels::kv_format_named(settings.text("--kv-format"));
  const model::KvFormat first = named.value_or(model::KvFormat::kF16);
  ASSIGN_OR_RETURN(Compute compute, create_with(first, std::move(loaded), settings, console));
  const KvVerdictStore verdicts(settings.environment());
  if (!named) {
    console.progress("comparing KV formats", 0);
    ASSIGN_OR_RETURN(const model::KvFormat format, smallest_good_format(compute, verdicts));
    if (format != first) RETURN_IF_ERROR(compute.make_arena(settings, format, console));
  } else if (*named != model::KvFormat::kF16 && settings.text("--kv-check") == "on") {
    console.progress("checking the KV format", 0);
    RETURN_IF_ERROR(require_good_format(compute, *named, verdicts));
  }
  console.end_progress();
  return compute;
}

Hash128 Compute::cache_root() const {
  return cache_root(arena->format());
}

Hash128 Compute::cache_root(model::KvFormat format) const {
  const model::Model& model = *loaded.model;
  return hash_text(str_cat(kBlockFormat, "|", to_hex(model.fingerprint()), "|",
                           rope_text(model.shape().rope), "|", kernels::kv_format_name(format), "|",
                           executor->numerics()));
}

capacity::LedgerInput Compute::ledger_input() const {
  capacity::LedgerInput input = capacity::ledger_input(loaded.model->shape(), arena->format());
  input.activation_bytes = executor->scratch_bytes();
  input.memory_bytes = arena->bytes() + input.weight_bytes + input.activation_bytes;
  input.context_tokens = sizing.max_context;
  input.block_size = block_size;
  return input;
}

engine::TrimParts Compute::trim_parts(kv::Ledger& ledger) const {
  const model::ModelShape& shape = loaded.model->shape();
  const bool has_local_layers = shape.sliding_window > 0;
  return {.ledger = &ledger,
          .executor = executor.get(),
          .arena = arena.get(),
          .model = loaded.model.get(),
          .can_look = gives_attention,
          .layer_count = shape.layer_count,
          .kv_head_count = shape.kv_head_count,
          .vocabulary_size = shape.vocabulary_size,
          .window = has_local_layers ? shape.sliding_window : 0,
          .repeat_request = loaded.tokenizer->encode(engine::kRepeatRequest, {.add_bos = false})};
}

std::string_view Compute::exactness() const {
#if defined(__x86_64__)
  return "bitwise";
#else
  return "token";  // nothing has proved it there: `refrain eval exact` does
#endif
}

Result<void> EngineHost::prepare_reuse(const Settings& settings) {
  if (settings.text("--kernels") == "ggml") return {};
  const model::Model& model = *compute.loaded.model;
  ASSIGN_OR_RETURN(splice, model::Splice::create(model, *compute.arena));
  probes.emplace(model.shape(), *compute.arena);
  ASSIGN_OR_RETURN(const std::optional<Calibration> found, find_calibration(settings, compute));
  if (!found) return {};
  calibration = std::make_shared<const Calibration>(*found);
  gate.emplace(calibration->gate());
  return {};
}

Result<void> EngineHost::prepare_trim(const Settings& settings) {
  trim = compute.trim_parts(*ledger);
  const engine::ContextWish wish = default_context(settings);
  if (wish.policy == nullptr) return {};
  if (wish.policy->look != model::TrimLook::kNone && !trim.can_look)
    return Error{Code::kInvalidArgument,
                 str_cat("`", wish.policy->name, "` needs attention, which ggml's kernels hide"),
                 "use --context-policy window, or leave out --kernels ggml", "--context-policy"};
  const std::uint32_t least = model::least_trim_budget(trim.bounds());
  if (wish.budget_tokens < least)
    return Error{Code::kInvalidArgument,
                 str_cat("a context budget of ", wish.budget_tokens, " tokens; this model and ",
                         "block size need at least ", least),
                 "raise --context-budget-tokens", "--context-budget-tokens"};
  return {};
}

Result<std::unique_ptr<EngineHost>> EngineHost::start(const Settings& settings, Console& console) {
  auto host = std::make_unique<EngineHost>();
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::load(settings, console));
  ASSIGN_OR_RETURN(host->compute, Compute::create(std::move(loaded), settings, console));
  const Compute& compute = host->compute;
  const model::ModelShape& shape = compute.loaded.model->shape();
  ASSIGN_OR_RETURN(
      host->ledger,
      kv::Ledger::create(
          {.block_size = compute.block_size,
           .block_count = compute.sizing.block_count,
           .max_cached_blocks = static_cast<std::uint32_t>(settings.integer("--max-blocks")),
           .policy = kv::eviction_policy_named(settings.text("--cache-policy")).value(),
           .reuse_step_tokens = kernels::reuse_step_tokens(compute.arena->layout()),
           .min_match_blocks = static_cast<std::uint32_t>(settings.integer("--min-match-blocks")),
           .prefix_cache = settings.boolean("--prefix-cache")}));
  host->grammars = std::make_unique<engine::GrammarCompiler>(*compute.loaded.tokenizer);
  host->metrics.set(metrics::Metric::kKvBudgetBytes,
                    static_cast<double>(compute.sizing.budget_bytes));
  host->metrics.set(metrics::Metric::kWeightBytes, static_cast<double>(shape.weight_bytes));
  const auto number = [&](std::string_view flag) {
    return static_cast<std::uint32_t>(settings.integer(flag));
  };
  RETURN_IF_ERROR(host->prepare_reuse(settings));
  RETURN_IF_ERROR(host->prepare_trim(settings));
  // Only a server has somebody who looks at it.
  if (settings.command() == "serve")
    host->read_bytes_per_s = compute.executor->measure_read_bytes_per_s();
  host->engine = std::make_unique<engine::Engine>(
      engine::EngineParts{
          .tokenizer = compute.loaded.tokenizer.get(),
          .executor = compute.executor.get(),
          .ledger = host->ledger.get(),
          .metrics = &host->metrics,
          .clock = &host->clock,
          .reuse = {.splice = host->splice.get(),
                    .probes = host->probes ? &*host->probes : nullptr,
                    .gate = host->gate ? &*host->gate : nullptr,
                    .first_mass_layer = model::first_looking_layer(shape.layer_count)},
          .trim = host->trim,
          .vocabulary_size = shape.vocabulary_size,
          .embedding_dim = shape.embedding_dim,
          .cache_root = compute.cache_root(),
          .read_cost = capacity::read_cost(compute.ledger_input()),
          .attention_unit_tokens = capacity::attention_unit_tokens(compute.ledger_input())},
      engine::EngineOptions{
          .step_token_budget = number("--step-tokens"),
          .max_running = number("--max-running"),
          .max_waiting = number("--max-queue"),
          .max_waiting_per_tenant = number("--tenant-queue"),
          .max_context = compute.sizing.max_context,
          .isolation = isolation_options(settings),
          .idle_recompute = settings.boolean("--idle-recompute"),
          .default_seed = static_cast<std::uint64_t>(settings.integer("--seed"))});
  host->engine->start();
  return host;
}

}  // namespace refrain::cli
