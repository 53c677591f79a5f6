// ChatTemplate: from messages to a Prompt. Owns the parsed template; a render owns the rest.
// Immutable after parse(); any thread.
#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/str.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_json.h"
#include "text/jinja_parser.h"
#include "text/turns.h"

namespace refrain::text {

using jinja::make_dict;
using jinja::Text;
using jinja::Value;

namespace {

Error invalid(std::string message, std::string field) {
  return Error{Code::kInvalidArgument, std::move(message), "", std::move(field)};
}

Error with_field(Error error, std::string_view field) {
  if (error.field.empty()) error.field = field;
  return error;
}

// A list of tools, or none. Its text counts as that of message 0.
Result<Value> read_tools(const std::string& json) {
  if (json.empty()) return Value::none();
  Result<Value> tools = jinja::parse_json(json, 0);
  if (!tools.ok()) return with_field(tools.error(), "tools");
  if (tools->is_none()) return Value::none();
  if (tools->as_list() == nullptr) return invalid("`tools` must be a list", "tools");
  if (tools->as_list()->items.empty()) return Value::none();
  return tools;
}

// Variables of chat_template_kwargs; their text counts as that of message 0.
Result<Value> read_extra(const std::string& json) {
  static constexpr std::string_view kField = "chat_template_kwargs";
  static constexpr std::array<std::string_view, 10> kReserved = {
      "messages", "tools",     "add_generation_prompt", "bos_token",   "eos_token", "range",
      "dict",     "namespace", "raise_exception",       "strftime_now"};
  if (json.empty()) return make_dict({});
  Result<Value> extra = jinja::parse_json(json, 0);
  if (!extra.ok()) return with_field(extra.error(), kField);
  if (extra->is_none()) return make_dict({});
  if (extra->as_dict() == nullptr)
    return invalid("`chat_template_kwargs` must be an object", std::string(kField));
  for (const auto& [key, value] : extra->as_dict()->entries) {
    const std::string& name = key.as_text()->bytes();
    if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
      return invalid(str_cat("`", name, "` cannot be set by chat_template_kwargs"),
                     std::string(kField));
    }
  }
  return extra;
}

// One render of the template with everything it may ask for.
struct Variables {
  Turns turns;
  Value tools = Value::none();
  Value extra;  // mapping or undefined
  bool add_generation_prompt = true;
  std::int64_t now_unix_s = 0;
};

struct Outcome {
  Result<Text> text;
  bool refused;    // by raise_exception
  bool exhausted;  // out of steps
};

// [begin, end) of the last run of `origin`.
struct Range {
  std::size_t begin;
  std::size_t end;
};
std::optional<Range> last_run(const Text& text, std::int32_t origin) {
  const auto& runs = text.runs();
  for (std::size_t i = runs.size(); i-- > 0;) {
    if (runs[i].origin == origin) return Range{i > 0 ? runs[i - 1].end : 0, runs[i].end};
  }
  return std::nullopt;
}

// `marker` is the origin that stood for the content of message `marker` - 1, if any did.
Prompt to_prompt(const Text& text, std::int32_t marker) {
  Prompt prompt;
  std::size_t begin = 0;
  for (const jinja::Run& run : text.runs()) {
    const std::int32_t message = run.origin == marker ? marker - 1 : run.origin;
    const std::string_view bytes = std::string_view(text.bytes()).substr(begin, run.end - begin);
    begin = run.end;
    if (!prompt.parts.empty() && prompt.parts.back().message == message) {
      prompt.parts.back().text.append(bytes);
    } else {
      prompt.parts.push_back({std::string(bytes), message});
    }
  }
  return prompt;
}

}  // namespace

struct ChatTemplate::Impl {
  std::string source;
  SpecialTokens special;
  TemplateLimits limits;
  jinja::Template parsed;
  bool knows_tools = false;
  bool wants_parts = false;  // content must be a list of parts

  Outcome run(const Variables& variables, bool as_parts) const;
  Result<Text> run_with_tools(const Variables& variables) const;
  Result<void> probe();
  Result<Text> continued(Variables variables, std::int32_t marker) const;
};

Outcome ChatTemplate::Impl::run(const Variables& variables, bool as_parts) const {
  jinja::Interpreter interpreter(limits, variables.now_unix_s);
  Result<Value> messages = to_value(variables.turns, as_parts);
  if (!messages.ok()) return {messages.error(), false, false};
  // Absent special tokens stay undefined, so that `bos_token is defined` tells.
  if (!special.bos.empty()) interpreter.define("bos_token", Value::text(special.bos));
  if (!special.eos.empty()) interpreter.define("eos_token", Value::text(special.eos));
  interpreter.define("documents", Value::none());
  if (const jinja::Dict* extra = variables.extra.as_dict()) {
    for (const auto& [key, value] : extra->entries) {
      interpreter.define(key.as_text()->bytes(), value);
    }
  }
  interpreter.define("messages", std::move(messages).value());
  interpreter.define("tools", variables.tools);
  interpreter.define("add_generation_prompt", Value::boolean(variables.add_generation_prompt));
  Result<Text> text = interpreter.run(parsed);
  return {std::move(text), interpreter.refused(), interpreter.exhausted()};
}

