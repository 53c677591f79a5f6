// Arithmetic and comparison as in Python, integers of 64 bits. One render, one thread.
#include <cmath>
#include <limits>

#include "base/str.h"
#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"

namespace refrain::text::jinja {
namespace {

std::string_view symbol(Operator op) {
  static constexpr std::string_view kSymbols[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<std::size_t>(op)];
}

Error overflow() {
  return wrong("an integer beyond 64 bits");
}

Result<Value> integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return wrong("0 to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value::integer(result);
}

// Python rounds quotients down and gives remainders the sign of the divisor.
Result<Value> integer_division(Operator op, std::int64_t left, std::int64_t right) {
  if (right == 0) return wrong("division by zero");
  if (op == Operator::kDivide) {
    return Value::real(static_cast<double>(left) / static_cast<double>(right));
  }
  if (right == -1) {
    if (op == Operator::kModulo) return Value::integer(0);
    if (left == std::numeric_limits<std::int64_t>::min()) return overflow();
    return Value::integer(-left);
  }
  const std::int64_t remainder = left % right;
  const bool adjust = remainder != 0 && ((remainder < 0) != (right < 0));
  if (op == Operator::kModulo) return Value::integer(adjust ? remainder + right : remainder);
  return Value::integer(left / right - (adjust ? 1 : 0));
}

Result<Value> integer_arithmetic(Operator op, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool too_big = false;
  switch (op) {
    case Operator::kAdd:
      too_big = __builtin_add_overflow(left, right, &result);
      break;
    case Operator::kSubtract:
      too_big = __builtin_sub_overflow(left, right, &result);
      break;
    case Operator::kMultiply:
      too_big = __builtin_mul_overflow(left, right, &result);
      break;
    case Operator::kPower:
      return integer_power(left, right);
    default:
      return integer_division(op, left, right);
  }
  if (too_big) return overflow();
  return Value::integer(result);
}

Result<Value> real_arithmetic(Operator op, double left, double right) {
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && right == 0.0) return wrong("division by zero");
  switch (op) {
    case Operator::kAdd:
      return Value::real(left + right);
    case Operator::kSubtract:
      return Value::real(left - right);
    case Operator::kMultiply:
      return Value::real(left * right);
    case Operator::kDivide:
      return Value::real(left / right);
    case Operator::kPower:
      if ((left < 0 && right != std::floor(right)) || (left == 0.0 && right < 0)) {
        return wrong("a power that is no real number");
      }
      return Value::real(std::pow(left, right));
    default:
      break;
  }
  double remainder = std::fmod(left, right);
  if (remainder != 0.0 && (remainder < 0) != (right < 0)) remainder += right;
  if (op == Operator::kModulo) {
    return Value::real(remainder == 0.0 ? std::copysign(0.0, right) : remainder);
  }
  const double quotient = (left - remainder) / right;
  double floor = std::floor(quotient);
  if (quotient - floor > 0.5) floor += 1.0;
  return Value::real(quotient == 0.0 ? std::copysign(0.0, left / right) : floor);
}

Result<Value> repeat(Interpreter& run, const Value& sequence, std::int64_t times) {
  times = std::max<std::int64_t>(times, 0);
  const auto count = static_cast<std::size_t>(times);
  if (const Text* text = sequence.as_text()) {
    if (text->empty()) return sequence;
    if (count > run.max_text_bytes() / text->size()) return wrong("a repeated string is too long");
    RETURN_IF_ERROR(run.charge(count + count * text->size() / 256));
    Text out;
    for (std::size_t i = 0; i < count; ++i) out.append(*text);
    return run.make_text(std::move(out));
  }
  const List& list = *sequence.as_list();
  if (!list.items.empty() && count > static_cast<std::size_t>(kMaxRange) * 10 / list.items.size()) {
    return wrong("a repeated list is too long");
  }
  RETURN_IF_ERROR(run.charge(list.items.empty() ? 1 : count * list.items.size()));
  Values items;
  for (std::size_t i = 0; i < count && !list.items.empty(); ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_list(std::move(items), list.is_tuple);
}

bool is_sequence(const Value& value) {
  return value.as_text() != nullptr || value.as_list() != nullptr;
}

}  // namespace

Result<Value> Interpreter::binary(Operator op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) {
      return integer_arithmetic(op, left.to_integer(), right.to_integer());
    }
    return real_arithmetic(op, left.to_double(), right.to_double());
  }
  if (op == Operator::kAdd && left.as_text() != nullptr && right.as_text() != nullptr) {
    Text out = *left.as_text();
    out.append(*right.as_text());
    return make_text(std::move(out));
  }
  const List* a = left.as_list();
  const List* b = right.as_list();
  if (op == Operator::kAdd && a != nullptr && b != nullptr && a->is_tuple == b->is_tuple) {
    RETURN_IF_ERROR(charge(a->items.size() + b->items.size()));
    Values items = a->items;
    items.insert(items.end(), b->items.begin(), b->items.end());
    return make_list(std::move(items), a->is_tuple);
  }
  if (op == Operator::kMultiply && is_sequence(left) && right.is_integral()) {
    return repeat(*this, left, right.to_integer());
  }
  if (op == Operator::kMultiply && is_sequence(right) && left.is_integral()) {
    return repeat(*this, right, left.to_integer());
  }
  for (const Value* operand : {&left, &right}) {
    const auto* undefined = operand->as<Undefined>();
    if (undefined != nullptr && undefined->reason != nullptr) return wrong(*undefined->reason);
  }
  return wrong(
      str_cat("`", symbol(op), "` between `", type_name(left), "` and `", type_name(right), "`"));
}

Result<bool> Interpreter::compares(Operator op, const Value& left, const Value& right) {
  if (op == Operator::kIn) return contains(right, left);
  if (op == Operator::kNotIn) {
    ASSIGN_OR_RETURN(const bool found, contains(right, left));
    return !found;
  }
  RETURN_IF_ERROR(charge(std::min(left.weight(), right.weight())));
  if (op == Operator::kEqual) return equal(left, right);
  if (op == Operator::kNotEqual) return !equal(left, right);
  if (left.is_number() && right.is_number() &&
      (std::isnan(left.to_double()) || std::isnan(right.to_double()))) {
    return false;
  }
  ASSIGN_OR_RETURN(const int order, compare(left, right));
  if (op == Operator::kLess) return order < 0;
  if (op == Operator::kLessEqual) return order <= 0;
  if (op == Operator::kGreater) return order > 0;
  return order >= 0;
}

}  // namespace refrain::text::jinja
