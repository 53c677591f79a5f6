// The rows of the command table. Any thread.
#include "cli/commands.h"

#include <array>

namespace refrain::cli {
namespace {

constexpr auto kCommands = std::to_array<CommandInfo>({
    {"serve", "", "", "serve a model over the OpenAI API"},
    {"chat", "", "", "talk to a model in the terminal"},
    {"run", "[PROMPT]", "what to ask; left out or `-`: read from stdin",
     "answer one prompt and exit"},
    {"tokenize", "[TEXT]", "text to tokenize; left out or `-`: read from stdin",
     "show the tokens of a text"},
    {"bench prefill", "", "", "measure how fast prompts of given lengths are computed"},
    {"bench decode", "", "",
     "measure how fast tokens are generated behind contexts of given lengths"},
    {"bench kernels", "", "",
     "measure each CPU kernel: share of what the machine can do, ratio to ggml"},
    {"bench serve", "", "", "measure a running server: TTFT, TPOT, throughput, cached share"},
    {"bench isolation", "", "",
     "measure on a running server what long prompts cost short requests, and what these cost them"},
    {"bench cache", "", "",
     "replay a trace of requests without a model: hit rates by pool size and eviction policy"},
    {"eval perplexity", "", "", "score a text file with a model"},
    {"eval exact", "", "",
     "prove that cache, chunks, batches, threads and restarts change no bit of an answer"},
    {"eval reuse", "", "",
     "measure what reusing text at another place costs in error and saves in time"},
    {"eval kv", "", "",
     "measure what each KV format takes in bytes, loses in quality and gains in speed"},
    {"eval trim", "", "",
     "measure what each way of cutting a context down keeps of it: answers, divergence, time"},
    {"calibrate", "", "",
     "measure how far off answers over moved text are, so that it may be reused"},
    {"plan", "", "",
     "what a model's context costs in memory, bandwidth and compute, and how many requests fit: of "
     "a GGUF file (its weights are not read), or of numbers given by hand"},
    {"config show", "", "", "print every setting, its value and where it came from"},
    {"config docs", "[PAGE]", "`options` or `metrics`; left out: `options`",
     "print a page of docs/reference"},
    {"version", "", "", "print the version"},
});

}  // namespace

std::span<const CommandInfo> command_table() {
  return kCommands;
}

const CommandInfo* find_command(std::string_view name) {
  for (const CommandInfo& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace refrain::cli
