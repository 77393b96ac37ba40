#include "server/text/chat/jinja/tree/expressions.h"

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/attributes.h"
#include "server/text/chat/jinja/builtins/text_operations.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire::jinja {

using Result = absl::StatusOr<Value>;

Result Expression::Evaluate(Context& context) const {
  const Runtime::DepthGuard guard = context.runtime.EnterEvaluation();
  RETURN_IF_ERROR(context.runtime.CheckEvaluation());
  context.runtime.line = line;
  return DoEvaluate(context);
}

Result Literal::DoEvaluate(Context&) const { return value; }

Result Name::DoEvaluate(Context& context) const {
  if (const Value* value = context.scope->Find(name)) return *value;
  return Value::UndefinedNamed(Concat("'", name, "' is undefined"));
}

Result ListDisplay::DoEvaluate(Context& context) const {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const ExpressionPtr& item : items) {
    ASSIGN_OR_RETURN(Value value, item->Evaluate(context));
    values.push_back(std::move(value));
  }
  return context.runtime.NewList(kind, std::move(values));
}

Result DictDisplay::DoEvaluate(Context& context) const {
  Dict dict;
  for (const auto& [key_expression, value_expression] : entries) {
    ASSIGN_OR_RETURN(Value key, key_expression->Evaluate(context));
    RETURN_IF_ERROR(CheckHashable(key));
    RETURN_IF_ERROR(context.runtime.Charge(key.text() != nullptr ? 1 : 1 + dict.size()));
    ASSIGN_OR_RETURN(Value value, value_expression->Evaluate(context));
    dict.Set(std::move(key), std::move(value));
  }
  return context.runtime.NewDict(std::move(dict));
}

Result Negation::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(Value value, operand->Evaluate(context));
  if (negative) return Negate(value);
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is_float()) return value;
  if (value.is_integer()) return Value(value.integer());
  return Error("+ needs a number, not a ", value.type_name());
}

Result Not::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(const Value value, operand->Evaluate(context));
  return Value(!IsTrue(value));
}

Result Arithmetic::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(const Value a, left->Evaluate(context));
  ASSIGN_OR_RETURN(const Value b, right->Evaluate(context));
  return Apply(context.runtime, op, a, b);
}

Result Logical::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(Value value, left->Evaluate(context));
  if (IsTrue(value) != is_and) return value;
  return right->Evaluate(context);
}

Result Concatenation::DoEvaluate(Context& context) const {
  std::vector<Value> values;
  values.reserve(parts.size());
  for (const ExpressionPtr& part : parts) {
    ASSIGN_OR_RETURN(Value value, part->Evaluate(context));
    values.push_back(std::move(value));
  }
  ASSIGN_OR_RETURN(Text text, Join(context.runtime, Text(), values));
  return Value(std::move(text));
}

namespace {

absl::StatusOr<bool> Holds(Runtime& runtime, Comparison comparison, const Value& a,
                           const Value& b) {
  switch (comparison) {
    case Comparison::kEqual:
      return CheckedEquals(runtime, a, b);
    case Comparison::kNotEqual: {
      ASSIGN_OR_RETURN(const bool equal, CheckedEquals(runtime, a, b));
      return !equal;
    }
    case Comparison::kIn:
      return Contains(runtime, b, a);
    case Comparison::kNotIn: {
      ASSIGN_OR_RETURN(const bool contains, Contains(runtime, b, a));
      return !contains;
    }
    default:
      break;
  }
  ASSIGN_OR_RETURN(const int order, Compare(runtime, a, b));
  switch (comparison) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kLessOrEqual:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

// A bound of a slice; None where it is left out.
Result EvaluateBound(Context& context, const ExpressionPtr& bound) {
  if (bound == nullptr) return Value(None{});
  return bound->Evaluate(context);
}

}  // namespace

Result ComparisonChain::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(Value left, first->Evaluate(context));
  for (const auto& [comparison, expression] : rest) {
    ASSIGN_OR_RETURN(Value right, expression->Evaluate(context));
    ASSIGN_OR_RETURN(const bool holds, Holds(context.runtime, comparison, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result Conditional::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(const Value chosen, condition->Evaluate(context));
  if (IsTrue(chosen)) return value->Evaluate(context);
  if (otherwise != nullptr) return otherwise->Evaluate(context);
  return Value::UndefinedNamed(
      "an inline if without else is undefined when its condition is false");
}

Result AttributeAccess::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(const Value value, object->Evaluate(context));
  return GetAttribute(context.runtime, value, name);
}

Result ItemAccess::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(const Value value, object->Evaluate(context));
  ASSIGN_OR_RETURN(const Value index, key->Evaluate(context));
  return GetItem(context.runtime, value, index);
}

Result SliceAccess::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(const Value value, object->Evaluate(context));
  ASSIGN_OR_RETURN(const Value first, EvaluateBound(context, start));
  ASSIGN_OR_RETURN(const Value last, EvaluateBound(context, stop));
  ASSIGN_OR_RETURN(const Value stride, EvaluateBound(context, step));
  return GetSlice(context.runtime, value, first, last, stride);
}

