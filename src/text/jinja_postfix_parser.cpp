// What follows an operand: attributes, items, slices, calls, filters, tests; and targets of
// assignments. One parse, one thread.
#include <algorithm>

#include "base/str.h"
#include "text/jinja_expression_parser.h"
#include "text/jinja_parser.h"

namespace refrain::text::jinja {

Result<ExpressionPtr> ExpressionParser::postfix(ExpressionPtr subject) {
  while (true) {
    if (cursor_.at_operator(".")) {
      ASSIGN_OR_RETURN(subject, dotted(std::move(subject)));
    } else if (cursor_.at_operator("[")) {
      ASSIGN_OR_RETURN(subject, subscript(std::move(subject)));
    } else if (cursor_.at_operator("(")) {
      ASSIGN_OR_RETURN(subject, call(std::move(subject)));
    } else {
      return subject;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::dotted(ExpressionPtr subject) {
  ExpressionPtr node = make(ExpressionKind::kAttribute);
  cursor_.take();
  node->children.push_back(std::move(subject));
  if (cursor_.at(TokenKind::kInteger)) {  // list.0
    node->kind = ExpressionKind::kItem;
    ASSIGN_OR_RETURN(ExpressionPtr position, constant());
    node->children.push_back(std::move(position));
  } else {
    ASSIGN_OR_RETURN(node->name, cursor_.expect_any_name());
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::subscript(ExpressionPtr subject) {
  const Nesting nesting(*this);
  RETURN_IF_ERROR(nesting.check());
  ExpressionPtr node = make(ExpressionKind::kItem);
  cursor_.take();
  node->children.push_back(std::move(subject));
  const auto bound = [&]() -> Result<ExpressionPtr> {
    if (cursor_.at_operator(":") || cursor_.at_operator("]")) return ExpressionPtr();
    return expression();
  };
  if (cursor_.at_operator("]")) return cursor_.unexpected("an index");
  ASSIGN_OR_RETURN(ExpressionPtr first, bound());
  node->children.push_back(std::move(first));
  if (cursor_.at_operator(":")) {
    node->kind = ExpressionKind::kSlice;
    node->children.resize(4);
    for (std::size_t i = 2; i < 4 && cursor_.skip_operator(":"); ++i) {
      ASSIGN_OR_RETURN(node->children[i], bound());
    }
  }
  RETURN_IF_ERROR(cursor_.expect_operator("]"));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::call(ExpressionPtr callee) {
  ExpressionPtr node = make(ExpressionKind::kCall);
  node->children.push_back(std::move(callee));
  RETURN_IF_ERROR(arguments(*node));
  return finish(std::move(node));
}

Result<void> ExpressionParser::arguments(Expression& call) {
  const Nesting nesting(*this);
  RETURN_IF_ERROR(nesting.check());
  RETURN_IF_ERROR(cursor_.expect_operator("("));
  bool first = true;
  while (!cursor_.at_operator(")")) {
    if (!first) RETURN_IF_ERROR(cursor_.expect_operator(","));
    if (cursor_.at_operator(")")) break;
    first = false;
    if (cursor_.skip_operator("*")) {
      if (call.spread_list != nullptr) return cursor_.unexpected("one `*` argument");
      ASSIGN_OR_RETURN(call.spread_list, expression());
    } else if (cursor_.skip_operator("**")) {
      if (call.spread_keywords != nullptr) return cursor_.unexpected("one `**` argument");
      ASSIGN_OR_RETURN(call.spread_keywords, expression());
    } else if (cursor_.at(TokenKind::kName) && cursor_.next().kind == TokenKind::kOperator &&
               cursor_.next().text == "=") {
      std::string name = cursor_.take().text;
      cursor_.take();
      const bool twice = std::any_of(call.keywords.begin(), call.keywords.end(),
                                     [&](const auto& k) { return k.first == name; });
      if (twice) return syntax_error(cursor_.now().line, str_cat("argument `", name, "` twice"));
      ASSIGN_OR_RETURN(ExpressionPtr value, expression());
      call.keywords.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.keywords.empty() || call.spread_list != nullptr ||
          call.spread_keywords != nullptr) {
        return syntax_error(cursor_.now().line, "a positional argument behind a named one");
      }
      ASSIGN_OR_RETURN(ExpressionPtr value, expression());
      call.children.push_back(std::move(value));
    }
  }
  cursor_.take();
  return {};
}

Result<ExpressionPtr> ExpressionParser::filters(ExpressionPtr subject) {
  while (true) {
    if (cursor_.skip_operator("|")) {
      ASSIGN_OR_RETURN(subject, filter(std::move(subject)));
    } else if (cursor_.skip_name("is")) {
      ASSIGN_OR_RETURN(subject, test(std::move(subject)));
    } else if (cursor_.at_operator("(")) {
      ASSIGN_OR_RETURN(subject, call(std::move(subject)));
    } else {
      return subject;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::filter(ExpressionPtr subject) {
  ExpressionPtr node = make(ExpressionKind::kFilter);
  ASSIGN_OR_RETURN(node->name, cursor_.expect_any_name());
  node->filter = find_filter(node->name);
  if (node->filter == nullptr) {
    return syntax_error(node->line, str_cat("unknown filter `", node->name, "`"));
  }
  node->children.push_back(std::move(subject));
  if (cursor_.at_operator("(")) RETURN_IF_ERROR(arguments(*node));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::filter_chain() {
  ASSIGN_OR_RETURN(ExpressionPtr chain, filter(nullptr));
  while (cursor_.skip_operator("|")) {
    ASSIGN_OR_RETURN(chain, filter(std::move(chain)));
  }
  return chain;
}

Result<ExpressionPtr> ExpressionParser::test(ExpressionPtr subject) {
  ExpressionPtr node = make(ExpressionKind::kTest);
  const bool negated = cursor_.skip_name("not");
  ASSIGN_OR_RETURN(node->name, cursor_.expect_any_name());
  node->test = find_test(node->name);
  if (node->test == nullptr) {
    return syntax_error(node->line, str_cat("unknown test `", node->name, "`"));
  }
  node->children.push_back(std::move(subject));
  const LexToken& now = cursor_.now();
  const bool is_word =
      now.kind == TokenKind::kName && now.text != "else" && now.text != "or" && now.text != "and";
  const bool is_literal = now.kind == TokenKind::kString || now.kind == TokenKind::kInteger ||
                          now.kind == TokenKind::kFloat;
  if (cursor_.at_operator("(")) {
    RETURN_IF_ERROR(arguments(*node));
  } else if (is_word && now.text == "is") {
    return syntax_error(now.line, "two tests in a chain");
  } else if (is_word || is_literal || cursor_.at_operator("[") || cursor_.at_operator("{")) {
    ASSIGN_OR_RETURN(ExpressionPtr argument, primary());
    ASSIGN_OR_RETURN(argument, postfix(std::move(argument)));
    node->children.push_back(std::move(argument));
  }
  ASSIGN_OR_RETURN(node, finish(std::move(node)));
  if (!negated) return node;
  ExpressionPtr inverse = make(ExpressionKind::kNot);
  inverse->children.push_back(std::move(node));
  return finish(std::move(inverse));
}

Result<ExpressionPtr> ExpressionParser::target(bool allow_attribute) {
  const Nesting nesting(*this);
  RETURN_IF_ERROR(nesting.check());
  const auto one = [&]() -> Result<ExpressionPtr> {
    if (cursor_.skip_operator("(")) {
      ASSIGN_OR_RETURN(ExpressionPtr inner, target(allow_attribute));
      RETURN_IF_ERROR(cursor_.expect_operator(")"));
      return inner;
    }
    ASSIGN_OR_RETURN(ExpressionPtr node, plain_name());
    static constexpr std::string_view kReserved[] = {"true", "false", "none",
                                                     "True", "False", "None"};
    if (std::find(std::begin(kReserved), std::end(kReserved), node->name) != std::end(kReserved)) {
      return syntax_error(node->line, str_cat("cannot assign to `", node->name, "`"));
    }
    if (!allow_attribute || !cursor_.skip_operator(".")) return node;
    ExpressionPtr attribute = make(ExpressionKind::kAttribute);
    ASSIGN_OR_RETURN(attribute->name, cursor_.expect_any_name());
    attribute->children.push_back(std::move(node));
    return finish(std::move(attribute));
  };
  ExpressionPtr node = make(ExpressionKind::kTuple);
  ASSIGN_OR_RETURN(ExpressionPtr first, one());
  if (!cursor_.at_operator(",")) return first;
  node->children.push_back(std::move(first));
  while (cursor_.skip_operator(",")) {
    if (cursor_.at_name("in") || cursor_.at_operator("=") || cursor_.at_operator(")")) break;
    ASSIGN_OR_RETURN(ExpressionPtr next, one());
    node->children.push_back(std::move(next));
  }
  return finish(std::move(node));
}

}  // namespace refrain::text::jinja
