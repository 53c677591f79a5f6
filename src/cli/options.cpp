// The rows of the option table, in the order in which help and docs show them. Main thread.
#include "cli/options.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/str.h"

namespace refrain::cli {
namespace {

using enum OptionKind;

// Commands that load a model; those that also run an engine; those that also take messages.
constexpr std::string_view kModelUsers =
    "serve,chat,run,tokenize,bench prefill,bench decode,eval perplexity,eval exact,"
    "eval reuse,eval kv,eval trim,calibrate,plan";
constexpr std::string_view kComputeUsers =
    "serve,chat,run,bench prefill,bench decode,eval perplexity,eval reuse,eval trim,calibrate";
constexpr std::string_view kArenaUsers =  // and those that only size the arena
    "serve,chat,run,bench prefill,bench decode,eval perplexity,eval reuse,eval kv,eval trim,"
    "calibrate,plan";
constexpr std::string_view kFormatUsers =
    "serve,chat,run,bench prefill,bench decode,eval perplexity,eval reuse,eval trim,calibrate,plan";
constexpr std::string_view kKernelUsers =
    "serve,chat,run,bench prefill,bench decode,bench kernels,eval perplexity,"
    "eval exact,eval reuse,eval kv,eval trim,calibrate,plan";
constexpr std::string_view kEngineUsers = "serve,chat,run";
constexpr std::string_view kAnswerers = "chat,run";
constexpr std::string_view kSeedUsers = "serve,chat,run,eval exact,eval reuse,eval trim,calibrate";
constexpr std::string_view kReuseMeasurers = "eval reuse,eval trim,calibrate";

constexpr auto kOptions = std::to_array<OptionInfo>({
    {"--config", "", kText, "", "", "", "INI file with settings; flags and environment win over it",
     "*"},
    {"--log-level", "log.level", kChoice, "info", "", "debug|info|warn|error|off",
     "least important log lines to write to stderr", "*"},
    {"--json", "", kBool, "false", "", "", "write the result as JSON",
     "run,tokenize,config show,bench prefill,bench decode,bench kernels,bench serve,"
     "bench isolation,bench cache,eval perplexity,eval exact,eval reuse,eval kv,eval "
     "trim,plan,version"},

    {"--model", "model.path", kText, "", "", "",
     "GGUF file, or the name of one in the model folders; left out: the default model", kModelUsers,
     "-m"},
    {"--alias", "model.alias", kList, "", "", "",
     "name of the model in the API; may be repeated: answers carry the first, requests may use "
     "all; "
     "left out: its file name (bench serve: first of /v1/models)",
     "serve,bench serve,bench isolation", "-a --served-model-name"},
    {"--any-model-name", "model.any_name", kBool, "false", "", "",
     "answer requests that name another model, too", "serve"},
    {"--chat-template", "model.chat_template", kText, "", "", "",
     "file with a Jinja template used instead of the model's own",
     "serve,chat,run,eval reuse,eval trim,calibrate", "--chat-template-file"},

    {"--host", "server.host", kText, "127.0.0.1", "", "", "address to listen on", "serve"},
    {"--port", "server.port", kInteger, "8080", "", "", "port to listen on; 0 = any free one",
     "serve", "-p", 0, 65535},
    {"--api-key", "server.api_key", kList, "", "", "",
     "key that clients must send, as KEY or TENANT=KEY; may be repeated (bench serve: the key to "
     "send)",
     "serve,bench serve,bench isolation", "", 0, 0, true},
    {"--api-key-file", "server.api_key_file", kText, "", "", "",
     "file with one KEY or TENANT=KEY a line", "serve"},
    {"--admin-key", "server.admin_key", kText, "", "", "", "key for administrative calls", "serve",
     "", 0, 0, true},
    {"--cors-allow-origin", "server.cors_allow_origin", kList, "", "", "",
     "web origin that may call the server, * = any; may be repeated", "serve"},
    {"--allow-host", "server.allow_host", kList, "", "", "",
     "further name accepted in the Host header; may be repeated", "serve"},
    {"--max-tokens", "server.max_tokens", kInteger, "2048", "tokens", "",
     "default and ceiling of generated tokens per request", kEngineUsers, "-n", 1, 1e6},
    {"--max-choices", "server.max_choices", kInteger, "16", "", "", "ceiling of a request's n",
     "serve", "", 1, 128},
    {"--request-timeout", "server.request_timeout", kInteger, "0", "s", "",
     "longest time of one request; 0 = no limit", "serve", "", 0, 1e6},
    {"--drain-grace", "server.drain_grace", kInteger, "30", "s", "",
     "time running requests get to finish at shutdown", "serve", "", 0, 86400},
    {"--max-body", "server.max_body", kSize, "32MiB", "bytes", "", "largest request body", "serve",
     "", 1024, 1U << 30U},
    {"--max-header", "server.max_header", kSize, "16KiB", "bytes", "", "largest request header",
     "serve", "", 1024, 1U << 20U},
    {"--max-json-depth", "server.max_json_depth", kInteger, "64", "", "",
     "deepest nesting of a JSON body", "serve", "", 8, 512},
    {"--max-connections", "server.max_connections", kInteger, "2048", "", "",
     "open connections at a time", "serve", "", 1, 65536},
    {"--network-threads", "server.network_threads", kInteger, "2", "", "",
     "threads for HTTP, JSON and tokenizing", "serve", "--threads-http", 1, 256},
    {"--header-timeout", "server.header_timeout", kInteger, "15", "s", "",
     "time a client has to send its header", "serve", "", 1, 86400},
    {"--body-timeout", "server.body_timeout", kInteger, "60", "s", "",
     "time a client has to send its body", "serve", "", 1, 86400},
    {"--idle-timeout", "server.idle_timeout", kInteger, "75", "s", "",
     "time an idle connection is kept open", "serve", "", 1, 86400},
    {"--write-timeout", "server.write_timeout", kInteger, "60", "s", "",
     "time a client may leave an answer unread", "serve", "", 1, 86400},
    {"--stream-comment", "server.stream_comment", kInteger, "10", "s", "",
     "pause after which a stream gets a comment that keeps it open", "serve", "", 1, 3600},

    {"--threads", "engine.threads", kInteger, "0", "", "", "compute threads; 0 = physical cores",
     kKernelUsers, "-t", 0, 1024},
    {"--kernels", "engine.kernels", kChoice, "auto", "", "auto|avx512|avx2|portable|ggml",
     "compute kernels; auto = the best this processor has; ggml = the slow reference",
     kKernelUsers},
    {"--max-context", "engine.max_context", kInteger, "0", "tokens", "",
     "longest prompt + answer of one request; 0 = as the model and the budget allow", kComputeUsers,
     "--ctx-size -c", 0, 1e8},
    {"--step-tokens", "engine.step_tokens", kInteger, "256", "tokens", "",
     "rows computed per step; long prompts are cut to fit, so running answers go on between",
     kComputeUsers, "--batch-size -b", 1, 8192},
    {"--max-running", "engine.max_running", kInteger, "64", "", "", "answers generated together",
     "serve", "--parallel", 1, 4096},
    {"--max-queue", "engine.max_queue", kInteger, "256", "", "",
     "requests that may wait; beyond it clients get 429", "serve", "", 1, 65536},
    {"--tenant-queue", "engine.tenant_queue", kInteger, "0", "", "",
     "of those, requests of one tenant; 0 = no own limit", "serve", "", 0, 65536},
    {"--long-tokens", "engine.long_tokens", kInteger, "2048", "tokens", "",
     "requests of more expected context (prompt and usual answer) are long: they share what "
     "--long-step-percent and --long-pool-percent leave them; 0 = none is long",
     "serve", "", 0, 1e8},
    {"--long-step-percent", "engine.long_step_percent", kInteger, "50", "%", "",
     "most of a step that prompts of long requests take while short ones are about; 100 = no limit",
     "serve", "", 1, 100},
    {"--long-pool-percent", "engine.long_pool_percent", kInteger, "75", "%", "",
     "most of the context memory and of --max-running that long requests take together; one is "
     "always admitted",
     "serve", "", 1, 100},
    {"--alarm-factor", "engine.alarm_factor", kReal, "4", "", "",
     "a long request that holds so many times the context of those that ended before, or slows "
     "others down as much, is out of line: a warning and a metric; 0 = no alarms",
     "serve", "", 0, 1e6},
    {"--throttle", "engine.throttle", kBool, "true", "", "",
     "requests out of line count as long and generate in every second step while others do",
     "serve"},
    {"--seed", "engine.seed", kInteger, "0", "", "",
     "seed of requests that bring none (eval exact: of the trials; eval reuse and eval trim: of "
     "the generated cases)",
     kSeedUsers, "-s", 0, 9e15},

    {"--kv-budget", "cache.kv_budget", kSize, "auto", "bytes", "",
     "hard limit of context memory; auto = a quarter of the available memory, at most 4GiB",
     kArenaUsers, "", 0, 9e15},
    {"--kv-format", "cache.kv_format", kChoice, "f16", "", "auto|f16|q8|q8/q4|q4",
     "how keys and values are stored: in 16, 8 or 4 bits, keys/values where they differ; "
     "auto = the smallest that passes --kv-check",
     kFormatUsers},
    {"--kv-check", "cache.kv_check", kChoice, "on", "", "on|off",
     "at load, compare answers over --kv-format with those over f16 and refuse it where they "
     "differ by more than 0.005 nats on average or at more than 3 % of the tokens",
     kComputeUsers},
    {"--prefix-cache", "cache.enabled", kBool, "true", "", "",
     "reuse context of earlier requests; off is the reference", kEngineUsers},
    {"--block-size", "cache.block_size", kInteger, "16", "tokens", "",
     "tokens per block, a multiple of 16", kArenaUsers, "", 16, 1024},
    {"--max-blocks", "cache.max_blocks", kInteger, "0", "blocks", "",
     "most blocks that cached context may hold inside the budget; 0 = no own limit", kEngineUsers,
     "", 0, 4e9},
    {"--cache-policy", "cache.policy", kChoice, "lru", "", "lru|lfu|gdsf",
     "which cached blocks give way first: the longest unused, the least used, or the least used "
     "with "
     "fame that fades",
     kEngineUsers},
    {"--reuse", "cache.reuse.mode", kChoice, "exact", "", "exact|repair|splice",
     "how a request that does not say may reuse text that stood at another place: exact = not at "
     "all; repair = where the expected error allows it; splice = always, unrepaired, to measure",
     kEngineUsers},
    {"--max-divergence", "cache.reuse.max_divergence", kReal, "0.05", "nats", "",
     "what --reuse repair keeps to: where a larger mean KL divergence from the answer of a cold "
     "run is expected, the text is computed",
     "serve,chat,run,eval reuse", "", 0, 10},
    {"--max-changed-first-tokens", "cache.reuse.max_changed_first_tokens", kReal, "0.1", "", "",
     "the same for greedy answers: how likely each of their first 24 tokens may be another one "
     "than "
     "that of a cold run before the context is computed exactly; 1 = no limit",
     "serve,chat,run,eval reuse", "", 0, 1},
    {"--idle-recompute", "cache.reuse.idle_recompute", kBool, "true", "", "",
     "compute approximate answers exactly when nobody waits, for their next turns, and compare "
     "both",
     kEngineUsers},
    {"--segment-reuse", "cache.suffix.enabled", kBool, "false", "", "",
     "another way to write --reuse repair (false: exact); between the two flag beats environment "
     "beats file, and in one place they must agree",
     kEngineUsers, "", 0, 0, false, "--reuse repair exact"},
    {"--context-policy", "cache.context.policy", kChoice, "none", "",
     "none|window|heavy_hitters|kvzip|expected_attention|prefix_importance|summary",
     "what answers of requests that do not say keep of their context: none = all of it; window = "
     "the beginning and what is recent; heavy_hitters = and what the end attends to; kvzip = and "
     "what the model needs to repeat it; expected_attention = and what recent queries let expect "
     "of later ones; prefix_importance = and the blocks attended to most; summary = chats go on "
     "with a summary of their older turns",
     kEngineUsers},
    {"--context-budget-tokens", "cache.context.budget_tokens", kInteger, "1024", "tokens", "",
     "how much --context-policy keeps, from behind the first token of an answer; with summary: the "
     "longest prompt before older turns are summarised",
     kEngineUsers, "", 1, 1e8},
    {"--context-recent-turns", "cache.context.recent_turns", kInteger, "2", "turns", "",
     "with --context-policy summary: so many turns stay as they are, beside the running one",
     kEngineUsers, "", 0, 4096},
    {"--context-split-turns", "cache.context.split_turns", kInteger, "0", "turns", "",
     "with --context-policy summary: after so many turns a new session is begun with what was "
     "concluded; 0 = by length alone",
     kEngineUsers, "", 0, 4096},
    {"--normalize-input", "cache.normalize_input", kBool, "false", "", "",
     "rewrite users' chat messages to a canonical form before tokenizing: line breaks, repeated "
     "blanks, full and half width; code and quoted text stay",
     kEngineUsers},
    {"--min-match-blocks", "cache.min_match_blocks", kInteger, "0", "blocks", "",
     "shortest beginning worth reusing; 0 = every one, also of less than a block", kEngineUsers, "",
     0, 65536},

    // What a request leaves out. Unlike OpenAI's, and like those of other local servers, these cut
    // the tail of the distribution: small models need it.
    {"--temperature", "sampling.temperature", kReal, "0.8", "", "",
     "randomness of sampling; 0 = always the likeliest token", kEngineUsers, "--temp", 0, 100},
    {"--top-k", "sampling.top_k", kInteger, "40", "", "",
     "sample from the k likeliest tokens; 0 = all", kEngineUsers, "", 0, 1e6},
    {"--top-p", "sampling.top_p", kReal, "0.95", "", "",
     "sample from the likeliest tokens of this total probability", kEngineUsers, "", 1e-6, 1},
    {"--min-p", "sampling.min_p", kReal, "0.05", "", "",
     "leave out tokens less likely than this share of the likeliest", kEngineUsers, "", 0,
     0.999999},
    {"--repeat-penalty", "sampling.repeat_penalty", kReal, "1", "", "",
     "above 1: makes repetition less likely", kEngineUsers, "--repetition-penalty", 1e-3, 100},

    {"--system", "", kText, "", "", "", "system message of the conversation", kAnswerers},
    {"--stop", "", kList, "", "", "", "text that ends the answer; may be repeated", kAnswerers},
    {"--ignore-eos", "", kBool, "false", "", "", "go on after an end token", kAnswerers},
    {"--raw", "", kBool, "false", "", "", "continue the text itself, without a chat template",
     "run"},
    {"--stats", "", kBool, "false", "", "", "write tokens and timings to stderr after each answer",
     kAnswerers},

    {"--parse-special", "", kBool, "false", "", "",
     "control tokens written out in the text become those tokens", "tokenize"},
    {"--bos", "", kBool, "true", "", "", "begin with the BOS token if the model wants one",
     "tokenize"},

    {"--prompt-tokens", "", kText, "512,4096", "tokens", "", "prompt lengths to measure",
     "bench prefill"},
    {"--reused-percent", "", kInteger, "0", "", "",
     "this share of each prompt is in the cache already; the time is that of the rest",
     "bench prefill", "", 0, 99},
    {"--depth", "", kText, "0,4096", "tokens", "",
     "context lengths to measure at (eval kv: one, 4096 if left out)", "bench decode,eval kv"},
    {"--formats", "", kText, "f16,q8,q8/q4,q4", "", "", "KV formats to compare with f16",
     "eval kv"},
    {"--prompts", "", kText, "", "", "",
     "file of prompts to compare answers to: one a line, or JSON lines with \"prompt\" or "
     "\"messages\"",
     "eval kv"},
    {"--decode-tokens", "", kInteger, "32", "tokens", "", "tokens decoded per measurement",
     "bench decode,eval kv", "", 1, 1e5},
    {"--repetitions", "", kInteger, "1", "", "",
     "measurements per length; the median is reported (bench kernels: 5 if left out)",
     "bench prefill,bench decode,bench kernels", "--repeat", 1, 1000},
    {"--parts", "", kText, "products,attention,rows", "", "", "which kernels to measure",
     "bench kernels"},
    {"--types", "", kText, "all", "", "", "weight types to measure, as ggml writes them",
     "bench kernels"},
    {"--shapes", "", kText,
     "576x576,576x1536,1536x576,640x2048,2048x640,2048x2048,2048x8192,8192x2048,4096x4096,"
     "4096x14336,14336x4096",
     "", "", "matrices to measure, columns x outputs", "bench kernels"},
    {"--rows", "", kText, "1,512", "", "",
     "rows multiplied together; 1 = as in decoding, more = as in prefilling", "bench kernels"},
    {"--attention-depth", "", kInteger, "4096", "tokens", "",
     "context that attention is measured at", "bench kernels", "", 1, 1e6},
    {"--url", "", kText, "http://127.0.0.1:8080", "", "", "server to measure (plain OpenAI API)",
     "bench serve,bench isolation"},
    {"--workload", "", kChoice, "chat", "", "chat|rag|agent|batch|noisy", "shape of the traffic",
     "bench serve"},
    {"--concurrency", "", kInteger, "4", "", "", "clients at a time", "bench serve", "", 1, 1024},
    {"--requests", "", kInteger, "32", "", "",
     "requests in all (bench isolation: short ones, alone and again beside long ones)",
     "bench serve,bench isolation", "", 1, 1e6},
    {"--output-tokens", "", kInteger, "32", "tokens", "",
     "max_tokens of each request (bench isolation: of each short one)",
     "bench serve,bench isolation", "", 1, 1e5},
    {"--workload-seed", "", kInteger, "1", "", "",
     "seed of the generated texts (bench isolation: another one for each run if left out)",
     "bench serve,bench isolation", "", 0, 9e15},
    {"--short-prompt", "", kInteger, "200", "tokens", "", "length of the short prompts",
     "bench isolation", "", 1, 1e6},
    {"--long-prompt", "", kInteger, "7500", "tokens", "", "length of the long prompts",
     "bench isolation", "", 1, 1e8},
    {"--rate", "", kReal, "2", "", "", "short requests a second", "bench isolation", "", 1e-3, 1e3},
    {"--trace", "", kText, "", "", "",
     "file of requests to replay: one JSON object a line with \"timestamp\" (ms) and \"hash_ids\" "
     "of "
     "the blocks of its prompt",
     "bench cache"},
    {"--pools", "", kText, "1000,2500,5000,10000,25000,50000", "blocks", "",
     "pool sizes to replay with, in blocks of the trace", "bench cache"},
    {"--policies", "", kText, "lru,lfu,gdsf", "", "", "eviction policies to replay with",
     "bench cache"},
    {"--file", "", kText, "", "", "", "text file to score", "eval perplexity", "-f"},
    {"--window", "", kInteger, "512", "tokens", "", "tokens per window", "eval perplexity,eval kv",
     "", 2, 1e6},
    {"--stride", "", kInteger, "0", "tokens", "",
     "distance of window beginnings; 0 = the window length (no overlap)", "eval perplexity", "", 0,
     1e6},
    {"--limit", "", kInteger, "0", "tokens", "", "tokens of the file to use; 0 = all",
     "eval perplexity", "", 0, 1e9},
    {"--trials", "", kInteger, "20", "", "", "random histories to compare", "eval exact", "", 1,
     1e6},
    {"--first-trial", "", kInteger, "1", "", "", "number of the first one; to repeat one of a run",
     "eval exact", "", 1, 9e15},
    {"--trial-tokens", "", kInteger, "640", "tokens", "",
     "computed for the reference of the longest trials; most take an eighth", "eval exact", "", 2,
     1e6},
    {"--data", "", kText, "", "", "",
     "cases, one JSON object a line (docs/reference/reuse-error.md); left out: generated ones "
     "(eval "
     "kv: a text to compare over)",
     "eval reuse,eval kv,calibrate"},
    {"--calibration", "cache.reuse.calibration", kText, "", "", "",
     "file of `refrain calibrate`; left out: the one of this model and KV format in the data "
     "folder",
     "serve,chat,run,eval reuse,calibrate"},
    {"--cases", "", kInteger, "12", "", "",
     "generated cases; eval reuse and calibrate: recombined and as many edited ones",
     kReuseMeasurers, "", 0, 1e4},
    {"--changed", "", kInteger, "8", "", "",
     "generated cases in which a fact changes that is then asked for", "eval reuse", "", 0, 1e4},
    {"--copied", "", kInteger, "4", "", "",
     "generated cases in which a passage is to be repeated word for word", "eval reuse", "", 0,
     1e4},
    {"--next-turns", "", kInteger, "4", "", "",
     "generated cases in which what was repaired is then asked something else", "eval reuse", "", 0,
     1e4},
    {"--print-cases", "", kBool, "false", "", "",
     "write the cases as lines that --data reads, and measure nothing", "eval reuse"},
    {"--mode", "", kChoice, "repair", "", "splice|repair|gate",
     "splice: rows moved only; repair: every rung of the ladder, and the gate if there is one; "
     "gate: what it chooses, alone",
     "eval reuse"},
    {"--answer-rows", "", kInteger, "24", "rows", "",
     "rows of each answer to compare, the last of the prompt included",
     "eval reuse,eval kv,calibrate", "", 1, 1024},

    {"--trim-policies", "", kText,
     "window,heavy_hitters,kvzip,expected_attention,prefix_importance", "", "",
     "ways of cutting a context down to compare", "eval trim"},
    {"--ratios", "", kText, "2,4,8", "", "", "how many times smaller contexts become", "eval trim"},
    {"--pairs", "", kInteger, "32", "", "", "names with their numbers in each context", "eval trim",
     "", 1, 1000},
    {"--filler", "", kInteger, "2", "", "", "sentences about other things behind each of them",
     "eval trim", "", 0, 100},
    {"--questions", "", kInteger, "10", "", "", "numbers asked for in each context", "eval trim",
     "", 1, 1e4},

    {"--context", "", kInteger, "", "tokens", "",
     "prompt and answer of one request, or (eval kv) the long context to compare at the end of; "
     "left "
     "out: the longest of the model, or the longest served",
     "plan,eval kv", "", 1, 1e9},
    {"--memory", "", kSize, "", "bytes", "",
     "memory that weights, reserve and context share; left out: --kv-budget counts", "plan", "", 1},
    {"--reserve", "", kSize, "0", "bytes", "",
     "memory for activations and whatever else runs there", "plan"},
    {"--round-tokens", "", kInteger, "0", "tokens", "",
     "question and answer of one round of a dialogue; 0 = no dialogue", "plan", "", 0, 1e9},
    {"--bandwidth", "", kRate, "", "bytes/s", "",
     "how fast memory is read, such as 27GB/s (GB/s = 10^9, GiB/s = 2^30 bytes)", "plan", "", 1,
     1e18},
    {"--gflops", "", kReal, "", "GFLOP/s", "",
     "how fast prompts are computed, in 10^9 operations a second", "plan", "", 1e-6, 1e12},
    {"--measure", "", kBool, "false", "", "",
     "measure on this machine what --bandwidth and --gflops leave out", "plan"},
    {"--params", "", kCount, "", "", "", "parameters of a model without a file, such as 7B", "plan",
     "", 1, 1e18},
    {"--weights", "", kSize, "", "bytes", "", "size of its weights", "plan", "", 1},
    {"--layers", "", kInteger, "", "", "", "its layers", "plan", "", 1, 10000},
    {"--heads", "", kInteger, "", "", "",
     "its query heads; left out: attention is not counted as compute", "plan", "", 1, 65536},
    {"--kv-heads", "", kInteger, "", "", "", "its key and value heads", "plan", "", 1, 65536},
    {"--head-dim", "", kInteger, "", "", "", "dimensions of a head", "plan", "", 1, 1024},
    {"--sliding-window", "", kInteger, "0", "tokens", "",
     "what its layers with a window attend to; 0 = all see everything", "plan", "", 0, 1e9},
    {"--global-period", "", kInteger, "0", "", "",
     "every so many layers one sees everything; 0 = none does, where there is a window", "plan", "",
     0, 10000},
});

bool lists(std::string_view commands, std::string_view command) {
  const auto names = split(commands, ',');
  return std::find(names.begin(), names.end(), command) != names.end();
}

}  // namespace

std::span<const OptionInfo> option_table() {
  return kOptions;
}

const OptionInfo* find_option(std::string_view flag) {
  for (const OptionInfo& option : kOptions) {
    if (option.flag == flag) return &option;
    for (const std::string_view alias : split(option.aliases, ' ')) {
      if (!alias.empty() && alias == flag) return &option;
    }
  }
  return nullptr;
}

const OptionInfo* find_ini_key(std::string_view ini_key) {
  for (const OptionInfo& option : kOptions) {
    if (!ini_key.empty() && option.ini_key == ini_key) return &option;
  }
  return nullptr;
}

std::string env_name(const OptionInfo& option) {
  if (option.ini_key.empty() && option.flag != "--config") return {};
  std::string name = "REFRAIN_";
  for (const char c : option.flag.substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

bool counts_for(const OptionInfo& option, std::string_view command) {
  // `config show` answers for everything that a file may hold.
  if (command == "config show" && !option.ini_key.empty()) return true;
  return option.commands == "*" || lists(option.commands, command);
}

}  // namespace refrain::cli
