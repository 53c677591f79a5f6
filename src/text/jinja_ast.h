// The syntax tree of a template: immutable after parsing, shared by all renders; any thread.
// `height` is the number of nodes on the longest way down; the parser bounds it, so that walking
// the tree needs bounded stack.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace refrain::text::jinja {

class Interpreter;

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> keywords;
};
using FilterFunction = Result<Value> (*)(Interpreter&, const Value& subject, const Arguments&);
using TestFunction = Result<bool> (*)(Interpreter&, const Value& subject, const Arguments&);

enum class Operator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

enum class ExpressionKind : std::uint8_t {
  kConstant,   // constant
  kName,       // name
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value ...
  kAttribute,  // children[0].name
  kItem,       // children[0][children[1]]
  kSlice,      // children[0][children[1]:children[2]:children[3]], absent ones null
  kCall,       // children[0](children[1..], keywords)
  kFilter,     // children[0] | name(children[1..], keywords)
  kTest,       // children[0] is name(children[1..], keywords)
  kNegative,   // -children[0]
  kPositive,
  kNot,
  kAnd,  // two children
  kOr,
  kBinary,       // children[0] operators[0] children[1]
  kCompare,      // children[0] operators[0] children[1] operators[1] children[2] ...
  kConcat,       // children joined by ~
  kConditional,  // children[1] if children[0] else children[2] (may be null)
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  std::uint32_t line = 0;
  std::uint32_t height = 1;
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  std::vector<Operator> operators;
  ExpressionPtr spread_list;      // *arguments of a call
  ExpressionPtr spread_keywords;  // **arguments of a call
  FilterFunction filter = nullptr;
  TestFunction test = nullptr;
};

enum class StatementKind : std::uint8_t {
  kData,      // text
  kOutput,    // expression
  kIf,        // branches; the last may have no condition (else)
  kFor,       // target in expression if condition: body, else_body
  kSet,       // target = expression
  kSetBlock,  // target = filters of body (expression: filter chain or null)
  kMacro,     // name, parameters, body
  kCall,      // expression is a call; the body becomes its caller(parameters)
  kFilter,    // expression: filter chain over body
  kWith,      // targets[i] = values[i] in body
  kScope,     // body alone ({% generation %})
  kBreak,
  kContinue,
};

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Parameter {
  std::string name;
  ExpressionPtr default_value;  // null: none
};

struct Statement {
  StatementKind kind = StatementKind::kData;
  std::uint32_t line = 0;
  Value text;  // kData
  std::string name;
  ExpressionPtr target;  // kName, kAttribute of a kName (namespace), kTuple of targets
  ExpressionPtr expression;
  ExpressionPtr condition;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  bool uses_varargs = false;  // the macro reads them
  bool uses_kwargs = false;
  std::vector<ExpressionPtr> targets;
  std::vector<ExpressionPtr> values;
  Body body;
  Body else_body;
};

struct Template {
  Body body;
  std::vector<std::string> names;  // every variable read, sorted, once each
};

}  // namespace refrain::text::jinja