absl::StatusOr<Arguments> ArgumentList::Evaluate(Context& context) const {
  Arguments arguments;
  arguments.positional.reserve(positional.size());
  for (const ExpressionPtr& expression : positional) {
    ASSIGN_OR_RETURN(Value value, expression->Evaluate(context));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, expression] : keyword) {
    ASSIGN_OR_RETURN(Value value, expression->Evaluate(context));
    arguments.keyword.emplace_back(name, std::move(value));
  }
  if (more_positional != nullptr) RETURN_IF_ERROR(AddMorePositional(context, &arguments));
  if (more_keyword != nullptr) RETURN_IF_ERROR(AddMoreKeyword(context, &arguments));
  return arguments;
}

absl::Status ArgumentList::AddMorePositional(Context& context, Arguments* arguments) const {
  ASSIGN_OR_RETURN(const Value more, more_positional->Evaluate(context));
  ASSIGN_OR_RETURN(const std::shared_ptr<const List> list, Iterate(context.runtime, more));
  RETURN_IF_ERROR(context.runtime.Charge(list->items.size()));
  arguments->positional.insert(arguments->positional.end(), list->items.begin(), list->items.end());
  return absl::OkStatus();
}

absl::Status ArgumentList::AddMoreKeyword(Context& context, Arguments* arguments) const {
  ASSIGN_OR_RETURN(const Value more, more_keyword->Evaluate(context));
  if (more.is_undefined()) return UndefinedError(more);
  const Dict* dict = more.dict();
  if (dict == nullptr) return Error("a ", more.type_name(), " cannot stand after **");
  // What is called looks for each of its parameters among them.
  if (dict->size() > kMaxMoreKeyword) return Error("more than ", kMaxMoreKeyword, " after **");
  for (const auto& [key, value] : dict->entries()) {
    if (key.text() == nullptr) return Error("a key after ** is no string");
    const std::string_view name = key.text()->bytes();
    RETURN_IF_ERROR(context.runtime.Charge(name.size()));
    for (const auto& [given, expression] : keyword) {
      if (given == name) return Error("argument '", given, "' is given twice");
    }
    arguments->keyword.emplace_back(name, value);
  }
  return absl::OkStatus();
}

Result CallExpression::DoEvaluate(Context& context) const { return EvaluateWith(context, nullptr); }

Result CallExpression::EvaluateWith(Context& context, const Value* caller) const {
  ASSIGN_OR_RETURN(const Value function, callee->Evaluate(context));
  ASSIGN_OR_RETURN(Arguments values, arguments.Evaluate(context));
  if (caller != nullptr) values.keyword.emplace_back("caller", *caller);
  context.runtime.line = line;
  if (function.is_undefined()) return UndefinedError(function);
  if (function.object() == nullptr) {
    return Error("a ", function.type_name(), " cannot be called");
  }
  const Runtime::DepthGuard guard = context.runtime.EnterCall();
  RETURN_IF_ERROR(context.runtime.CheckCall());
  return function.object()->Call(context.runtime, values);
}

Result FilterExpression::DoEvaluate(Context& context) const {
  ASSIGN_OR_RETURN(const Value value, input->Evaluate(context));
  return Apply(context, value);
}

Result FilterExpression::Apply(Context& context, const Value& value) const {
  if (filter == nullptr) return Error("there is no filter '", name, "'");
  ASSIGN_OR_RETURN(const Arguments values, arguments.Evaluate(context));
  context.runtime.line = line;
  Result result = filter(context.runtime, value, values);
  if (result.ok()) return result;
  return Prefixed(result.status(), "filter '", name, "': ");
}

Result TestExpression::DoEvaluate(Context& context) const {
  if (test == nullptr) return Error("there is no test '", name, "'");
  ASSIGN_OR_RETURN(const Value value, input->Evaluate(context));
  ASSIGN_OR_RETURN(const Arguments values, arguments.Evaluate(context));
  context.runtime.line = line;
  const absl::StatusOr<bool> passed = test(context.runtime, value, values);
  if (passed.ok()) return Value(*passed);
  return Prefixed(passed.status(), "test '", name, "': ");
}

}  // namespace quire::jinja
