// Apply and Negate: Python's arithmetic on numbers, texts and lists.
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"

namespace quire::jinja {
namespace {

std::string_view Symbol(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      break;
  }
  return "**";
}

absl::Status TypeError(BinaryOperator op, const Value& a, const Value& b) {
  return Error("cannot compute ", a.type_name(), " ", Symbol(op), " ", b.type_name());
}

absl::Status OverflowError(BinaryOperator op) {
  return Error("the result of ", Symbol(op), " is too large");
}

absl::Status DivisionByZero() { return Error("division by zero"); }

Integer FloorDivide(Integer a, Integer b) {
  const Integer quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

Integer FloorModulo(Integer a, Integer b) {
  const Integer remainder = a % b;
  return (remainder != 0 && (remainder < 0) != (b < 0)) ? remainder + b : remainder;
}

double FloorModulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  return (remainder != 0 && (remainder < 0) != (b < 0)) ? remainder + b : remainder;
}

// Null on overflow; `exponent` is not negative.
std::optional<Integer> IntegerPower(Integer base, Integer exponent) {
  Integer result = 1;
  while (exponent > 0) {
    if (exponent % 2 != 0 && __builtin_mul_overflow(result, base, &result)) return std::nullopt;
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
  return result;
}

absl::StatusOr<Value> ApplyToFloats(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value(a + b);
    case BinaryOperator::kSubtract:
      return Value(a - b);
    case BinaryOperator::kMultiply:
      return Value(a * b);
    case BinaryOperator::kDivide:
      if (b == 0) return DivisionByZero();
      return Value(a / b);
    case BinaryOperator::kFloorDivide:
      if (b == 0) return DivisionByZero();
      return Value(std::floor(a / b));
    case BinaryOperator::kModulo:
      if (b == 0) return DivisionByZero();
      return Value(FloorModulo(a, b));
    case BinaryOperator::kPower:
      break;
  }
  const double power = std::pow(a, b);
  if (!std::isfinite(power) && std::isfinite(a) && std::isfinite(b)) return OverflowError(op);
  return Value(power);
}

absl::StatusOr<Value> ApplyToIntegers(BinaryOperator op, Integer a, Integer b) {
  Integer result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOperator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOperator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOperator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOperator::kFloorDivide:
      if (b == 0) return DivisionByZero();
      // Dividing by -1 is the one quotient that can overflow.
      if (b == -1) return Negate(Value(a));
      result = FloorDivide(a, b);
      break;
    case BinaryOperator::kModulo:
      if (b == 0) return DivisionByZero();
      result = b == -1 ? 0 : FloorModulo(a, b);
      break;
    case BinaryOperator::kPower: {
      if (b < 0) return ApplyToFloats(op, static_cast<double>(a), static_cast<double>(b));
      const std::optional<Integer> power = IntegerPower(a, b);
      overflow = !power;
      result = power.value_or(0);
      break;
    }
    case BinaryOperator::kDivide:
      return ApplyToFloats(op, static_cast<double>(a), static_cast<double>(b));
  }
  if (overflow) return OverflowError(op);
  return Value(result);
}

absl::StatusOr<Value> RepeatText(Runtime& runtime, const Text& text, Integer times) {
  Text result;
  if (!text.empty()) {
    for (Integer i = 0; i < times; ++i) RETURN_IF_ERROR(runtime.Append(&result, text));
  }
  return runtime.NewText(std::move(result));
}

absl::StatusOr<Value> RepeatList(Runtime& runtime, const List& list, Integer times) {
  std::vector<Value> items;
  for (Integer i = 0; i < times && !list.items.empty(); ++i) {
    RETURN_IF_ERROR(runtime.Charge(list.items.size()));
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return runtime.NewList(list.kind, std::move(items));
}

absl::StatusOr<Value> Repeat(Runtime& runtime, const Value& sequence, const Value& times) {
  if (times.is_integer() && sequence.text() != nullptr) {
    return RepeatText(runtime, *sequence.text(), times.integer());
  }
  if (times.is_integer() && sequence.list() != nullptr &&
      sequence.list()->kind <= ListKind::kTuple) {
    return RepeatList(runtime, *sequence.list(), times.integer());
  }
  return TypeError(BinaryOperator::kMultiply, sequence, times);
}

absl::StatusOr<Value> Concatenate(Runtime& runtime, const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) {
    Text text;
    RETURN_IF_ERROR(runtime.Append(&text, *a.text()));
    RETURN_IF_ERROR(runtime.Append(&text, *b.text()));
    return Value(std::move(text));
  }
  if (a.list() != nullptr && b.list() != nullptr && a.list()->kind == b.list()->kind &&
      a.list()->kind <= ListKind::kTuple) {
    std::vector<Value> items = a.list()->items;
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    return runtime.NewList(a.list()->kind, std::move(items));
  }
  return TypeError(BinaryOperator::kAdd, a, b);
}

}  // namespace

absl::StatusOr<Value> Apply(Runtime& runtime, BinaryOperator op, const Value& a, const Value& b) {
  if (op == BinaryOperator::kModulo && a.text() != nullptr) {
    return PercentFormat(runtime, *a.text(), b);
  }
  if (a.is_undefined()) return UndefinedError(a);
  if (b.is_undefined()) return UndefinedError(b);
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return ApplyToIntegers(op, a.integer(), b.integer());
    return ApplyToFloats(op, a.number(), b.number());
  }
  if (op == BinaryOperator::kAdd) return Concatenate(runtime, a, b);
  if (op == BinaryOperator::kMultiply) {
    return a.is_integer() ? Repeat(runtime, b, a) : Repeat(runtime, a, b);
  }
  return TypeError(op, a, b);
}

absl::StatusOr<Value> Negate(const Value& value) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is_float()) return Value(-value.number());
  if (!value.is_integer()) {
    return Error("cannot negate a ", value.type_name());
  }
  Integer result = 0;
  if (__builtin_sub_overflow(Integer{0}, value.integer(), &result)) {
    return OverflowError(BinaryOperator::kSubtract);
  }
  return Value(result);
}

}  // namespace quire::jinja
