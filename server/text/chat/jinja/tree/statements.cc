#include "server/text/chat/jinja/tree/statements.h"

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/print.h"

namespace quire::jinja {
namespace {

using FilterChain = std::vector<std::unique_ptr<FilterExpression>>;

absl::StatusOr<Value> CaptureAndFilter(Context& context, const Block& body,
                                       const FilterChain& filters) {
  ASSIGN_OR_RETURN(Text text, body.Capture(context));
  Value value(std::move(text));
  for (const auto& filter : filters) {
    ASSIGN_OR_RETURN(value, filter->Apply(context, value));
  }
  return value;
}

absl::Status Print(Context& context, const Value& value) {
  if (value.text() != nullptr) return context.runtime.Append(context.output, *value.text());
  ASSIGN_OR_RETURN(const Text text, ToText(context.runtime, value));
  return context.runtime.Append(context.output, text);
}

}  // namespace

absl::StatusOr<Flow> Statement::Execute(Context& context) const {
  const Runtime::DepthGuard guard = context.runtime.EnterEvaluation();
  RETURN_IF_ERROR(context.runtime.CheckEvaluation());
  context.runtime.line = line;
  return DoExecute(context);
}

absl::StatusOr<Flow> Block::Execute(Context& context) const {
  for (const auto& statement : statements) {
    ASSIGN_OR_RETURN(const Flow flow, statement->Execute(context));
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

absl::StatusOr<Text> Block::Capture(Context& context) const {
  Text text;
  Context inner = context.Inner(&text);
  RETURN_IF_ERROR(Execute(inner).status());
  return text;
}

absl::Status Target::Assign(Context& context, const Value& value) const {
  if (items.empty() && attribute.empty()) {
    context.scope->Set(name, value);
    return absl::OkStatus();
  }
  if (items.empty()) {
    const Value* object = context.scope->Find(name);
    auto* target = object == nullptr ? nullptr : dynamic_cast<Namespace*>(object->object());
    if (target == nullptr) {
      return Error("'", name, "' is not a namespace: attributes of other values cannot be set");
    }
    target->Set(attribute, value);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const List> list, Iterate(context.runtime, value));
  if (list->items.size() != items.size()) {
    return Error("cannot unpack ", list->items.size(), " values into ", items.size(), " names");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    RETURN_IF_ERROR(items[i].Assign(context, list->items[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<Flow> DataStatement::DoExecute(Context& context) const {
  RETURN_IF_ERROR(context.runtime.Append(context.output, data));
  return Flow::kNormal;
}

absl::StatusOr<Flow> OutputStatement::DoExecute(Context& context) const {
  ASSIGN_OR_RETURN(const Value printed, value->Evaluate(context));
  RETURN_IF_ERROR(Print(context, printed));
  return Flow::kNormal;
}

absl::StatusOr<Flow> IfStatement::DoExecute(Context& context) const {
  for (const auto& [condition, body] : branches) {
    ASSIGN_OR_RETURN(const Value chosen, condition->Evaluate(context));
    if (IsTrue(chosen)) return body.Execute(context);
  }
  return otherwise.Execute(context);
}

absl::StatusOr<Flow> JumpStatement::DoExecute(Context&) const { return flow; }

absl::StatusOr<Flow> SetStatement::DoExecute(Context& context) const {
  ASSIGN_OR_RETURN(const Value assigned, value->Evaluate(context));
  RETURN_IF_ERROR(target.Assign(context, assigned));
  return Flow::kNormal;
}

absl::StatusOr<Flow> SetBlockStatement::DoExecute(Context& context) const {
  ASSIGN_OR_RETURN(const Value value, CaptureAndFilter(context, body, filters));
  RETURN_IF_ERROR(target.Assign(context, value));
  return Flow::kNormal;
}

absl::StatusOr<Flow> FilterBlockStatement::DoExecute(Context& context) const {
  ASSIGN_OR_RETURN(const Value value, CaptureAndFilter(context, body, filters));
  RETURN_IF_ERROR(Print(context, value));
  return Flow::kNormal;
}

absl::StatusOr<Flow> WithStatement::DoExecute(Context& context) const {
  Context inner = context.Inner();
  for (const auto& [target, expression] : variables) {
    ASSIGN_OR_RETURN(const Value value, expression->Evaluate(context));
    RETURN_IF_ERROR(target.Assign(inner, value));
  }
  return body.Execute(inner);
}

absl::StatusOr<Flow> GenerationStatement::DoExecute(Context& context) const {
  Context inner = context.Inner();
  return body.Execute(inner);
}

}  // namespace quire::jinja
