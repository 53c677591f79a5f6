// Prints token ids for texts, for the golden tests. One thread.
//   tokenize_texts MODEL.gguf [--pre NAME] [--space-prefix yes|no]  < requests > answers
// A request line is "plain HEX" or "special HEX" (control tokens in the text count), HEX the bytes
// of the text. The answer line is the ids with blanks between, a tab, the decoded bytes as HEX.
#include <cstdio>
#include <iostream>
#include <string>

#include "support/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace {

using refrain::TokenId;
using refrain::TokenList;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::string to_hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(c) >> 4U]);
    hex.push_back(kDigits[static_cast<unsigned char>(c) & 15U]);
  }
  return hex;
}

int fail(const refrain::Error& error) {
  std::fprintf(stderr, "error: %s\nhint: %s\n", error.message.c_str(), error.hint.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) return 2;
  auto vocabulary = refrain::test_support::read_vocabulary(argv[1]);
  if (!vocabulary.ok()) return fail(vocabulary.error());
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--pre")
      vocabulary->pre_tokenizer = argv[i + 1];
    else if (option == "--space-prefix")
      vocabulary->add_space_prefix = argv[i + 1] == std::string("yes");
    else
      return 2;
  }
  auto tokenizer = refrain::text::Tokenizer::create(std::move(*vocabulary));
  if (!tokenizer.ok()) return fail(tokenizer.error());

  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t blank = line.find(' ');
    const bool special = line.substr(0, blank) == "special";
    const std::string text = blank == line.npos ? "" : from_hex(line.substr(blank + 1));
    const TokenList ids = (*tokenizer)->encode(text, {.parse_special = special});
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::cout << (i > 0 ? " " : "") << refrain::to_int(ids[i]);
    std::cout << '\t' << to_hex((*tokenizer)->decode(ids, special)) << '\n';
  }
  return 0;
}
