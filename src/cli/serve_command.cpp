// `refrain serve`: composition of the server, start-up lines, shutdown. Main thread waits for
// signals.
#include <csignal>

#include "base/channel.h"
#include "base/log.h"
#include "base/str.h"
#include "capacity/ledgers.h"
#include "cli/api_keys.h"
#include "cli/calibration.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/runtime.h"
#include "cli/signals.h"
#include "serve/server.h"

namespace refrain::cli {
namespace {

Result<serve::ServerOptions> server_options(const Settings& settings) {
  const auto number = [&](std::string_view flag) {
    return static_cast<std::uint32_t>(settings.integer(flag));
  };
  serve::ServerOptions options;
  options.host = settings.text("--host");
  options.port = static_cast<std::uint16_t>(settings.integer("--port"));
  options.network_threads = number("--network-threads");
  ASSIGN_OR_RETURN(options.api_keys, collect_api_keys(settings));
  options.admin_key = trim(settings.text("--admin-key"));
  options.allowed_origins = settings.list("--cors-allow-origin");
  options.allowed_hosts = settings.list("--allow-host");
  options.max_body_bytes = settings.size("--max-body");
  options.max_header_bytes = settings.size("--max-header");
  options.max_connections = number("--max-connections");
  options.max_json_depth = number("--max-json-depth");
  options.header_timeout_s = number("--header-timeout");
  options.body_timeout_s = number("--body-timeout");
  options.idle_timeout_s = number("--idle-timeout");
  options.write_timeout_s = number("--write-timeout");
  options.keep_alive_comment_s = number("--stream-comment");
  options.drain_grace_s = number("--drain-grace");
  options.request_timeout_s = number("--request-timeout");
  options.max_tokens = number("--max-tokens");
  options.max_choices = number("--max-choices");
  options.any_model_name = settings.boolean("--any-model-name");
  options.normalize_input = settings.boolean("--normalize-input");
  options.default_sampling = default_sampling(settings);
  options.default_reuse = default_reuse(settings);
  options.default_context = default_context(settings);
  options.default_summary = default_summary(settings);
  return options;
}

capacity::LedgerInput ledger_input(const EngineHost& host) {
  capacity::LedgerInput input = host.compute.ledger_input();
  input.read_bandwidth_bytes_per_s = host.read_bytes_per_s;
  return input;
}

// The ledgers for dashboards; blocks in use are counted by the engine.
void publish_ledgers(EngineHost& host) {
  using metrics::Metric;
  const capacity::LedgerInput input = ledger_input(host);
  const capacity::FourLedgers ledgers = capacity::compute_ledgers(input);
  host.metrics.set(Metric::kKvBytesPerToken, static_cast<double>(ledgers.kv_bytes_per_token));
  host.metrics.set(Metric::kPrefillFlopPerToken, ledgers.prefill_flop / input.context_tokens);
  host.metrics.set(Metric::kFullContextSequences, static_cast<double>(ledgers.sequences));
  host.metrics.set(Metric::kReadBandwidth, host.read_bytes_per_s);
}

// How heads share keys and values, and whether these can be reused (a model whose cannot is refused
// when it is loaded).
std::string attention_line(const model::ModelShape& shape) {
  const std::string_view kind = shape.kv_head_count == shape.head_count ? "multi-head"
                                : shape.kv_head_count == 1              ? "multi-query"
                                                                        : "grouped-query";
  std::string window;
  if (shape.sliding_window > 0)
    window = str_cat(", window of ", shape.sliding_window, " tokens (kept beyond it)");
  return str_cat("attention  ", kind, ", ", shape.head_count, " query heads on ",
                 shape.kv_head_count, " key and value heads", window, ": context can be reused");
}

std::string on_off(bool on) {
  return on ? "on" : "off";
}

std::string reuse_line(const Settings& settings) {
  const std::string& mode = settings.text("--reuse");
  std::string line = str_cat("reuse      ", mode);
  if (mode == "exact") {
    line += ": beginnings only, the same bits as computed";
  } else if (mode == "repair") {
    line += str_cat(": approximate, expected divergence at most ",
                    settings.real("--max-divergence"), " nats");
  } else {
    line += ": approximate, neither repaired nor judged";
  }
  return line + ", unless a request says otherwise";
}

// Whether there is anything to judge text at other places by.
std::string gate_line(const EngineHost& host) {
  if (host.splice == nullptr)
    return "gate       none: with --kernels ggml only beginnings can be reused";
  if (host.calibration == nullptr)
    return "gate       not calibrated: mode repair computes everything; run `refrain calibrate`";
  const HeldBack& held = host.calibration->held_back;
  return str_cat("gate       calibrated: mean KL of ", held.cases, " held-back cases ",
                 held.kl_mean, " nats where ", held.estimate_mean, " were expected");
}

std::string context_line(const Settings& settings) {
  const engine::ContextWish context = default_context(settings);
  const serve::SummaryRule summary = default_summary(settings);
  if (summary.on)
    return str_cat("context    summary: chats of more than ", summary.budget_tokens, " tokens",
                   summary.split_turns == 0 ? "" : str_cat(", or ", summary.split_turns, " turns,"),
                   " go on with what was concluded and ", summary.recent_turns, " recent turns");
  if (context.policy == nullptr) return "context    whole, unless a request asks for less";
  return str_cat("context    ", context.policy->name, ": at most ", context.budget_tokens,
                 " tokens behind the first of an answer, unless a request says otherwise");
}

void say_model(const EngineHost& host, const Settings& settings, Console& console) {
  const Compute& compute = host.compute;
  const model::Model& model = *compute.loaded.model;
  const model::ModelShape& shape = model.shape();
  console.say(str_cat("model      ", compute.loaded.name, ": ", shape.architecture_name, ", ",
                      shape.layer_count, " layers, ", shape.parameter_count / 1'000'000,
                      " M parameters, ", model.quantization(), ", ",
                      format_bytes(shape.weight_bytes), ", context ", compute.sizing.max_context));
  console.say(attention_line(shape));
  const capacity::LedgerInput input = ledger_input(host);
  std::string ledgers = capacity::describe(input, capacity::compute_ledgers(input));
  while (ledgers.ends_with('\n')) ledgers.pop_back();
  console.say(ledgers);
  console.say(str_cat(
      "budget     ", format_bytes(compute.sizing.budget_bytes), " of context memory",
      compute.sizing.automatic ? " (auto: a quarter of what is free; --kv-budget sets it)" : "",
      ", ", compute.sizing.block_count, " blocks of ", compute.block_size, " tokens"));
  console.say(str_cat("cache      exact prefix reuse ", on_off(settings.boolean("--prefix-cache")),
                      ", policy ", settings.text("--cache-policy"), ", KV format ",
                      kernels::kv_format_name(compute.arena->format()),
                      compute.kv_note.empty() ? "" : " ", compute.kv_note, ", exactness: ",
                      compute.exactness(), " (", compute.executor->numerics(), ")"));
  console.say(reuse_line(settings));
  console.say(gate_line(host));
  console.say(context_line(settings));
  console.say(
      str_cat("chat       ",
              compute.loaded.chat_template.has_value()
                  ? (settings.text("--chat-template").empty() ? "template of the model"
                                                              : "template of --chat-template")
                  : "off: the model has no chat template; /v1/completions works"));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void say_address(const serve::ServerOptions& options, std::uint16_t port, Console& console) {
  const std::string host =
      options.host.find(':') == std::string::npos ? options.host : str_cat("[", options.host, "]");
  console.say(str_cat("access     API keys ",
                      options.api_keys.empty() ? "off" : str_cat(options.api_keys.size(), " set"),
                      ", cross-origin requests ",
                      options.allowed_origins.empty() ? "refused" : "allowed where configured",
                      ", /metrics on, prompts are not logged"));
  if (!is_loopback(options.host) && options.api_keys.empty()) {
    console.warn(str_cat("anyone who reaches ", options.host, " can use this server"),
                 "set --api-key");
  }
  console.say(str_cat("listening on http://", host, ":", port));
}

}  // namespace

Exit run_serve(const Settings& settings, Console& console) {
  // Before any other thread, so that all of them leave these signals to the watcher.
  SignalWatcher signals(/*ignore_hangup=*/true);
  // Nothing is running yet and nothing is written: leaving at once is clean.
  signals.set_handler([&](int, int) {
    console.say("stopped while loading");
    leave_now(static_cast<int>(Exit::kOk));
  });
  const Result<serve::ServerOptions> options = server_options(settings);
  if (!options.ok()) return fail(options.error(), console);
  auto host = EngineHost::start(settings, console);
  if (!host.ok()) return fail(host.error(), console);
  const Compute& compute = (*host)->compute;
  if (default_summary(settings).on && !compute.loaded.chat_template.has_value())
    return fail(Error{Code::kUnsupported,
                      "this model has no chat template, and only chats can be summarised",
                      "leave out --context-policy summary, or give one with --chat-template FILE",
                      "--context-policy"},
                console);
  serve::Server server(
      {.engine = (*host)->engine.get(),
       .grammars = (*host)->grammars.get(),
       .tokenizer = compute.loaded.tokenizer.get(),
       .chat_template =
           compute.loaded.chat_template.has_value() ? &*compute.loaded.chat_template : nullptr,
       .metrics = &(*host)->metrics,
       .clock = &(*host)->clock,
       .model_name = compute.loaded.name,
       .exactness = std::string(compute.exactness()),
       .calibrated = (*host)->calibration != nullptr,
       .max_context = compute.sizing.max_context,
       .longer_by = compute.sizing.longer_by,
       .embedding_dim = compute.loaded.model->shape().embedding_dim,
       .model_aliases = compute.loaded.aliases,
       .ledger = ledger_input(**host),
       .kv_format = kernels::kv_format_name(compute.arena->format())},
      *options);
  publish_ledgers(**host);
  say_model(**host, settings, console);
  Channel<int> stop_signals(4);
  signals.set_handler([&](int signal, int count) {
    // The second one means now, also when the first came while loading had just ended.
    if (count > 1) leave_now(static_cast<int>(Exit::kFailed));
    (void)stop_signals.try_push(std::move(signal));
  });
  if (const auto started = server.start(); !started.ok()) return fail(started.error(), console);
  say_address(*options, server.port(), console);
  const std::optional<int> signal = stop_signals.pop();
  console.say(str_cat("got ", signal == SIGINT ? "SIGINT" : "SIGTERM",
                      ": finishing what is running (at most ", options->drain_grace_s,
                      " s; a second signal ends at once)"));
  server.drain();
  server.stop();
  (*host)->engine->stop();
  signals.set_handler({});
  console.say("stopped");
  return Exit::kOk;
}

}  // namespace refrain::cli
