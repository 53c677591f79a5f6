// Tokenizer speed on the texts that make tokenizers slow (O-29): MB/s on one core for 1 MB of each
// kind, and how much longer twice the text takes. One thread.
//   tokenizer_bench MODEL.gguf [MEBIBYTES]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "support/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace {

// Processor time of this process: what else runs on the machine counts little.
double now_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::string repeat(const std::string& unit, std::size_t size) {
  std::string text;
  text.reserve(size + unit.size());
  while (text.size() < size) text += unit;
  return text;
}

// Words of no dictionary, numbers, marks and line breaks from a fixed sequence.
std::string mixed(std::size_t size) {
  static const char* const kParts[] = {
      "the ",   "quick ",  "brown ",  "tokenizer ",   "naïve ",  "Größe, ",  "1999 ",
      "漢字と", "かな。",  "\n\n",    "    ",         "return ", "x == y; ", "🦙 ",
      "don't ", "(a, b) ", "http://", "example.org/", "Привет ", "мир! ",    "\t"};
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < size) {
    state = state * 1664525U + 1013904223U;
    text += kParts[(state >> 16U) % std::size(kParts)];
    if (state % 5 == 0) text += static_cast<char>('a' + state / 7 % 26);
  }
  return text;
}

double encode_seconds(const refrain::text::Tokenizer& tokenizer, const std::string& text,
                      std::size_t& token_count) {
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    const double begin = now_seconds();
    token_count = tokenizer.encode(text, {}).size();
    best = std::min(best, now_seconds() - begin);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::size_t size = (argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1) << 20U;
  auto vocabulary = refrain::test_support::read_vocabulary(argv[1]);
  if (!vocabulary.ok())
    return std::fprintf(stderr, "error: %s\n", vocabulary.error().message.c_str()), 1;
  const double begin = now_seconds();
  const auto tokenizer = refrain::text::Tokenizer::create(std::move(*vocabulary));
  if (!tokenizer.ok())
    return std::fprintf(stderr, "error: %s\n", tokenizer.error().message.c_str()), 1;
  std::printf("load %.0f ms\n", (now_seconds() - begin) * 1e3);

  using Maker = std::string (*)(std::size_t);
  const std::vector<std::pair<const char*, Maker>> kinds = {
      {"A", [](std::size_t n) { return repeat("A", n); }},
      {"blank", [](std::size_t n) { return repeat(" ", n); }},
      {"line break", [](std::size_t n) { return repeat("\n", n); }},
      {"漢", [](std::size_t n) { return repeat("漢", n); }},
      {"1", [](std::size_t n) { return repeat("1", n); }},
      {"_", [](std::size_t n) { return repeat("_", n); }},
      {"a + U+0301", [](std::size_t n) { return repeat("a\u0301", n); }},
      {"U+0301", [](std::size_t n) { return repeat("\u0301", n); }},
      {"ill-formed", [](std::size_t n) { return repeat("\xFF", n); }},
      {"letters", [](std::size_t n) { return repeat("etaoinshrdlucmfwypvbgkqjxz", n); }},
      {"mixed", mixed},
  };
  std::printf("%-12s %10s %10s %10s\n", "text", "tokens", "MB/s", "x2 time");
  for (const auto& [name, make] : kinds) {
    std::size_t tokens = 0, ignored = 0;
    const double once = encode_seconds(**tokenizer, make(size), tokens);
    const double twice = encode_seconds(**tokenizer, make(2 * size), ignored);
    std::printf("%-12s %10zu %10.1f %10.2f\n", name, tokens, static_cast<double>(size) / once / 1e6,
                twice / once);
  }
  return 0;
}
