// Expressions: one small method per kind of node, so that recursion needs little stack. One
// render, one thread.
#include "text/jinja_interpreter.h"

#include "base/str.h"

namespace refrain::text::jinja {
namespace {

constexpr std::size_t kMaxRunDepth = 600;  // nested evaluations, over all macro calls

}  // namespace

Result<void> Interpreter::Depth::check() const {
  if (interpreter_.depth_ <= kMaxRunDepth) return {};
  return Error{Code::kInvalidArgument,
               str_cat("evaluation nests more than ", kMaxRunDepth, " levels deep")};
}

Interpreter::Interpreter(const TemplateLimits& limits, std::int64_t now_unix_s)
    : limits_(limits), now_unix_s_(now_unix_s), scope_(std::make_shared<Scope>()) {
  define("range", Value(Builtin::kRange));
  define("dict", Value(Builtin::kDict));
  define("namespace", Value(Builtin::kNamespace));
  define("raise_exception", Value(Builtin::kRaiseException));
  define("strftime_now", Value(Builtin::kStrftimeNow));
}

void Interpreter::define(const std::string& name, Value value) {
  scope_->variables.insert_or_assign(name, std::move(value));
}

Result<Text> Interpreter::run(const Template& parsed) {
  // Sets of the template itself do not overwrite what the caller defined.
  scope_ = std::make_shared<Scope>(Scope{{}, scope_});
  const Result<Flow> result = execute(parsed.body);
  if (result.ok()) return std::move(output_);
  Error error = result.error();
  if (!refused_) error.message = str_cat("chat template, line ", line_, ": ", error.message);
  return error;
}

Result<void> Interpreter::charge(std::size_t steps) {
  steps_ += steps;
  if (steps_ <= limits_.max_steps) return {};
  return Error{Code::kInvalidArgument,
               str_cat("rendering takes more than ", limits_.max_steps, " steps"),
               "the template loops too long, or the conversation is too long for it"};
}

Result<Value> Interpreter::make_text(Text text) {
  if (text.size() > limits_.max_output_bytes) {
    return Error{Code::kInvalidArgument,
                 str_cat("a text of more than ", format_bytes(limits_.max_output_bytes))};
  }
  RETURN_IF_ERROR(charge_bytes(text.size()));
  return Value::text(std::move(text));
}

Result<Text> Interpreter::text_of(const Value& value) {
  RETURN_IF_ERROR(charge(value.weight()));
  return to_text(value);
}

Result<void> Interpreter::put(Dict& dict, const Value& key, Value value) {
  if (!is_hashable(key)) {
    return Error{Code::kInvalidArgument, str_cat("a `", type_name(key), "` cannot be a key")};
  }
  RETURN_IF_ERROR(charge(key.as_text() != nullptr ? 1 : dict.entries.size() / 16 + 1));
  dict.set(key, std::move(value));
  return {};
}

Result<Value> Interpreter::evaluate(const Expression& node) {
  const Depth depth(*this);
  RETURN_IF_ERROR(depth.check());
  RETURN_IF_ERROR(charge(1));
  line_ = node.line;
  return evaluate_kind(node);
}

Result<Value> Interpreter::evaluate_kind(const Expression& node) {
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return evaluate_name(node);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return evaluate_sequence(node);
    case ExpressionKind::kDict:
      return evaluate_dict(node);
    case ExpressionKind::kAttribute:
    case ExpressionKind::kItem:
      return evaluate_item(node);
    case ExpressionKind::kSlice:
      return evaluate_slice(node);
    case ExpressionKind::kCall:
      return evaluate_call(node);
    case ExpressionKind::kFilter:
      return evaluate_filter(node, nullptr);
    case ExpressionKind::kTest:
      return evaluate_test(node);
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive:
      return evaluate_sign(node);
    case ExpressionKind::kNot:
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return evaluate_logic(node);
    case ExpressionKind::kBinary:
      return evaluate_binary(node);
    case ExpressionKind::kCompare:
      return evaluate_compare(node);
    case ExpressionKind::kConcat:
      return evaluate_concat(node);
    case ExpressionKind::kConditional:
      return evaluate_conditional(node);
  }
  return Value();
}

Result<Value> Interpreter::evaluate_name(const Expression& node) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    const auto found = scope->variables.find(node.name);
    if (found != scope->variables.end()) return found->second;
  }
  return Value::undefined(str_cat("`", node.name, "` is undefined"));
}

Result<Value> Interpreter::evaluate_sequence(const Expression& node) {
  Values items;
  items.reserve(node.children.size());
  for (const ExpressionPtr& child : node.children) {
    ASSIGN_OR_RETURN(Value item, evaluate(*child));
    items.push_back(std::move(item));
  }
  return make_list(std::move(items), node.kind == ExpressionKind::kTuple);
}

Result<Value> Interpreter::evaluate_dict(const Expression& node) {
  Dict dict;
  for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
    ASSIGN_OR_RETURN(const Value key, evaluate(*node.children[i]));
    ASSIGN_OR_RETURN(Value value, evaluate(*node.children[i + 1]));
    RETURN_IF_ERROR(put(dict, key, std::move(value)));
  }
  return make_dict(std::move(dict));
}

Result<Value> Interpreter::evaluate_item(const Expression& node) {
  ASSIGN_OR_RETURN(const Value subject, evaluate(*node.children[0]));
  if (node.kind == ExpressionKind::kAttribute) return attribute(subject, node.name);
  ASSIGN_OR_RETURN(const Value key, evaluate(*node.children[1]));
  return item(subject, key);
}

