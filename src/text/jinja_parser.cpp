// Statements: {% if %}, {% for %}, {% set %} ... One parse, one thread.
#include "text/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/str.h"
#include "text/jinja_expression_parser.h"

namespace refrain::text::jinja {
namespace {

class StatementParser {
 public:
  StatementParser(std::vector<LexToken> tokens, std::size_t max_depth)
      : cursor_(std::move(tokens)), expressions_(cursor_, max_depth) {}

  Result<Template> run() {
    Template parsed;
    ASSIGN_OR_RETURN(parsed.body, body({}));
    parsed.names.assign(expressions_.names().begin(), expressions_.names().end());
    return parsed;
  }

 private:
  // Statements up to {% one of `ends`, which stays the current token; to the end if empty.
  Result<Body> body(std::initializer_list<std::string_view> ends) {
    const ExpressionParser::Nesting nesting(expressions_);
    RETURN_IF_ERROR(nesting.check());
    const std::uint32_t began = cursor_.now().line;
    Body out;
    while (!cursor_.at(TokenKind::kEnd)) {
      if (cursor_.at(TokenKind::kData)) {
        Statement data = make(StatementKind::kData);
        data.text = Value::text(cursor_.take().text);
        out.push_back(std::move(data));
      } else if (cursor_.at(TokenKind::kOutputBegin)) {
        cursor_.take();
        Statement output = make(StatementKind::kOutput);
        ASSIGN_OR_RETURN(output.expression, expressions_.tuple(true));
        RETURN_IF_ERROR(cursor_.expect(TokenKind::kOutputEnd, "`}}`"));
        out.push_back(std::move(output));
      } else {
        cursor_.take();  // {%
        const bool ended = std::any_of(ends.begin(), ends.end(),
                                       [&](std::string_view end) { return cursor_.at_name(end); });
        if (ended) return out;
        ASSIGN_OR_RETURN(Statement next, statement());
        out.push_back(std::move(next));
      }
    }
    if (ends.size() > 0) {
      return syntax_error(began, str_cat("a block without `{% ", *(ends.end() - 1), " %}`"));
    }
    return out;
  }

  Statement make(StatementKind kind) const {
    Statement out;
    out.kind = kind;
    out.line = cursor_.now().line;
    return out;
  }
  Result<void> end_tag() { return cursor_.expect(TokenKind::kBlockEnd, "`%}`"); }

  // %} body {% endNAME %}
  Result<Body> body_until(std::string_view end) {
    RETURN_IF_ERROR(end_tag());
    ASSIGN_OR_RETURN(Body out, body({end}));
    cursor_.take();
    RETURN_IF_ERROR(end_tag());
    return out;
  }
  // The same for bodies that break and continue may not leave.
  Result<Body> closed_body_until(std::string_view end) {
    const int loops = std::exchange(loop_depth_, 0);
    Result<Body> out = body_until(end);
    loop_depth_ = loops;
    return out;
  }

  Result<Statement> statement() {
    using Parse = Result<Statement> (StatementParser::*)();
    static constexpr std::pair<std::string_view, Parse> kStatements[] = {
        {"if", &StatementParser::parse_if},      {"for", &StatementParser::parse_for},
        {"set", &StatementParser::parse_set},    {"macro", &StatementParser::parse_macro},
        {"call", &StatementParser::parse_call},  {"filter", &StatementParser::parse_filter},
        {"with", &StatementParser::parse_with},  {"generation", &StatementParser::parse_generation},
        {"break", &StatementParser::parse_jump}, {"continue", &StatementParser::parse_jump}};
    for (const auto& [name, parse] : kStatements) {
      if (cursor_.at_name(name)) return (this->*parse)();
    }
    if (!cursor_.at(TokenKind::kName)) return cursor_.unexpected("a statement");
    return syntax_error(cursor_.now().line,
                        str_cat("unknown or misplaced statement `{% ", cursor_.now().text, " %}`"));
  }

  Result<Statement> parse_if() {
    Statement out = make(StatementKind::kIf);
    while (true) {
      Branch branch;
      const bool is_else = cursor_.take().text == "else";
      if (!is_else) {
        ASSIGN_OR_RETURN(branch.condition, expressions_.tuple(false));
      }
      RETURN_IF_ERROR(end_tag());
      if (is_else) {
        ASSIGN_OR_RETURN(branch.body, body({"endif"}));
      } else {
        ASSIGN_OR_RETURN(branch.body, body({"elif", "else", "endif"}));
      }
      out.branches.push_back(std::move(branch));
      if (cursor_.skip_name("endif")) break;
    }
    RETURN_IF_ERROR(end_tag());
    return out;
  }

  Result<Statement> parse_for() {
    Statement out = make(StatementKind::kFor);
    cursor_.take();
    ASSIGN_OR_RETURN(out.target, expressions_.target(false));
    RETURN_IF_ERROR(cursor_.expect_name("in"));
    ASSIGN_OR_RETURN(out.expression, expressions_.tuple(false, "recursive"));
    if (cursor_.skip_name("if")) {
      ASSIGN_OR_RETURN(out.condition, expressions_.expression());
    }
    if (cursor_.at_name("recursive")) {
      return syntax_error(out.line, "`recursive` loops are not supported");
    }
    RETURN_IF_ERROR(end_tag());
    ++loop_depth_;
    Result<Body> inner = body({"else", "endfor"});
    --loop_depth_;
    ASSIGN_OR_RETURN(out.body, std::move(inner));
    if (cursor_.skip_name("else")) {
      RETURN_IF_ERROR(end_tag());
      ASSIGN_OR_RETURN(out.else_body, body({"endfor"}));
    }
    cursor_.take();
    RETURN_IF_ERROR(end_tag());
    return out;
  }

