// See tool_fields.h.
#include "serve/tool_fields.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/str.h"
#include "serve/json_writer.h"

namespace refrain::serve {
namespace {

struct Tool {
  std::string name;
  const Json* description = nullptr;
  const Json* parameters = nullptr;  // null = takes nothing
};

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
}

// Order in which the members of a schema are written: the usual words in their usual order, then
// the rest by name. Names of properties go by name, since any of them may be anything.
std::size_t rank_of(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kUsual = {
      "title", "type", "description", "enum", "default", "items", "properties", "required"};
  const auto it = std::find(kUsual.begin(), kUsual.end(), name);
  return static_cast<std::size_t>(it - kUsual.begin());
}

// Keywords whose value is data or a list of names, not a schema: taken over as they stand.
bool holds_data(std::string_view keyword) {
  return keyword == "enum" || keyword == "default" || keyword == "const" || keyword == "examples" ||
         keyword == "required";
}

// Keywords whose members are names chosen by the author, each with a schema of its own.
bool holds_named_schemas(std::string_view keyword) {
  return keyword == "properties" || keyword == "$defs" || keyword == "definitions" ||
         keyword == "patternProperties" || keyword == "dependentSchemas";
}

void write_canonical(JsonWriter& out, const Json& schema, bool named_members) {
  if (const JsonArray* items = schema.array()) {
    out.begin_array();
    for (const Json& item : *items) write_canonical(out, item, false);
    out.end_array();
    return;
  }
  const JsonObject* members = schema.object();
  if (members == nullptr) {
    out.value(schema);
    return;
  }
  std::vector<const JsonMember*> order;
  order.reserve(members->size());
  for (const JsonMember& member : *members) order.push_back(&member);
  std::stable_sort(order.begin(), order.end(), [&](const JsonMember* a, const JsonMember* b) {
    const std::size_t rank_a = named_members ? 0 : rank_of(a->name);
    const std::size_t rank_b = named_members ? 0 : rank_of(b->name);
    return rank_a != rank_b ? rank_a < rank_b : a->name < b->name;
  });
  out.begin_object();
  for (const JsonMember* member : order) {
    out.key(member->name);
    if (!named_members && holds_data(member->name)) {
      out.value(member->value);
    } else {
      write_canonical(out, member->value, !named_members && holds_named_schemas(member->name));
    }
  }
  out.end_object();
}

std::string canonical(const Json& schema) {
  JsonWriter out;
  write_canonical(out, schema, false);
  return out.take();
}

constexpr std::string_view kNoParameters = R"({"type":"object","properties":{}})";

std::string definitions_json(const std::vector<Tool>& tools) {
  JsonWriter out;
  out.begin_array();
  for (const Tool& tool : tools) {
    out.begin_object().field("type", "function").key("function").begin_object();
    out.field("name", tool.name);
    if (tool.description != nullptr) out.field("description", *tool.description);
    out.key("parameters")
        .raw(tool.parameters ? canonical(*tool.parameters) : std::string(kNoParameters));
    out.end_object().end_object();
  }
  out.end_array();
  return out.take();
}

// What the grammar needs of the callable tools; properties keep the author's order there.
std::string callable_json(const std::vector<Tool>& tools, const std::string& only) {
  JsonWriter out;
  out.begin_array();
  for (const Tool& tool : tools) {
    if (!only.empty() && tool.name != only) continue;
    out.begin_object().field("name", tool.name).key("parameters");
    out.raw(tool.parameters ? to_text(*tool.parameters) : std::string(kNoParameters));
    out.end_object();
  }
  out.end_array();
  return out.take();
}

Tool read_tool(FieldReader& read, const Json& item, std::size_t index) {
  Tool tool;
  FieldReader own(item, read.path_of(str_cat("tools[", index, "]")));
  std::string type;
  if (!own.failed() && !own.text("type", &type) && !own.failed()) own.fail("type", "is missing");
  if (!own.failed() && type != "function")
    own.fail("type", str_cat("must be `function`, not `", type.substr(0, 40), "`"));
  const Json* function = own.failed() ? nullptr : own.object("function");
  if (function == nullptr) {
    if (!own.failed()) own.fail("function", "is missing");
  } else {
    FieldReader inner(*function, own.path_of("function"));
    std::string description;
    if (!inner.text("name", &tool.name) && !inner.failed()) inner.fail("name", "is missing");
    if (!inner.failed() && !is_tool_name(tool.name))
      inner.fail("name", "must be 1 to 64 letters, digits, `_`, `-` or `.`");
    inner.text("description", &description);
    tool.description = inner.any("description");
    tool.parameters = inner.object("parameters");
    if (inner.failed()) own.fail(inner.error());
  }
  if (own.failed()) read.fail(own.error());
  return tool;
}

std::vector<Tool> read_tools(FieldReader& read) {
  std::vector<Tool> tools;
  const Json* items = read.array("tools");
  if (items == nullptr) return tools;
  if (items->array()->size() > kMaxTools)
    read.fail("tools", str_cat("holds ", items->array()->size(), " tools; at most ", kMaxTools));
  for (std::size_t i = 0; i < items->array()->size() && !read.failed(); ++i) {
    tools.push_back(read_tool(read, (*items->array())[i], i));
    for (std::size_t j = 0; j < i && !read.failed(); ++j)
      if (tools[j].name == tools[i].name)
        read.fail("tools", str_cat("names `", tools[i].name, "` twice"));
  }
  return tools;
}

// Name of the one tool to call, "" for none in particular.
std::string read_choice(FieldReader& read, const std::vector<Tool>& tools, ToolChoice* choice) {
  *choice = tools.empty() ? ToolChoice::kNone : ToolChoice::kAuto;
  const Json* member = read.any("tool_choice");
  if (member == nullptr) return {};
  std::string name;
  if (const std::string* word = member->text()) {
    if (*word == "none") {
      *choice = ToolChoice::kNone;
    } else if (*word == "required") {
      *choice = ToolChoice::kRequired;
    } else if (*word != "auto") {
      read.fail("tool_choice", "must be `none`, `auto`, `required` or name a function");
    }
  } else {
    FieldReader own(*member, read.path_of("tool_choice"));
    const Json* function = own.failed() ? nullptr : own.object("function");
    if (function != nullptr) {
      FieldReader inner(*function, own.path_of("function"));
      if (!inner.text("name", &name) && !inner.failed()) inner.fail("name", "is missing");
      if (inner.failed()) own.fail(inner.error());
    } else if (!own.failed()) {
      own.fail("function", "is missing");
    }
    if (own.failed()) read.fail(own.error());
    *choice = ToolChoice::kNamed;
    if (!read.failed() && std::none_of(tools.begin(), tools.end(),
                                       [&](const Tool& tool) { return tool.name == name; }))
      read.fail("tool_choice",
                str_cat("names `", name.substr(0, 64), "`, which is not in `tools`"));
  }
  if (tools.empty() && (*choice == ToolChoice::kRequired || *choice == ToolChoice::kNamed))
    read.fail("tool_choice", "asks for a call, but there are no `tools`");
  return name;
}

std::optional<engine::GrammarSpec> read_response_format(FieldReader& read) {
  const Json* format = read.object("response_format");
  if (format == nullptr) return std::nullopt;
  FieldReader own(*format, read.path_of("response_format"));
  std::optional<engine::GrammarSpec> spec;
  std::string type;
  if (!own.text("type", &type) && !own.failed()) own.fail("type", "is missing");
  if (type == "json_object") {
    spec.emplace();
    spec->kind = engine::GrammarSpec::Kind::kJsonObject;
  } else if (type == "json_schema") {
    spec.emplace();
    spec->kind = engine::GrammarSpec::Kind::kJsonSchema;
    const Json* outer = own.object("json_schema");
    if (outer == nullptr) {
      if (!own.failed()) own.fail("json_schema", "is missing");
    } else {
      FieldReader inner(*outer, own.path_of("json_schema"));
      const Json* schema = inner.object("schema");
      if (schema == nullptr && !inner.failed()) inner.fail("schema", "is missing");
      if (schema != nullptr) spec->schema_json = to_text(*schema);
      if (inner.failed()) own.fail(inner.error());
    }
  } else if (type != "text" && !own.failed()) {
    own.fail("type", "must be `text`, `json_object` or `json_schema`");
  }
  if (own.failed()) read.fail(own.error());
  return spec;
}

}  // namespace

ToolFields read_tool_fields(FieldReader& read) {
  ToolFields fields;
  const std::vector<Tool> tools = read_tools(read);
  const std::string only = read_choice(read, tools, &fields.choice);
  read.boolean("parallel_tool_calls", &fields.parallel);
  fields.grammar = read_response_format(read);
  if (fields.grammar.has_value() && fields.may_call())
    read.fail("response_format", "cannot be combined with tools that may be called",
              "set `tool_choice` to `none`, or leave one of the two out", Code::kUnsupported);
  if (read.failed() || !fields.may_call()) return fields;
  fields.tools_json = definitions_json(tools);
  if (fields.choice == ToolChoice::kRequired || fields.choice == ToolChoice::kNamed) {
    engine::GrammarSpec spec;
    spec.kind = engine::GrammarSpec::Kind::kToolCall;
    spec.tools_json = callable_json(tools, only);
    // A named function is called once; "required" may call several.
    spec.parallel_calls = fields.parallel && fields.choice == ToolChoice::kRequired;
    fields.grammar = std::move(spec);
  }
  return fields;
}

}  // namespace refrain::serve
