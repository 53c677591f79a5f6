// Cuts a template into tokens. Whitespace control is done here: trim_blocks and lstrip_blocks are
// on, "-" and "+" marks override them. Pure function; any thread.
//
//   "a {%- if x %}\nb"  ->  data "a", block begin, name "if", name "x", block end, data "b", end
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain::text::jinja {

enum class TokenKind : std::uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kOutputBegin,
  kOutputEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct LexToken {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // data, name, operator; strings decoded; digits without "_"
  std::uint32_t line = 1;
};

// Last token is kEnd. kInvalidArgument with the line for what is not a token or does not end.
Result<std::vector<LexToken>> lex(std::string_view source);

// A syntax error at a line of the template.
Error syntax_error(std::uint32_t line, const std::string& what);

}  // namespace refrain::text::jinja
