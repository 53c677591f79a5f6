// Expressions by precedence, lowest first: if/else, or, and, not, comparison, + -, ~, * / // %,
// **, sign, postfix, filters and tests. One parse, one thread.
#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/str.h"
#include "text/jinja_parser.h"

namespace refrain::text::jinja {

bool TokenCursor::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  take();
  return true;
}

bool TokenCursor::skip_operator(std::string_view op) {
  if (!at_operator(op)) return false;
  take();
  return true;
}

Error TokenCursor::unexpected(std::string_view wanted) const {
  std::string found = str_cat("`", now().text, "`");
  if (at(TokenKind::kEnd)) found = "the end of the template";
  if (at(TokenKind::kBlockEnd)) found = "`%}`";
  if (at(TokenKind::kOutputEnd)) found = "`}}`";
  return syntax_error(now().line, str_cat("expected ", wanted, ", found ", found));
}

Result<void> TokenCursor::expect_operator(std::string_view op) {
  if (!skip_operator(op)) return unexpected(str_cat("`", op, "`"));
  return {};
}

Result<void> TokenCursor::expect_name(std::string_view name) {
  if (!skip_name(name)) return unexpected(str_cat("`", name, "`"));
  return {};
}

Result<std::string> TokenCursor::expect_any_name() {
  if (!at(TokenKind::kName)) return unexpected("a name");
  return take().text;
}

Result<void> TokenCursor::expect(TokenKind kind, std::string_view what) {
  if (!at(kind)) return unexpected(what);
  take();
  return {};
}

Result<void> ExpressionParser::Nesting::check() const {
  if (parser_.depth_ <= parser_.max_depth_) return {};
  return syntax_error(parser_.cursor_.now().line,
                      str_cat("nested more than ", parser_.max_depth_, " levels deep"));
}

ExpressionPtr ExpressionParser::make(ExpressionKind kind) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = cursor_.now().line;
  return node;
}

