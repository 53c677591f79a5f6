// TokenCursor and ExpressionParser: the halves of the parser that statements build on. Recursive
// descent with Jinja2's precedence; nesting and height are bounded. One parse, one thread.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace refrain::text::jinja {

class TokenCursor {
 public:
  explicit TokenCursor(std::vector<LexToken> tokens) : tokens_(std::move(tokens)) {}

  const LexToken& now() const { return tokens_[at_]; }
  const LexToken& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const LexToken& take() {
    const LexToken& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at(TokenKind kind) const { return now().kind == kind; }
  bool at_name(std::string_view name) const { return at(TokenKind::kName) && now().text == name; }
  bool at_operator(std::string_view op) const {
    return at(TokenKind::kOperator) && now().text == op;
  }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  Result<void> expect_operator(std::string_view op);
  Result<void> expect_name(std::string_view name);
  Result<std::string> expect_any_name();
  Result<void> expect(TokenKind kind, std::string_view what);
  // "expected X, found Y" at the current line.
  Error unexpected(std::string_view wanted) const;

 private:
  std::vector<LexToken> tokens_;
  std::size_t at_ = 0;
};

class ExpressionParser {
 public:
  ExpressionParser(TokenCursor& cursor, std::size_t max_depth)
      : cursor_(cursor), max_depth_(max_depth) {}

  Result<ExpressionPtr> expression();         // with inline if
  Result<ExpressionPtr> without_condition();  // without: "for x in HERE if ..."
  // One expression, or a tuple where commas follow. `stop` ends a tuple ("in").
  Result<ExpressionPtr> tuple(bool with_condition, std::string_view stop = {});
  // Name, namespace attribute (if allowed) or tuple of names.
  Result<ExpressionPtr> target(bool allow_attribute);
  Result<ExpressionPtr> plain_name();
  // A chain of filters without subject: "upper|trim". The innermost child 0 is null.
  Result<ExpressionPtr> filter_chain();

  // Counts one level of nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Result<void> check() const;

   private:
    ExpressionParser& parser_;
  };

  std::set<std::string, std::less<>>& names() { return names_; }

 private:
  Result<ExpressionPtr> disjunction();
  Result<ExpressionPtr> conjunction();
  Result<ExpressionPtr> negation();
  Result<ExpressionPtr> comparison();
  Result<ExpressionPtr> sum();
  Result<ExpressionPtr> concatenation();
  Result<ExpressionPtr> product();
  Result<ExpressionPtr> power();
  Result<ExpressionPtr> unary(bool with_filters);
  Result<ExpressionPtr> primary();
  Result<ExpressionPtr> constant();
  Result<ExpressionPtr> brackets();
  Result<ExpressionPtr> dict_literal();
  Result<ExpressionPtr> postfix(ExpressionPtr subject);
  Result<ExpressionPtr> subscript(ExpressionPtr subject);
  Result<ExpressionPtr> dotted(ExpressionPtr subject);
  Result<ExpressionPtr> call(ExpressionPtr callee);
  Result<ExpressionPtr> filters(ExpressionPtr subject);
  Result<ExpressionPtr> filter(ExpressionPtr subject);
  Result<ExpressionPtr> test(ExpressionPtr subject);
  Result<void> arguments(Expression& call);
  Result<ExpressionPtr> binary_chain(
      Result<ExpressionPtr> (ExpressionParser::*operand)(),
      std::initializer_list<std::pair<std::string_view, Operator>> ops);

  ExpressionPtr make(ExpressionKind kind) const;
  // Sets the height from the children; an error if it is too high.
  Result<ExpressionPtr> finish(ExpressionPtr node) const;

  TokenCursor& cursor_;
  std::size_t max_depth_;
  std::size_t depth_ = 0;
  std::set<std::string, std::less<>> names_;
};

}  // namespace refrain::text::jinja