Result<Value> Interpreter::evaluate_slice(const Expression& node) {
  Value bounds[4];
  for (std::size_t i = 0; i < 4; ++i) {
    bounds[i] = Value::none();
    if (node.children[i] == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], evaluate(*node.children[i]));
  }
  return slice(bounds[0], bounds[1], bounds[2], bounds[3]);
}

Result<Arguments> Interpreter::evaluate_arguments(const Expression& node) {
  Arguments out;
  for (std::size_t i = 1; i < node.children.size(); ++i) {
    ASSIGN_OR_RETURN(Value value, evaluate(*node.children[i]));
    out.positional.push_back(std::move(value));
  }
  for (const auto& [name, child] : node.keywords) {
    ASSIGN_OR_RETURN(Value value, evaluate(*child));
    out.keywords.emplace_back(name, std::move(value));
  }
  if (node.spread_list != nullptr) {
    ASSIGN_OR_RETURN(const Value list, evaluate(*node.spread_list));
    ASSIGN_OR_RETURN(const auto items, items_of(list));
    out.positional.insert(out.positional.end(), items->items.begin(), items->items.end());
  }
  if (node.spread_keywords != nullptr) {
    ASSIGN_OR_RETURN(const Value mapping, evaluate(*node.spread_keywords));
    const Dict* dict = mapping.as_dict();
    if (dict == nullptr) return Error{Code::kInvalidArgument, "`**` needs a mapping"};
    RETURN_IF_ERROR(charge(dict->entries.size()));
    for (const auto& [key, value] : dict->entries) {
      if (key.as_text() == nullptr) return Error{Code::kInvalidArgument, "`**` needs text keys"};
      out.keywords.emplace_back(key.as_text()->bytes(), value);
    }
  }
  return out;
}

Result<Value> Interpreter::evaluate_call(const Expression& node) {
  ASSIGN_OR_RETURN(const Value callee, evaluate(*node.children[0]));
  ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(node));
  line_ = node.line;
  return call(callee, arguments);
}

Result<Value> Interpreter::evaluate_filter(const Expression& node, const Value* innermost) {
  Value subject;
  const Expression* inner = node.children[0].get();
  if (inner == nullptr) {
    subject = *innermost;
  } else if (innermost != nullptr) {
    ASSIGN_OR_RETURN(subject, evaluate_filter(*inner, innermost));
  } else {
    ASSIGN_OR_RETURN(subject, evaluate(*inner));
  }
  ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(node));
  line_ = node.line;
  return node.filter(*this, subject, arguments);
}

Result<Value> Interpreter::evaluate_test(const Expression& node) {
  ASSIGN_OR_RETURN(const Value subject, evaluate(*node.children[0]));
  ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(node));
  ASSIGN_OR_RETURN(const bool holds, node.test(*this, subject, arguments));
  return Value::boolean(holds);
}

Result<Value> Interpreter::evaluate_sign(const Expression& node) {
  ASSIGN_OR_RETURN(const Value operand, evaluate(*node.children[0]));
  const bool negative = node.kind == ExpressionKind::kNegative;
  if (!operand.is_number()) {
    return Error{Code::kInvalidArgument,
                 str_cat("a sign in front of a `", type_name(operand), "`")};
  }
  if (!operand.is_integral()) {
    return Value::real(negative ? -operand.to_double() : operand.to_double());
  }
  if (!negative) return Value::integer(operand.to_integer());
  return binary(Operator::kSubtract, Value::integer(0), operand);
}

Result<Value> Interpreter::evaluate_logic(const Expression& node) {
  ASSIGN_OR_RETURN(Value left, evaluate(*node.children[0]));
  const bool holds = truth(left);
  if (node.kind == ExpressionKind::kNot) return Value::boolean(!holds);
  if (holds == (node.kind == ExpressionKind::kOr)) return left;
  return evaluate(*node.children[1]);
}

Result<Value> Interpreter::evaluate_binary(const Expression& node) {
  ASSIGN_OR_RETURN(const Value left, evaluate(*node.children[0]));
  ASSIGN_OR_RETURN(const Value right, evaluate(*node.children[1]));
  line_ = node.line;
  return binary(node.operators[0], left, right);
}

Result<Value> Interpreter::evaluate_compare(const Expression& node) {
  ASSIGN_OR_RETURN(Value left, evaluate(*node.children[0]));
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, evaluate(*node.children[i + 1]));
    ASSIGN_OR_RETURN(const bool holds, compares(node.operators[i], left, right));
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::evaluate_concat(const Expression& node) {
  Text joined;
  for (const ExpressionPtr& child : node.children) {
    ASSIGN_OR_RETURN(const Value operand, evaluate(*child));
    ASSIGN_OR_RETURN(const Text piece, text_of(operand));
    joined.append(piece);
    if (joined.size() > limits_.max_output_bytes) break;
  }
  return make_text(std::move(joined));
}

Result<Value> Interpreter::evaluate_conditional(const Expression& node) {
  ASSIGN_OR_RETURN(const Value condition, evaluate(*node.children[0]));
  if (truth(condition)) return evaluate(*node.children[1]);
  if (node.children[2] != nullptr) return evaluate(*node.children[2]);
  return Value::undefined("an inline `if` without `else` was false");
}

}  // namespace refrain::text::jinja
