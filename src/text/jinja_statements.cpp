// Statements: output, branches, loops, assignments, macros. One render, one thread.
#include <algorithm>

#include "base/str.h"
#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"

namespace refrain::text::jinja {
namespace {

// Makes a new innermost scope and brings the old one back at the end.
class ScopeGuard {
 public:
  ScopeGuard(std::shared_ptr<Scope>& current, std::shared_ptr<Scope> parent)
      : current_(current), old_(current) {
    current_ = std::make_shared<Scope>(Scope{{}, std::move(parent)});
  }
  ~ScopeGuard() { current_ = std::move(old_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  std::shared_ptr<Scope>& current_;
  std::shared_ptr<Scope> old_;
};

}  // namespace

Result<Interpreter::Flow> Interpreter::execute(const Body& body) {
  const Depth depth(*this);
  RETURN_IF_ERROR(depth.check());
  for (const Statement& statement : body) {
    RETURN_IF_ERROR(charge(1));
    ASSIGN_OR_RETURN(const Flow flow, execute(statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Statement& statement) {
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kData:
      RETURN_IF_ERROR(write(*statement.text.as_text()));
      return Flow::kNext;
    case StatementKind::kOutput: {
      ASSIGN_OR_RETURN(const Value value, evaluate(*statement.expression));
      ASSIGN_OR_RETURN(const Text text, text_of(value));
      RETURN_IF_ERROR(write(text));
      return Flow::kNext;
    }
    case StatementKind::kIf:
      return execute_if(statement);
    case StatementKind::kFor:
      return execute_for(statement);
    case StatementKind::kSet:
      RETURN_IF_ERROR(execute_set(statement));
      return Flow::kNext;
    case StatementKind::kSetBlock:
      RETURN_IF_ERROR(execute_set_block(statement));
      return Flow::kNext;
    case StatementKind::kMacro:
      define_in_scope(statement.name, Value(define_macro(statement)));
      return Flow::kNext;
    case StatementKind::kCall:
      RETURN_IF_ERROR(execute_call(statement));
      return Flow::kNext;
    case StatementKind::kFilter:
      RETURN_IF_ERROR(execute_filter(statement));
      return Flow::kNext;
    case StatementKind::kWith:
      return execute_with(statement);
    case StatementKind::kScope:
      return execute_scoped(statement.body);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Result<void> Interpreter::write(const Text& text) {
  if (output_.size() + text.size() > limits_.max_output_bytes) {
    return wrong(
        str_cat("the rendered text is longer than ", format_bytes(limits_.max_output_bytes)));
  }
  RETURN_IF_ERROR(charge_bytes(text.size()));
  output_.append(text);
  return {};
}

Result<Interpreter::Flow> Interpreter::execute_scoped(const Body& body) {
  const ScopeGuard guard(scope_, scope_);
  return execute(body);
}

Result<Text> Interpreter::capture(const Body& body) {
  Text outer = std::exchange(output_, Text());
  const Result<Flow> flow = execute_scoped(body);
  Text captured = std::exchange(output_, std::move(outer));
  if (!flow.ok()) return flow.error();
  return captured;
}

Result<Interpreter::Flow> Interpreter::execute_if(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition != nullptr) {
      ASSIGN_OR_RETURN(const Value condition, evaluate(*branch.condition));
      if (!truth(condition)) continue;
    }
    return execute(branch.body);
  }
  return Flow::kNext;
}

Result<std::shared_ptr<const List>> Interpreter::loop_items(const Statement& statement) {
  ASSIGN_OR_RETURN(const Value iterable, evaluate(*statement.expression));
  ASSIGN_OR_RETURN(auto items, items_of(iterable));
  if (statement.condition == nullptr) return items;
  Values kept;
  for (const Value& item : items->items) {
    const ScopeGuard guard(scope_, scope_);
    RETURN_IF_ERROR(assign(*statement.target, item));
    ASSIGN_OR_RETURN(const Value condition, evaluate(*statement.condition));
    if (truth(condition)) kept.push_back(item);
  }
  ASSIGN_OR_RETURN(const Value list, make_list(std::move(kept)));
  return list.list_pointer();
}

Result<Interpreter::Flow> Interpreter::execute_for(const Statement& statement) {
  ASSIGN_OR_RETURN(const auto items, loop_items(statement));
  if (items->items.empty()) return execute_scoped(statement.else_body);
  if (items->depth >= kMaxValueDepth) return wrong("values nest too deep");
  const auto loop = std::make_shared<Loop>();
  loop->items = items;
  loop->nesting = loop_nesting_++;
  Result<Flow> flow = Flow::kNext;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    loop->index = i;
    const ScopeGuard guard(scope_, scope_);
    define_in_scope("loop", Value(std::shared_ptr<const Loop>(loop)));
    const Result<void> assigned = assign(*statement.target, items->items[i]);
    flow = assigned.ok() ? execute(statement.body) : Result<Flow>(assigned.error());
    if (!flow.ok() || *flow == Flow::kBreak) break;
  }
  --loop_nesting_;
  if (!flow.ok()) return flow;
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute_with(const Statement& statement) {
  Values values;
  for (const ExpressionPtr& value : statement.values) {
    ASSIGN_OR_RETURN(Value result, evaluate(*value));
    values.push_back(std::move(result));
  }
  const ScopeGuard guard(scope_, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    RETURN_IF_ERROR(assign(*statement.targets[i], values[i]));
  }
  return execute(statement.body);
}

Result<void> Interpreter::execute_set(const Statement& statement) {
  ASSIGN_OR_RETURN(const Value value, evaluate(*statement.expression));
  return assign(*statement.target, value);
}

Result<void> Interpreter::execute_set_block(const Statement& statement) {
  ASSIGN_OR_RETURN(Text text, capture(statement.body));
  ASSIGN_OR_RETURN(Value value, make_text(std::move(text)));
  if (statement.expression != nullptr) {
    ASSIGN_OR_RETURN(value, evaluate_filter(*statement.expression, &value));
  }
  return assign(*statement.target, value);
}

Result<void> Interpreter::execute_filter(const Statement& statement) {
  ASSIGN_OR_RETURN(Text text, capture(statement.body));
  ASSIGN_OR_RETURN(Value value, make_text(std::move(text)));
  ASSIGN_OR_RETURN(value, evaluate_filter(*statement.expression, &value));
  ASSIGN_OR_RETURN(const Text filtered, text_of(value));
  return write(filtered);
}

Result<void> Interpreter::execute_call(const Statement& statement) {
  const Expression& node = *statement.expression;
  ASSIGN_OR_RETURN(const Value callee, evaluate(*node.children[0]));
  ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(node));
  arguments.keywords.emplace_back("caller", Value(define_macro(statement)));
  ASSIGN_OR_RETURN(const Value result, call(callee, arguments));
  ASSIGN_OR_RETURN(const Text text, text_of(result));
  return write(text);
}

void Interpreter::define_in_scope(const std::string& name, Value value) {
  scope_->variables.insert_or_assign(name, std::move(value));
}

Result<void> Interpreter::assign(const Expression& target, const Value& value) {
  if (target.kind == ExpressionKind::kName) {
    define_in_scope(target.name, value);
    return {};
  }
  if (target.kind == ExpressionKind::kAttribute) {
    ASSIGN_OR_RETURN(const Value object, evaluate(*target.children[0]));
    Namespace* space = object.as_namespace();
    if (space == nullptr) {
      return wrong(
          str_cat("cannot set attribute `", target.name, "`: only namespaces can be changed"));
    }
    space->attributes.insert_or_assign(target.name, value);
    return {};
  }
  ASSIGN_OR_RETURN(const auto items, items_of(value));
  if (items->items.size() != target.children.size()) {
    return wrong(str_cat("cannot unpack ", items->items.size(), " values into ",
                         target.children.size(), " names"));
  }
  for (std::size_t i = 0; i < target.children.size(); ++i) {
    RETURN_IF_ERROR(assign(*target.children[i], items->items[i]));
  }
  return {};
}

const Macro* Interpreter::define_macro(const Statement& definition) {
  macros_.push_back(std::make_unique<Macro>(Macro{&definition, scope_}));
  return macros_.back().get();
}

Result<void> Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments) {
  const auto& parameters = macro.definition->parameters;
  const std::string& name = macro.definition->name;
  Values extra;
  Dict extra_keywords;
  for (std::size_t i = parameters.size(); i < arguments.positional.size(); ++i) {
    extra.push_back(arguments.positional[i]);
  }
  if (!extra.empty() && !macro.definition->uses_varargs) {
    return wrong(str_cat("macro `", name, "` takes ", parameters.size(), " arguments"));
  }
  std::vector<const Value*> given(parameters.size(), nullptr);
  for (std::size_t i = 0; i < std::min(parameters.size(), arguments.positional.size()); ++i) {
    given[i] = &arguments.positional[i];
  }
  for (const auto& [key, value] : arguments.keywords) {
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const Parameter& p) { return p.name == key; });
    if (found != parameters.end()) {
      const Value*& slot = given[static_cast<std::size_t>(found - parameters.begin())];
      if (slot != nullptr) return wrong(str_cat("macro `", name, "` got `", key, "` twice"));
      slot = &value;
    } else if (key == "caller") {
      define_in_scope("caller", value);
    } else if (macro.definition->uses_kwargs) {
      RETURN_IF_ERROR(put(extra_keywords, Value::text(key), value));
    } else {
      return wrong(str_cat("macro `", name, "` has no argument `", key, "`"));
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Value value = Value::undefined(str_cat("argument `", parameters[i].name, "` was not given"));
    if (given[i] != nullptr) {
      value = *given[i];
    } else if (parameters[i].default_value != nullptr) {
      ASSIGN_OR_RETURN(value, evaluate(*parameters[i].default_value));
    }
    define_in_scope(parameters[i].name, std::move(value));
  }
  if (macro.definition->uses_varargs) {
    ASSIGN_OR_RETURN(Value list, make_list(std::move(extra), true));
    define_in_scope("varargs", std::move(list));
  }
  if (macro.definition->uses_kwargs) {
    ASSIGN_OR_RETURN(Value dict, make_dict(std::move(extra_keywords)));
    define_in_scope("kwargs", std::move(dict));
  }
  return {};
}

Result<Value> Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  if (macro_depth_ >= limits_.max_depth) {
    return wrong(str_cat("macros call each other more than ", limits_.max_depth, " deep"));
  }
  ++macro_depth_;
  const ScopeGuard guard(scope_, macro.scope);
  const Result<void> bound = bind_parameters(macro, arguments);
  Text outer = std::exchange(output_, Text());
  const Result<Flow> flow =
      bound.ok() ? execute(macro.definition->body) : Result<Flow>(bound.error());
  Text text = std::exchange(output_, std::move(outer));
  --macro_depth_;
  if (!flow.ok()) return flow.error();
  return make_text(std::move(text));
}

}  // namespace refrain::text::jinja
