// Interpreter: runs one template once. Every evaluated node, loop turn and 256 bytes of text cost
// a step; steps, output, nesting and sizes are bounded, so that any template ends. One render,
// one thread.
//
//   Interpreter interpreter(limits, now_unix_s);
//   interpreter.define("messages", messages);
//   ASSIGN_OR_RETURN(Text text, interpreter.run(parsed));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/jinja_ast.h"
#include "text/jinja_value.h"

namespace refrain::text::jinja {

inline constexpr std::int64_t kMaxRange = 100'000;  // items of range(), as in Jinja2's sandbox

// Variables of one block; inner ones hide outer ones.
struct Scope {
  std::map<std::string, Value, std::less<>> variables;
  std::shared_ptr<Scope> parent;
};

struct Macro {
  const Statement* definition;   // its parameters and body
  std::shared_ptr<Scope> scope;  // where it was defined
};

class Interpreter {
 public:
  // Counts a nested evaluation while it lives.
  class Depth {
   public:
    explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) { ++interpreter_.depth_; }
    ~Depth() { --interpreter_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Result<void> check() const;

   private:
    Interpreter& interpreter_;
  };

  Interpreter(const TemplateLimits& limits, std::int64_t now_unix_s);

  void define(const std::string& name, Value value);
  Result<Text> run(const Template& parsed);

  // Did the template refuse by raise_exception?
  bool refused() const { return refused_; }
  // Did it run out of steps?
  bool exhausted() const { return steps_ > limits_.max_steps; }

  // What operators, filters, tests and methods need.
  Result<void> charge(std::size_t steps);
  Result<void> charge_bytes(std::size_t bytes) { return charge(bytes / 256 + 1); }
  // A new string; an error if it is longer than the output may be.
  Result<Value> make_text(Text text);
  Result<Text> text_of(const Value& value);  // str(value)
  Result<std::shared_ptr<const List>> items_of(const Value& iterable);
  Result<Value> attribute(const Value& subject, std::string_view name);
  Result<Value> item(const Value& subject, const Value& key);
  Result<Value> slice(const Value& subject, const Value& start, const Value& stop,
                      const Value& step);
  Result<Value> binary(Operator op, const Value& left, const Value& right);
  Result<bool> compares(Operator op, const Value& left, const Value& right);
  Result<bool> contains(const Value& container, const Value& item);
  Result<void> put(Dict& dict, const Value& key, Value value);
  Result<Value> call(const Value& callee, const Arguments& arguments);
  std::size_t max_text_bytes() const { return limits_.max_output_bytes; }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Result<Value> evaluate(const Expression& node);
  Result<Value> evaluate_kind(const Expression& node);
  Result<Value> evaluate_name(const Expression& node);
  Result<Value> evaluate_sequence(const Expression& node);
  Result<Value> evaluate_dict(const Expression& node);
  Result<Value> evaluate_item(const Expression& node);
  Result<Value> evaluate_slice(const Expression& node);
  Result<Value> evaluate_call(const Expression& node);
  Result<Value> evaluate_filter(const Expression& node, const Value* innermost);
  Result<Value> evaluate_test(const Expression& node);
  Result<Value> evaluate_sign(const Expression& node);
  Result<Value> evaluate_logic(const Expression& node);
  Result<Value> evaluate_binary(const Expression& node);
  Result<Value> evaluate_compare(const Expression& node);
  Result<Value> evaluate_concat(const Expression& node);
  Result<Value> evaluate_conditional(const Expression& node);
  Result<Arguments> evaluate_arguments(const Expression& node);

  Result<Flow> execute(const Body& body);
  Result<Flow> execute(const Statement& statement);
  Result<Flow> execute_scoped(const Body& body);
  Result<Flow> execute_if(const Statement& statement);
  Result<Flow> execute_for(const Statement& statement);
  Result<Flow> execute_with(const Statement& statement);
  Result<void> execute_set(const Statement& statement);
  Result<void> execute_set_block(const Statement& statement);
  Result<void> execute_call(const Statement& statement);
  Result<void> execute_filter(const Statement& statement);
  Result<std::shared_ptr<const List>> loop_items(const Statement& statement);
  Result<void> assign(const Expression& target, const Value& value);
  void define_in_scope(const std::string& name, Value value);
  Result<void> write(const Text& text);
  // Text that `body` writes in a scope of its own.
  Result<Text> capture(const Body& body);
  const Macro* define_macro(const Statement& definition);

  Result<Value> call_macro(const Macro& macro, const Arguments& arguments);
  Result<void> bind_parameters(const Macro& macro, const Arguments& arguments);
  Result<Value> call_builtin(Builtin builtin, const Arguments& arguments);
  Result<Value> call_range(const Arguments& arguments);
  Result<Value> call_dict(const Arguments& arguments);
  Result<Value> call_namespace(const Arguments& arguments);
  Result<Value> call_strftime(const Arguments& arguments);

  TemplateLimits limits_;
  std::int64_t now_unix_s_;
  std::uint64_t steps_ = 0;
  std::size_t depth_ = 0;
  std::size_t macro_depth_ = 0;
  std::int64_t loop_nesting_ = 0;
  std::uint32_t line_ = 0;  // of the node evaluated last, for error messages
  bool refused_ = false;
  Text output_;  // of the innermost capture
  // Owned here, pointed to by values: no value ever owns itself.
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::vector<std::unique_ptr<Macro>> macros_;
  std::shared_ptr<Scope> scope_;
};

// Methods of str, dict, list and loop; a value of kind Method if `subject` has it, else undefined.
Value find_method(const Value& subject, std::string_view name);
Result<Value> call_method(Interpreter& interpreter, const Method& method,
                          const Arguments& arguments);

}  // namespace refrain::text::jinja
