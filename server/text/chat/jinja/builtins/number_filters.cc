// Filters that make or change numbers.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/filters.h"
#include "server/text/chat/jinja/builtins/text_operations.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"

namespace quire::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// Doubles at and beyond this do not fit an Integer.
constexpr double kIntegerLimit = 1.7014118346046923e38;  // 2^127
// Longer numerals are refused before they are looked at.
constexpr size_t kMaxNumeralSize = 400;
constexpr Integer kMaxPrecision = 300;

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// Skips the prefix that int(text, base) allows.
std::string_view WithoutPrefix(std::string_view digits, Integer base) {
  const char letter = base == 16 ? 'x' : (base == 8 ? 'o' : (base == 2 ? 'b' : '\0'));
  if (letter != '\0' && digits.size() > 2 && digits[0] == '0' &&
      absl::ascii_tolower(static_cast<unsigned char>(digits[1])) == letter) {
    digits.remove_prefix(2);
  }
  return digits;
}

// int(text, base); null where Python raises ValueError, and where 128 bits are too few.
std::optional<Integer> ParseInteger(std::string_view text, Integer base) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  text = WithoutPrefix(text, base);
  Integer value = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    const int digit = DigitValue(c);
    if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, static_cast<Integer>(digit), &value)) {
      return std::nullopt;
    }
    after_digit = true;
  }
  if (!after_digit) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> ParseFloat(const std::string& text) {
  double value = 0;
  const bool is_hex = text.find_first_of("xX") != std::string::npos;
  if (is_hex || !absl::SimpleAtod(text, &value)) return std::nullopt;
  return value;
}

absl::StatusOr<std::string> Numeral(const Value& input) {
  const Text stripped = Strip(*input.text(), nullptr, StripSides::kBoth);
  if (stripped.size() > kMaxNumeralSize) return Error("a numeral is too long");
  return std::string(stripped.bytes());
}

absl::StatusOr<Value> Truncate(double value) {
  if (!(std::fabs(value) < kIntegerLimit)) {
    return Error("a float is too large for an int");
  }
  return Value(static_cast<Integer>(value));
}

Result IntFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"default", "base"}));
  RETURN_IF_ERROR(runtime.Charge(input.weight()));
  Value fallback = bound[0] == nullptr ? Value(Integer{0}) : *bound[0];
  ASSIGN_OR_RETURN(const Integer base, bound.IntegerOr(1, 10));
  if (base < 2 || base > 36) return Error("argument 'base' must be from 2 to 36");
  if (input.is_undefined()) return UndefinedError(input);
  if (input.is_integer()) return Value(input.integer());
  if (input.is_float()) return std::isnan(input.number()) ? fallback : Truncate(input.number());
  if (input.text() == nullptr) return fallback;
  ASSIGN_OR_RETURN(const std::string numeral, Numeral(input));
  if (const std::optional<Integer> value = ParseInteger(numeral, base)) return Value(*value);
  const std::optional<double> value = ParseFloat(numeral);
  if (!value || !(std::fabs(*value) < kIntegerLimit)) return fallback;
  return Truncate(*value);
}

Result FloatFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"default"}));
  RETURN_IF_ERROR(runtime.Charge(input.weight()));
  Value fallback = bound[0] == nullptr ? Value(0.0) : *bound[0];
  if (input.is_undefined()) return UndefinedError(input);
  if (input.is_number()) return Value(input.number());
  if (input.text() == nullptr) return fallback;
  ASSIGN_OR_RETURN(const std::string numeral, Numeral(input));
  const std::optional<double> value = ParseFloat(numeral);
  return value ? Value(*value) : fallback;
}

Result AbsFilter(Runtime&, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  if (input.is_undefined()) return UndefinedError(input);
  if (!input.is_number()) {
    return Error("needs a number, not a ", input.type_name());
  }
  if (input.is_float()) return Value(std::fabs(input.number()));
  return input.integer() < 0 ? Negate(input) : Value(input.integer());
}

// Python's round(): half to even on the exact value, which is what printf does.
double RoundTo(double value, int precision) {
  if (!std::isfinite(value)) return value;
  if (precision >= 0)
    return std::strtod(absl::StrFormat("%.*f", precision, value).c_str(), nullptr);
  const double unit = std::pow(10.0, -precision);
  return std::nearbyint(value / unit) * unit;
}

Result RoundFilter(Runtime&, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"precision", "method"}));
  ASSIGN_OR_RETURN(const Integer precision, bound.IntegerOr(0, 0));
  ASSIGN_OR_RETURN(const Text method, bound.TextOr(1, Text("common", Origin::kTemplate)));
  if (precision > kMaxPrecision || precision < -kMaxPrecision) {
    return Error("argument 'precision' is too large");
  }
  if (input.is_undefined()) return UndefinedError(input);
  if (!input.is_number()) {
    return Error("needs a number, not a ", input.type_name());
  }
  if (method.bytes() == "common") {
    if (input.is_integer() && precision >= 0) return Value(input.integer());
    const double rounded = RoundTo(input.number(), static_cast<int>(precision));
    return input.is_integer() ? Truncate(rounded) : Value(rounded);
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  if (method.bytes() == "ceil") return Value(std::ceil(input.number() * unit) / unit);
  if (method.bytes() == "floor") return Value(std::floor(input.number() * unit) / unit);
  return Error("argument 'method' must be 'common', 'ceil' or 'floor'");
}

constexpr Filter kNumberFilters[] = {
    {"abs", AbsFilter}, {"float", FloatFilter}, {"int", IntFilter}, {"round", RoundFilter}};

}  // namespace

absl::Span<const Filter> NumberFilters() { return kNumberFilters; }

}  // namespace quire::jinja
