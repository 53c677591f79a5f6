// Fields that shape the form of an answer: tools, tool_choice, parallel_tool_calls,
// response_format. Turns them into what the template shows (tools_json) and what a grammar must
// enforce. Plain functions, any thread.
#pragma once

#include <optional>
#include <string>

#include "engine/grammar.h"
#include "serve/field_reader.h"

namespace refrain::serve {

inline constexpr std::size_t kMaxTools = 128;

enum class ToolChoice { kNone, kAuto, kRequired, kNamed };

struct ToolFields {
  // Definitions for the template, JSON array in one canonical form: the same tools give the same
  // tokens, however the client ordered the keys of its schemas. "" = none to be shown.
  std::string tools_json;
  ToolChoice choice = ToolChoice::kNone;
  bool parallel = true;
  std::optional<engine::GrammarSpec> grammar;  // forced call or response_format

  bool may_call() const { return choice != ToolChoice::kNone; }
};

ToolFields read_tool_fields(FieldReader& read);

}  // namespace refrain::serve
