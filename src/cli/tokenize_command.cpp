// `refrain tokenize`: ids and pieces of a text. Main thread.
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/runtime.h"

namespace refrain::cli {
namespace {

// Pieces may be parts of a character; such bytes are shown as U+FFFD, and exactly in "bytes".
nlohmann::ordered_json token_json(const text::Tokenizer& tokenizer, TokenId id) {
  const std::string_view piece = tokenizer.piece(id, true);
  nlohmann::ordered_json token = {{"id", to_int(id)}, {"piece", to_valid_utf8(piece)}};
  if (!is_valid_utf8(piece)) {
    std::vector<int> bytes;
    for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
    token["bytes"] = bytes;
  }
  return token;
}

}  // namespace

Exit run_tokenize(const Settings& settings, Console& console) {
  const Result<std::string> text = argument_or_stdin(settings, /*exact=*/true);
  if (!text.ok()) return fail(text.error(), console);
  const Result<LoadedModel> loaded = LoadedModel::load(settings, console);
  if (!loaded.ok()) return fail(loaded.error(), console);
  const text::Tokenizer& tokenizer = *loaded->tokenizer;
  const TokenList tokens = tokenizer.encode(
      *text,
      {.add_bos = settings.boolean("--bos"), .parse_special = settings.boolean("--parse-special")});
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  if (settings.boolean("--json")) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const TokenId id : tokens) list.push_back(token_json(tokenizer, id));
    console.out(nlohmann::ordered_json{{"count", tokens.size()}, {"tokens", list}}.dump(
                    2, ' ', false, kReplace) +
                "\n");
    return Exit::kOk;
  }
  std::string lines;
  for (const TokenId id : tokens) {
    lines += str_cat(to_int(id), "\t",
                     nlohmann::json(to_valid_utf8(tokenizer.piece(id, true))).dump(), "\n");
    if (lines.size() > (1U << 16U)) {
      if (!console.out(lines)) return Exit::kOk;
      lines.clear();
    }
  }
  console.out(lines);
  return Exit::kOk;
}

}  // namespace refrain::cli