  Result<Statement> parse_set() {
    Statement out = make(StatementKind::kSet);
    cursor_.take();
    ASSIGN_OR_RETURN(out.target, expressions_.target(true));
    if (cursor_.skip_operator("=")) {
      ASSIGN_OR_RETURN(out.expression, expressions_.tuple(true));
      RETURN_IF_ERROR(end_tag());
      return out;
    }
    out.kind = StatementKind::kSetBlock;
    if (cursor_.skip_operator("|")) {
      ASSIGN_OR_RETURN(out.expression, expressions_.filter_chain());
    }
    ASSIGN_OR_RETURN(out.body, closed_body_until("endset"));
    return out;
  }

  // (a, b=1)
  Result<std::vector<Parameter>> parameters() {
    std::vector<Parameter> out;
    RETURN_IF_ERROR(cursor_.expect_operator("("));
    while (!cursor_.at_operator(")")) {
      if (!out.empty()) RETURN_IF_ERROR(cursor_.expect_operator(","));
      if (cursor_.at_operator(")")) break;
      Parameter parameter;
      ASSIGN_OR_RETURN(parameter.name, cursor_.expect_any_name());
      if (cursor_.skip_operator("=")) {
        ASSIGN_OR_RETURN(parameter.default_value, expressions_.expression());
      } else if (!out.empty() && out.back().default_value != nullptr) {
        return syntax_error(cursor_.now().line, "a parameter without default behind one with");
      }
      out.push_back(std::move(parameter));
    }
    cursor_.take();
    return out;
  }

  Result<Statement> parse_macro() {
    Statement out = make(StatementKind::kMacro);
    cursor_.take();
    ASSIGN_OR_RETURN(out.name, cursor_.expect_any_name());
    ASSIGN_OR_RETURN(out.parameters, parameters());
    auto outer_names = std::exchange(expressions_.names(), {});
    ASSIGN_OR_RETURN(out.body, closed_body_until("endmacro"));
    out.uses_varargs = expressions_.names().contains("varargs");
    out.uses_kwargs = expressions_.names().contains("kwargs");
    expressions_.names().merge(outer_names);
    return out;
  }

  Result<Statement> parse_call() {
    Statement out = make(StatementKind::kCall);
    cursor_.take();
    if (cursor_.at_operator("(")) {
      ASSIGN_OR_RETURN(out.parameters, parameters());
    }
    ASSIGN_OR_RETURN(out.expression, expressions_.expression());
    if (out.expression->kind != ExpressionKind::kCall) {
      return syntax_error(out.line, "`{% call %}` needs a call");
    }
    ASSIGN_OR_RETURN(out.body, closed_body_until("endcall"));
    return out;
  }

  Result<Statement> parse_filter() {
    Statement out = make(StatementKind::kFilter);
    cursor_.take();
    ASSIGN_OR_RETURN(out.expression, expressions_.filter_chain());
    ASSIGN_OR_RETURN(out.body, closed_body_until("endfilter"));
    return out;
  }

  Result<Statement> parse_with() {
    Statement out = make(StatementKind::kWith);
    cursor_.take();
    while (!cursor_.at(TokenKind::kBlockEnd)) {
      if (!out.targets.empty()) RETURN_IF_ERROR(cursor_.expect_operator(","));
      ASSIGN_OR_RETURN(ExpressionPtr target, expressions_.plain_name());
      RETURN_IF_ERROR(cursor_.expect_operator("="));
      ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.expression());
      out.targets.push_back(std::move(target));
      out.values.push_back(std::move(value));
    }
    ASSIGN_OR_RETURN(out.body, body_until("endwith"));
    return out;
  }

  Result<Statement> parse_generation() {
    Statement out = make(StatementKind::kScope);
    cursor_.take();
    ASSIGN_OR_RETURN(out.body, body_until("endgeneration"));
    return out;
  }

  Result<Statement> parse_jump() {
    Statement out =
        make(cursor_.at_name("break") ? StatementKind::kBreak : StatementKind::kContinue);
    const std::string& name = cursor_.take().text;
    if (loop_depth_ == 0) return syntax_error(out.line, str_cat("`", name, "` outside of a loop"));
    RETURN_IF_ERROR(end_tag());
    return out;
  }

  TokenCursor cursor_;
  ExpressionParser expressions_;
  int loop_depth_ = 0;
};

}  // namespace

Result<Template> parse_template(std::string_view source, std::size_t max_depth) {
  if (source.size() > kMaxTemplateBytes) {
    return Error{
        Code::kInvalidArgument,
        str_cat("the chat template has ", source.size(), " bytes, more than ", kMaxTemplateBytes),
        "", "chat_template"};
  }
  ASSIGN_OR_RETURN(std::vector<LexToken> tokens, lex(source));
  return StatementParser(std::move(tokens), max_depth).run();
}

}  // namespace refrain::text::jinja