// Templates that know no tools get them written out; where they refuse the system turn made for
// it, the tools go in front of the first user turn.
Result<Text> ChatTemplate::Impl::run_with_tools(const Variables& variables) const {
  if (knows_tools) return run(variables, wants_parts).text;
  const bool has_system = variables.turns.front().role == "system";
  Variables written = variables;
  written.tools = Value::none();
  ASSIGN_OR_RETURN(written.turns,
                   write_tools(variables.turns, variables.tools, ToolPlace::kSystemTurn));
  Outcome outcome = run(written, wants_parts);
  const bool made_system = variables.tools.as_list() != nullptr && !has_system;
  if (!outcome.refused || !made_system) return std::move(outcome.text);
  ASSIGN_OR_RETURN(written.turns,
                   write_tools(variables.turns, variables.tools, ToolPlace::kFirstUserTurn));
  return run(written, wants_parts).text;
}

// Renders one short message to see whether content is wanted as text or as a list of parts, and
// whether the template ends at all.
Result<void> ChatTemplate::Impl::probe() {
  Variables variables;
  variables.turns = make_turns({ChatMessage{"user", "x", {}, "", "", ""}});
  const auto shows_content = [](const Outcome& outcome) {
    return outcome.text.ok() && last_run(*outcome.text, 0).has_value();
  };
  const Outcome plain = run(variables, false);
  if (plain.exhausted) {
    return invalid(str_cat(plain.text.error().message, " for a single short message"),
                   "chat_template");
  }
  wants_parts = !shows_content(plain) && shows_content(run(variables, true));
  return {};
}

// The rendered text up to the end of the last message's content. That content carries an origin
// of its own (`marker`), so that its end is known whatever the template puts around it. If none of
// it shows (empty, or trimmed away), a stand-in character tells where it would have been.
Result<Text> ChatTemplate::Impl::continued(Variables variables, std::int32_t marker) const {
  Turn& last = variables.turns.back();
  variables.add_generation_prompt = false;
  last.content = Text(last.content.bytes(), marker);
  ASSIGN_OR_RETURN(const Text text, run_with_tools(variables));
  if (const auto content = last_run(text, marker)) return text.slice(0, content->end);
  last.content = Text("x", marker);
  ASSIGN_OR_RETURN(const Text with_stand_in, run_with_tools(variables));
  if (const auto content = last_run(with_stand_in, marker)) {
    return with_stand_in.slice(0, content->begin);
  }
  return invalid("the chat template does not write the last message, so it cannot be continued",
                 "continue_final_message");
}

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, SpecialTokens special,
                                         TemplateLimits limits) {
  auto impl = std::make_unique<Impl>();
  impl->source = source;
  impl->special = std::move(special);
  impl->limits = limits;
  ASSIGN_OR_RETURN(impl->parsed, jinja::parse_template(source, limits.max_depth));
  const auto& names = impl->parsed.names;
  impl->knows_tools = std::binary_search(names.begin(), names.end(), std::string_view("tools"));
  RETURN_IF_ERROR(impl->probe());
  return ChatTemplate(std::move(impl));
}

Result<Prompt> ChatTemplate::render(const RenderInput& input) const {
  if (input.messages.empty()) return invalid("`messages` is empty", "messages");
  Variables variables;
  variables.turns = make_turns(input.messages);
  variables.add_generation_prompt = input.add_generation_prompt;
  variables.now_unix_s = input.now_unix_s;
  ASSIGN_OR_RETURN(variables.tools, read_tools(input.tools_json));
  ASSIGN_OR_RETURN(variables.extra, read_extra(input.extra_json));
  const auto marker = static_cast<std::int32_t>(input.messages.size());
  if (input.continue_final_message) {
    const ChatMessage& last = input.messages.back();
    if (last.role != "assistant" || !last.tool_calls.empty()) {
      return invalid("only an assistant message without tool calls can be continued",
                     "continue_final_message");
    }
  }
  Result<Text> text = input.continue_final_message ? impl_->continued(std::move(variables), marker)
                                                   : impl_->run_with_tools(variables);
  if (!text.ok()) return with_field(text.error(), "messages");
  return to_prompt(*text, marker);
}

bool ChatTemplate::knows_tools() const {
  return impl_->knows_tools;
}
const std::string& ChatTemplate::source() const {
  return impl_->source;
}

}  // namespace refrain::text
