// Cases from JSON lines. Any thread.
#include "cli/reuse_cases.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/str.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kEarlierQuestion = "What are these documents about?";

Messages recombined_messages(const RecombinedSource& source, const std::vector<std::size_t>& order,
                             std::string_view question) {
  std::string content;
  for (const std::size_t index : order) content += source.documents[index] + "\n\n";
  content += question;
  Messages messages;
  if (!source.system.empty()) messages.push_back({.role = "system", .content = source.system});
  messages.push_back({.role = "user", .content = std::move(content)});
  return messages;
}

Error bad(std::string message) {
  return Error{Code::kInvalidArgument, std::move(message)};
}

Result<std::string> text_of(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) {
    return bad(str_cat("there is no \"", name, "\""));
  }
  if (!object.at(name).is_string()) return bad(str_cat("\"", name, "\" is not text"));
  return object.at(name).get<std::string>();
}

Result<Json> list_of(const Json& line, const char* name) {
  if (!line.contains(name)) return bad(str_cat("there is no \"", name, "\""));
  if (!line.at(name).is_array() || line.at(name).empty()) {
    return bad(str_cat("\"", name, "\" is not a list with something in it"));
  }
  return line.at(name);
}

Result<Messages> messages_in(const Json& list) {
  Messages messages;
  for (const Json& message : list) {
    ASSIGN_OR_RETURN(std::string role, text_of(message, "role"));
    ASSIGN_OR_RETURN(std::string content, text_of(message, "content"));
    messages.push_back({.role = std::move(role), .content = std::move(content)});
  }
  return messages;
}

Result<Messages> messages_of(const Json& line, const char* name) {
  ASSIGN_OR_RETURN(const Json list, list_of(line, name));
  return messages_in(list);
}

Result<std::vector<std::size_t>> order_of(const Json& list, std::size_t document_count) {
  if (!list.is_array()) return bad("an entry of \"warm_orders\" is not a list");
  std::vector<std::size_t> order;
  for (const Json& index : list) {
    if (!index.is_number_unsigned() || index.get<std::size_t>() >= document_count) {
      return bad("\"warm_orders\" names a document that does not exist; they count from 0");
    }
    order.push_back(index.get<std::size_t>());
  }
  return order;
}

Result<ReuseCase> edited_of(const Json& line) {
  ReuseCase made{.kind = ReuseKind::kEdited, .warm = {}, .target = {}};
  ASSIGN_OR_RETURN(Messages before, messages_of(line, "messages"));
  made.warm.push_back(std::move(before));
  ASSIGN_OR_RETURN(made.target, messages_of(line, "edited_messages"));
  return made;
}

Result<ReuseCase> recombined_of(const Json& line) {
  RecombinedSource source;
  if (line.contains("system")) {
    ASSIGN_OR_RETURN(source.system, text_of(line, "system"));
  }
  ASSIGN_OR_RETURN(const Json documents, list_of(line, "documents"));
  for (const Json& document : documents) {
    if (!document.is_string()) return bad("a document is not text");
    source.documents.push_back(document.get<std::string>());
  }
  ASSIGN_OR_RETURN(const Json orders, list_of(line, "warm_orders"));
  for (const Json& order : orders) {
    ASSIGN_OR_RETURN(auto indices, order_of(order, source.documents.size()));
    source.warm_orders.push_back(std::move(indices));
  }
  ASSIGN_OR_RETURN(source.question, text_of(line, "question"));
  return recombined_case(source);
}

// Of any kind, request by request.
Result<ReuseCase> written_out(const Json& line) {
  ASSIGN_OR_RETURN(const std::string name, text_of(line, "kind"));
  const auto kind =
      std::ranges::find_if(kReuseKinds, [&](ReuseKind each) { return name_of(each) == name; });
  if (kind == std::end(kReuseKinds)) return bad("\"kind\" is none of those that there are");
  ReuseCase made{.kind = *kind, .warm = {}, .target = {}};
  ASSIGN_OR_RETURN(const Json warm, list_of(line, "warm"));
  for (const Json& list : warm) {
    if (!list.is_array() || list.empty()) return bad("an entry of \"warm\" is not a list");
    ASSIGN_OR_RETURN(Messages messages, messages_in(list));
    made.warm.push_back(std::move(messages));
  }
  ASSIGN_OR_RETURN(made.target, messages_of(line, "target"));
  if (made.kind == ReuseKind::kChanged) {
    ChangedValue& changed = made.changed.emplace();
    ASSIGN_OR_RETURN(changed.before, messages_of(line, "before"));
    ASSIGN_OR_RETURN(changed.old_value, text_of(line, "old_value"));
    ASSIGN_OR_RETURN(changed.new_value, text_of(line, "new_value"));
  }
  if (made.kind == ReuseKind::kCopied) {
    ASSIGN_OR_RETURN(made.passage, text_of(line, "passage"));
  }
  if (made.kind == ReuseKind::kNextTurn) {
    ASSIGN_OR_RETURN(made.first_turn, messages_of(line, "first_turn"));
  }
  return made;
}

Json list_json(const Messages& messages) {
  Json list = Json::array();
  for (const text::ChatMessage& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return list;
}

Result<ReuseCase> case_of(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return bad("not valid JSON");
  if (!json.is_object()) return bad("not a JSON object");
  if (json.contains("kind")) return written_out(json);
  if (json.contains("messages")) return edited_of(json);
  if (json.contains("documents")) return recombined_of(json);
  return bad("there is neither \"documents\" nor \"messages\"");
}

}  // namespace

std::string_view name_of(ReuseKind kind) {
  switch (kind) {
    case ReuseKind::kRecombined:
      return "recombined";
    case ReuseKind::kEdited:
      return "edited";
    case ReuseKind::kChanged:
      return "changed";
    case ReuseKind::kCopied:
      return "copied";
    case ReuseKind::kNextTurn:
      return "next_turn";
  }
  return "";
}

ReuseCase recombined_case(const RecombinedSource& source) {
  ReuseCase made;
  for (const auto& order : source.warm_orders) {
    made.warm.push_back(recombined_messages(source, order, kEarlierQuestion));
  }
  std::vector<std::size_t> order(source.documents.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  made.target = recombined_messages(source, order, source.question);
  return made;
}

std::string case_line(const ReuseCase& one) {
  Json warm = Json::array();
  for (const Messages& messages : one.warm) warm.push_back(list_json(messages));
  Json line = {
      {"kind", name_of(one.kind)}, {"warm", std::move(warm)}, {"target", list_json(one.target)}};
  if (one.changed) {
    line["before"] = list_json(one.changed->before);
    line["old_value"] = one.changed->old_value;
    line["new_value"] = one.changed->new_value;
  }
  if (one.kind == ReuseKind::kCopied) line["passage"] = one.passage;
  if (one.kind == ReuseKind::kNextTurn) line["first_turn"] = list_json(one.first_turn);
  return line.dump();
}

Result<std::vector<ReuseCase>> parse_reuse_cases(std::string_view text) {
  std::vector<ReuseCase> cases;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Result<ReuseCase> one = case_of(line);
    if (!one.ok()) {
      return Error{Code::kInvalidArgument, str_cat("line ", number, ": ", one.error().message),
                   "docs/reference/reuse-error.md shows what a line holds", "--data"};
    }
    cases.push_back(std::move(one).value());
  }
  if (cases.empty()) {
    return Error{Code::kInvalidArgument, "the file has no cases", "one JSON object a line",
                 "--data"};
  }
  return cases;
}

}  // namespace refrain::cli
