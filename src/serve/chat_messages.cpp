// See chat_messages.h.
#include "serve/chat_messages.h"

#include <array>

#include "base/str.h"
#include "serve/json_writer.h"

namespace refrain::serve {
namespace {

// The role templates know for each role that clients send; "" for an unknown one.
std::string_view template_role(std::string_view role) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kRoles = {{
      {"system", "system"},
      {"developer", "system"},  // the later name of the same thing
      {"user", "user"},
      {"assistant", "assistant"},
      {"tool", "tool"},
      {"function", "tool"},  // the earlier name of the same thing
  }};
  for (const auto& [sent, known] : kRoles)
    if (sent == role) return known;
  return {};
}

// Text of one content part; refuses what is not text.
void append_part(FieldReader& message, const Json& part, std::size_t index, std::string* content) {
  const std::string path = message.path_of(str_cat("content[", index, "]"));
  FieldReader read(part, path);
  std::string type;
  if (!read.failed() && !read.text("type", &type) && !read.failed())
    read.fail("type", "is missing", R"(parts are {"type": "text", "text": "..."})");
  std::string text;
  if (!read.failed()) {
    const std::string_view member = type == "refusal" ? "refusal" : "text";
    if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal") {
      read.fail(
          Error{Code::kUnsupported,
                str_cat("`", path, "` has the type `", type, "`, but this model reads text only"),
                "send parts of type `text`", path});
    } else if (!read.text(member, &text) && !read.failed()) {
      read.fail(member, "is missing");
    }
  }
  if (read.failed()) {
    message.fail(read.error());
  } else {
    *content += text;
  }
}

// False when there is no content (absent or null).
bool read_content(FieldReader& message, std::string* content) {
  const Json* member = message.any("content");
  if (member == nullptr) return false;
  if (const std::string* text = member->text()) {
    *content = *text;
  } else if (const JsonArray* parts = member->array()) {
    for (std::size_t i = 0; i < parts->size() && !message.failed(); ++i)
      append_part(message, (*parts)[i], i, content);
  } else {
    message.fail("content",
                 str_cat("must be a string or an array of parts, not ", member->kind_name()));
  }
  return true;
}

// {"name", "arguments"}: arguments as the string the model wrote, or as an object (order kept).
text::ToolCall read_function(FieldReader& read) {
  text::ToolCall call;
  if (!read.failed() && !read.text("name", &call.name) && !read.failed())
    read.fail("name", "is missing");
  const Json* arguments = read.any("arguments");
  if (arguments == nullptr) {
    call.arguments_json = "{}";
  } else if (const std::string* text = arguments->text()) {
    call.arguments_json = *text;
  } else if (arguments->object() != nullptr) {
    call.arguments_json = to_text(*arguments);
  } else {
    read.fail("arguments",
              str_cat("must be a string that holds JSON, not ", arguments->kind_name()));
  }
  return call;
}

void read_tool_call(FieldReader& message, const Json& item, std::size_t index,
                    std::vector<text::ToolCall>* calls) {
  FieldReader read(item, message.path_of(str_cat("tool_calls[", index, "]")));
  std::string id;
  std::string type = "function";
  if (!read.failed()) {
    read.text("id", &id);
    read.text("type", &type);
    if (type != "function") read.fail("type", str_cat("must be `function`, not `", type, "`"));
  }
  const Json* function = read.failed() ? nullptr : read.object("function");
  if (function == nullptr) {
    if (!read.failed()) read.fail("function", "is missing");
  } else {
    FieldReader inner(*function, read.path_of("function"));
    text::ToolCall call = read_function(inner);
    call.id = std::move(id);
    if (inner.failed()) read.fail(inner.error());
    calls->push_back(std::move(call));
  }
  if (read.failed()) message.fail(read.error());
}

void read_calls(FieldReader& message, std::vector<text::ToolCall>* calls) {
  if (const Json* items = message.array("tool_calls")) {
    for (std::size_t i = 0; i < items->array()->size() && !message.failed(); ++i)
      read_tool_call(message, (*items->array())[i], i, calls);
  }
  if (const Json* legacy = message.object("function_call")) {
    FieldReader inner(*legacy, message.path_of("function_call"));
    calls->push_back(read_function(inner));
    if (inner.failed()) message.fail(inner.error());
  }
}

text::ChatMessage read_message(FieldReader& read, const Json& item, std::size_t index) {
  text::ChatMessage message;
  FieldReader own(item, read.path_of(str_cat("messages[", index, "]")));
  if (!own.failed()) {
    std::string role;
    if (!own.text("role", &role) && !own.failed()) own.fail("role", "is missing");
    message.role = template_role(role);
    if (message.role.empty() && !own.failed())
      own.fail("role", str_cat("is `", role.substr(0, 40), "`"),
               "roles are system, developer, user, assistant, tool and function");
    const bool has_content = read_content(own, &message.content);
    own.text("tool_call_id", &message.tool_call_id);
    own.text("name", &message.name);
    own.text("reasoning_content", &message.reasoning_content);
    if (message.role == "assistant") read_calls(own, &message.tool_calls);
    if (!has_content && message.tool_calls.empty() && !own.failed())
      own.fail("content", "is missing",
               message.role == "assistant" ? "only an assistant turn with tool_calls has no content"
                                           : "send a string");
  }
  if (own.failed()) read.fail(own.error());
  return message;
}

}  // namespace

std::vector<text::ChatMessage> read_messages(FieldReader& read) {
  std::vector<text::ChatMessage> messages;
  const Json* items = read.array("messages");
  if (items == nullptr) {
    read.fail("messages", "is missing", "send an array of {\"role\", \"content\"}");
    return messages;
  }
  const JsonArray& list = *items->array();
  if (list.empty()) read.fail("messages", "must hold at least one message");
  if (list.size() > kMaxMessages)
    read.fail("messages", str_cat("holds ", list.size(), " messages; at most ", kMaxMessages));
  for (std::size_t i = 0; i < list.size() && !read.failed(); ++i)
    messages.push_back(read_message(read, list[i], i));
  return messages;
}

}  // namespace refrain::serve