Result<ExpressionPtr> ExpressionParser::finish(ExpressionPtr node) const {
  const auto raise = [&](const ExpressionPtr& child) {
    if (child != nullptr) node->height = std::max(node->height, child->height + 1);
  };
  for (const ExpressionPtr& child : node->children) raise(child);
  for (const auto& [name, child] : node->keywords) raise(child);
  raise(node->spread_list);
  raise(node->spread_keywords);
  if (node->height > kMaxExpressionHeight) {
    return syntax_error(node->line,
                        str_cat("an expression of more than ", kMaxExpressionHeight, " steps"));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::expression() {
  const Nesting nesting(*this);
  RETURN_IF_ERROR(nesting.check());
  ASSIGN_OR_RETURN(ExpressionPtr value, disjunction());
  while (cursor_.skip_name("if")) {
    ExpressionPtr node = make(ExpressionKind::kConditional);
    ASSIGN_OR_RETURN(ExpressionPtr condition, disjunction());
    ExpressionPtr other;
    if (cursor_.skip_name("else")) {
      ASSIGN_OR_RETURN(other, expression());
    }
    node->children.push_back(std::move(condition));
    node->children.push_back(std::move(value));
    node->children.push_back(std::move(other));
    ASSIGN_OR_RETURN(value, finish(std::move(node)));
  }
  return value;
}

Result<ExpressionPtr> ExpressionParser::without_condition() {
  const Nesting nesting(*this);
  RETURN_IF_ERROR(nesting.check());
  return disjunction();
}

Result<ExpressionPtr> ExpressionParser::disjunction() {
  ASSIGN_OR_RETURN(ExpressionPtr left, conjunction());
  while (cursor_.skip_name("or")) {
    ExpressionPtr node = make(ExpressionKind::kOr);
    ASSIGN_OR_RETURN(ExpressionPtr right, conjunction());
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, finish(std::move(node)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::conjunction() {
  ASSIGN_OR_RETURN(ExpressionPtr left, negation());
  while (cursor_.skip_name("and")) {
    ExpressionPtr node = make(ExpressionKind::kAnd);
    ASSIGN_OR_RETURN(ExpressionPtr right, negation());
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, finish(std::move(node)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::negation() {
  if (!cursor_.at_name("not")) return comparison();
  const Nesting nesting(*this);
  RETURN_IF_ERROR(nesting.check());
  ExpressionPtr node = make(ExpressionKind::kNot);
  cursor_.take();
  ASSIGN_OR_RETURN(ExpressionPtr operand, negation());
  node->children.push_back(std::move(operand));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, Operator> kComparisons[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
  ASSIGN_OR_RETURN(ExpressionPtr first, sum());
  ExpressionPtr node = make(ExpressionKind::kCompare);
  node->children.push_back(std::move(first));
  while (true) {
    const auto* found = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                     [&](const auto& c) { return cursor_.at_operator(c.first); });
    if (found != std::end(kComparisons)) {
      cursor_.take();
      node->operators.push_back(found->second);
    } else if (cursor_.skip_name("in")) {
      node->operators.push_back(Operator::kIn);
    } else if (cursor_.at_name("not") && cursor_.next().kind == TokenKind::kName &&
               cursor_.next().text == "in") {
      cursor_.take();
      cursor_.take();
      node->operators.push_back(Operator::kNotIn);
    } else {
      break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr operand, sum());
    node->children.push_back(std::move(operand));
  }
  if (node->operators.empty()) return std::move(node->children.front());
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::binary_chain(
    Result<ExpressionPtr> (ExpressionParser::*operand)(),
    std::initializer_list<std::pair<std::string_view, Operator>> ops) {
  ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
  while (true) {
    const auto* found = std::find_if(ops.begin(), ops.end(),
                                     [&](const auto& op) { return cursor_.at_operator(op.first); });
    if (found == ops.end()) return left;
    ExpressionPtr node = make(ExpressionKind::kBinary);
    cursor_.take();
    node->operators.push_back(found->second);
    ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, finish(std::move(node)));
  }
}

Result<ExpressionPtr> ExpressionParser::sum() {
  return binary_chain(&ExpressionParser::concatenation,
                      {{"+", Operator::kAdd}, {"-", Operator::kSubtract}});
}

Result<ExpressionPtr> ExpressionParser::concatenation() {
  ASSIGN_OR_RETURN(ExpressionPtr first, product());
  if (!cursor_.at_operator("~")) return first;
  ExpressionPtr node = make(ExpressionKind::kConcat);
  node->children.push_back(std::move(first));
  while (cursor_.skip_operator("~")) {
    ASSIGN_OR_RETURN(ExpressionPtr operand, product());
    node->children.push_back(std::move(operand));
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::product() {
  return binary_chain(&ExpressionParser::power, {{"*", Operator::kMultiply},
                                                 {"/", Operator::kDivide},
                                                 {"//", Operator::kFloorDivide},
                                                 {"%", Operator::kModulo}});
}

Result<ExpressionPtr> ExpressionParser::power() {
  ASSIGN_OR_RETURN(ExpressionPtr left, unary(true));
  while (cursor_.at_operator("**")) {
    ExpressionPtr node = make(ExpressionKind::kBinary);
    cursor_.take();
    node->operators.push_back(Operator::kPower);
    ASSIGN_OR_RETURN(ExpressionPtr right, unary(true));
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, finish(std::move(node)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::unary(bool with_filters) {
  ExpressionPtr node;
  if (cursor_.at_operator("-") || cursor_.at_operator("+")) {
    const Nesting nesting(*this);
    RETURN_IF_ERROR(nesting.check());
    node = make(cursor_.at_operator("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive);
    cursor_.take();
    ASSIGN_OR_RETURN(ExpressionPtr operand, unary(false));
    node->children.push_back(std::move(operand));
    ASSIGN_OR_RETURN(node, finish(std::move(node)));
  } else {
    ASSIGN_OR_RETURN(node, primary());
  }
  ASSIGN_OR_RETURN(node, postfix(std::move(node)));
  if (!with_filters) return node;
  return filters(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::constant() {
  ExpressionPtr node = make(ExpressionKind::kConstant);
  const LexToken& token = cursor_.take();
  if (token.kind == TokenKind::kString) {
    std::string text = token.text;  // strings that follow each other are one
    while (cursor_.at(TokenKind::kString)) text += cursor_.take().text;
    node->constant = Value::text(text);
    return node;
  }
  if (token.kind == TokenKind::kFloat) {
    node->constant = Value::real(std::strtod(token.text.c_str(), nullptr));
    return node;
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10) digits.remove_prefix(2);
  }
  std::int64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) {
    return syntax_error(node->line, str_cat("`", token.text, "` is no 64-bit integer"));
  }
  node->constant = Value::integer(number);
  return node;
}

Result<ExpressionPtr> ExpressionParser::plain_name() {
  ExpressionPtr node = make(ExpressionKind::kName);
  ASSIGN_OR_RETURN(node->name, cursor_.expect_any_name());
  return node;
}

Result<ExpressionPtr> ExpressionParser::primary() {
  switch (cursor_.now().kind) {
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return constant();
    case TokenKind::kOperator:
      return brackets();
    case TokenKind::kName:
      break;
    default:
      return cursor_.unexpected("an expression");
  }
  ASSIGN_OR_RETURN(ExpressionPtr node, plain_name());
  const std::string& name = node->name;
  node->kind = ExpressionKind::kConstant;
  if (name == "true" || name == "True") {
    node->constant = Value::boolean(true);
  } else if (name == "false" || name == "False") {
    node->constant = Value::boolean(false);
  } else if (name == "none" || name == "None") {
    node->constant = Value::none();
  } else {
    node->kind = ExpressionKind::kName;
    names_.insert(name);
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::brackets() {
  const Nesting nesting(*this);
  RETURN_IF_ERROR(nesting.check());
  if (cursor_.at_operator("{")) return dict_literal();
  if (cursor_.skip_operator("(")) {
    if (cursor_.at_operator(")")) {
      ExpressionPtr empty = make(ExpressionKind::kTuple);
      cursor_.take();
      return empty;
    }
    ASSIGN_OR_RETURN(ExpressionPtr inner, tuple(true));
    RETURN_IF_ERROR(cursor_.expect_operator(")"));
    return inner;
  }
  if (!cursor_.at_operator("[")) return cursor_.unexpected("an expression");
  ExpressionPtr list = make(ExpressionKind::kList);
  cursor_.take();
  while (!cursor_.at_operator("]")) {
    if (!list->children.empty()) RETURN_IF_ERROR(cursor_.expect_operator(","));
    if (cursor_.at_operator("]")) break;
    ASSIGN_OR_RETURN(ExpressionPtr item, expression());
    list->children.push_back(std::move(item));
  }
  cursor_.take();
  return finish(std::move(list));
}

Result<ExpressionPtr> ExpressionParser::dict_literal() {
  ExpressionPtr dict = make(ExpressionKind::kDict);
  cursor_.take();
  while (!cursor_.at_operator("}")) {
    if (!dict->children.empty()) RETURN_IF_ERROR(cursor_.expect_operator(","));
    if (cursor_.at_operator("}")) break;
    ASSIGN_OR_RETURN(ExpressionPtr key, expression());
    RETURN_IF_ERROR(cursor_.expect_operator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, expression());
    dict->children.push_back(std::move(key));
    dict->children.push_back(std::move(value));
  }
  cursor_.take();
  return finish(std::move(dict));
}

Result<ExpressionPtr> ExpressionParser::tuple(bool with_condition, std::string_view stop) {
  const auto at_end = [&] {
    return cursor_.at(TokenKind::kBlockEnd) || cursor_.at(TokenKind::kOutputEnd) ||
           cursor_.at_operator(")") || (!stop.empty() && cursor_.at_name(stop));
  };
  ExpressionPtr node = make(ExpressionKind::kTuple);
  ASSIGN_OR_RETURN(ExpressionPtr first, with_condition ? expression() : without_condition());
  if (!cursor_.at_operator(",")) return first;
  node->children.push_back(std::move(first));
  while (cursor_.skip_operator(",")) {
    if (at_end()) break;
    ASSIGN_OR_RETURN(ExpressionPtr item, with_condition ? expression() : without_condition());
    node->children.push_back(std::move(item));
  }
  return finish(std::move(node));
}

}  // namespace refrain::text::jinja
