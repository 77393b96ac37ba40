// The tests of `value is name(...)`.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/filters.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/chat/jinja/values/print.h"
#include "server/text/python_text.h"

namespace quire::jinja {
namespace {

using Verdict = absl::StatusOr<bool>;

// A test that looks only at the value.
template <bool (*predicate)(const Value&)>
Verdict Unary(Runtime&, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  return predicate(input);
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsString(const Value& value) { return value.text() != nullptr; }
bool IsMapping(const Value& value) { return value.dict() != nullptr; }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsInteger(const Value& value) { return value.is_integer() && !value.is_bool(); }
bool IsFloat(const Value& value) { return value.is_float(); }
bool IsBoolean(const Value& value) { return value.is_bool(); }
bool IsTrueItself(const Value& value) { return value.is_bool() && value.boolean(); }
bool IsFalseItself(const Value& value) { return value.is_bool() && !value.boolean(); }
bool IsCallable(const Value& value) {
  // What is undefined can be called, although the call fails.
  return value.is_undefined() || (value.object() != nullptr && value.object()->callable());
}

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.text() != nullptr || value.list() != nullptr ||
         value.dict() != nullptr;
}

bool IsSequence(const Value& value) {
  return IsIterable(value) && (value.list() == nullptr || value.list()->indexable());
}

template <bool upper>
Verdict CaseTest(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  RETURN_IF_ERROR(runtime.Charge(input.weight()));
  ASSIGN_OR_RETURN(const Text text, ToText(runtime, input));
  return HasOnlyCase(text.bytes(), upper);
}

Verdict IsDivisible(Runtime& runtime, const Value& input, const Value& divisor, Integer remainder) {
  ASSIGN_OR_RETURN(const Value actual, Apply(runtime, BinaryOperator::kModulo, input, divisor));
  return Equals(actual, Value(remainder));
}

template <int remainder>
Verdict ParityTest(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  return IsDivisible(runtime, input, Value(Integer{2}), remainder);
}

Verdict DivisibleByTest(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"num"}, 1));
  return IsDivisible(runtime, input, *bound[0], 0);
}

template <bool expected>
Verdict EqualTest(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"other"}, 1));
  ASSIGN_OR_RETURN(const bool equal, CheckedEquals(runtime, input, *bound[0]));
  return equal == expected;
}

template <bool (*accepts)(int order)>
Verdict OrderTest(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"other"}, 1));
  ASSIGN_OR_RETURN(const int order, Compare(runtime, input, *bound[0]));
  return accepts(order);
}

bool Less(int order) { return order < 0; }
bool LessOrEqual(int order) { return order <= 0; }
bool Greater(int order) { return order > 0; }
bool GreaterOrEqual(int order) { return order >= 0; }

Verdict SameAsTest(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"other"}, 1));
  if (input.type_name() != bound[0]->type_name()) return false;
  return CheckedEquals(runtime, input, *bound[0]);
}

Verdict InTest(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"seq"}, 1));
  return Contains(runtime, *bound[0], input);
}

template <auto find>
Verdict NameTest(Runtime&, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  return input.text() != nullptr && find(input.text()->bytes()) != nullptr;
}

struct Test {
  std::string_view name;
  TestFunction function;
};

constexpr Test kTests[] = {
    {"!=", EqualTest<false>},
    {"<", OrderTest<Less>},
    {"<=", OrderTest<LessOrEqual>},
    {"==", EqualTest<true>},
    {">", OrderTest<Greater>},
    {">=", OrderTest<GreaterOrEqual>},
    {"boolean", Unary<IsBoolean>},
    {"callable", Unary<IsCallable>},
    {"defined", Unary<IsDefined>},
    {"divisibleby", DivisibleByTest},
    {"eq", EqualTest<true>},
    {"equalto", EqualTest<true>},
    {"even", ParityTest<0>},
    {"false", Unary<IsFalseItself>},
    {"filter", NameTest<FindFilter>},
    {"float", Unary<IsFloat>},
    {"ge", OrderTest<GreaterOrEqual>},
    {"greaterthan", OrderTest<Greater>},
    {"gt", OrderTest<Greater>},
    {"in", InTest},
    {"integer", Unary<IsInteger>},
    {"iterable", Unary<IsIterable>},
    {"le", OrderTest<LessOrEqual>},
    {"lessthan", OrderTest<Less>},
    {"lower", CaseTest<false>},
    {"lt", OrderTest<Less>},
    {"mapping", Unary<IsMapping>},
    {"ne", EqualTest<false>},
    {"none", Unary<IsNone>},
    {"number", Unary<IsNumber>},
    {"odd", ParityTest<1>},
    {"sameas", SameAsTest},
    {"sequence", Unary<IsSequence>},
    {"string", Unary<IsString>},
    {"test", NameTest<FindTest>},
    {"true", Unary<IsTrueItself>},
    {"undefined", Unary<IsUndefined>},
    {"upper", CaseTest<true>},
};

}  // namespace

TestFunction FindTest(std::string_view name) {
  const Test* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [name](const Test& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found->function;
}

}  // namespace quire::jinja
