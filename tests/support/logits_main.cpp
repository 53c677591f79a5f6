// Golden data of the C++ side: reads token lists and writes logits or likelihoods.
//
//   logits_main MODEL logits [--threads N] [--chunks 7,16,1] [--last K] [--kv-bits 16|8]
//               [--kernels cpu|ggml] < tokens > logits
//   logits_main MODEL likelihood [...] < tokens
//
// Each line of standard input is one token list (ids separated by spaces), run on its own. `logits`
// writes float32 [rows, vocabulary] of each list's last K rows (all without --last); `likelihood`
// prints a line "sum_of_negative_log_likelihoods scored_tokens" for each list. Chunk sizes are
// used in turn, again from the start when they run out; without them a list runs in pieces of 512.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "support/arena_driver.h"

namespace refrain::test {
namespace {

struct Options {
  std::string model, mode;
  std::uint32_t threads = 2;
  std::uint32_t last = UINT32_MAX;
  std::vector<std::uint32_t> chunks = {512};
  model::KvFormat format = model::KvFormat::kF16;
  Kernels kernels = Kernels::kCpu;
};

std::vector<std::uint32_t> numbers(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream in(text);
  std::vector<std::uint32_t> list;
  for (std::uint32_t value; in >> value;) list.push_back(value);
  return list;
}

bool parse(int argc, char** argv, Options& options) {
  if (argc < 3 || argc % 2 == 0) return false;
  options.model = argv[1];
  options.mode = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--kernels") {
      options.kernels = argv[i + 1] == std::string("ggml") ? Kernels::kGgml : Kernels::kCpu;
      continue;
    }
    const std::vector<std::uint32_t> values = numbers(argv[i + 1]);
    if (values.empty() || std::count(values.begin(), values.end(), 0U) > 0) return false;
    if (name == "--threads") {
      options.threads = values[0];
    } else if (name == "--last") {
      options.last = values[0];
    } else if (name == "--kv-bits" && (values[0] == 16 || values[0] == 8)) {
      options.format = values[0] == 8 ? model::KvFormat::kQ8 : model::KvFormat::kF16;
    } else if (name == "--chunks") {
      options.chunks = values;
    } else {
      return false;
    }
  }
  return options.mode == "logits" || options.mode == "likelihood";
}

// -log p of `target` under the softmax of one row.
double negative_log_likelihood(const float* row, std::size_t size, TokenId target) {
  const double top = *std::max_element(row, row + size);
  double sum = 0.0;
  for (std::size_t i = 0; i < size; ++i) sum += std::exp(row[i] - top);
  return top + std::log(sum) - row[to_int(target)];
}

class Runner {
 public:
  Runner(const model::Model& model, const Options& options)
      : options_(options),
        vocabulary_(model.shape().vocabulary_size),
        driver_(model,
                {options.threads, 16, kBlockCount, kRowsMax, options.format, options.kernels}) {}

  void run(const TokenList& tokens) {
    driver_.reset();
    DrivenSequence sequence{tokens, 0, {}};
    likelihood_ = 0.0;
    std::size_t next_chunk = 0;
    while (sequence.done < tokens.size()) {
      const std::uint32_t first = sequence.done;
      const std::uint32_t wanted = options_.chunks[next_chunk++ % options_.chunks.size()];
      const auto left = static_cast<std::uint32_t>(tokens.size()) - first;
      const std::uint32_t count = std::min({wanted, left, kRowsMax});
      use(driver_.step({{&sequence, count}}), tokens, first, count);
    }
    if (options_.mode == "likelihood") {
      std::printf("%.9f %zu\n", likelihood_, tokens.empty() ? 0 : tokens.size() - 1);
    }
  }

 private:
  static constexpr std::uint32_t kRowsMax = 512;
  static constexpr std::uint32_t kBlockCount = 256;  // 4,096 tokens

  void use(const std::vector<float>& logits, const TokenList& tokens, std::uint32_t first,
           std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const float* row = logits.data() + std::size_t{i} * vocabulary_;
      const std::size_t position = first + i;
      if (options_.mode == "likelihood") {
        if (position + 1 < tokens.size()) {
          likelihood_ += negative_log_likelihood(row, vocabulary_, tokens[position + 1]);
        }
      } else if (tokens.size() - position <= options_.last) {
        std::fwrite(row, sizeof(float), vocabulary_, stdout);
      }
    }
  }

  const Options& options_;
  std::size_t vocabulary_;
  ArenaDriver driver_;
  double likelihood_ = 0.0;
};

int run(const Options& options) {
  auto model = model::Model::load({options.model});
  if (!model.ok()) {
    std::cerr << "error: " << model.error().message << '\n';
    return 1;
  }
  Runner runner(**model, options);
  for (std::string line; std::getline(std::cin, line);) {
    TokenList tokens;
    for (const std::uint32_t id : numbers(line)) {
      tokens.push_back(TokenId{static_cast<std::int32_t>(id)});
    }
    if (!tokens.empty()) runner.run(tokens);
  }
  return 0;
}

}  // namespace
}  // namespace refrain::test

int main(int argc, char** argv) {
  refrain::test::Options options;
  if (!refrain::test::parse(argc, argv, options)) {
    std::cerr << "error: usage: logits_main MODEL logits|likelihood [--threads N] [--chunks A,B] "
                 "[--last K] [--kv-bits 16|8] [--kernels cpu|ggml]\n";
    return 2;
  }
  return refrain::test::run(options);
}
