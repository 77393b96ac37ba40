// MacroStatement, CallBlockStatement and the function that a macro is.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/tree/statements.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire::jinja {
namespace {

class Macro : public Object {
 public:
  Macro(const MacroDefinition& definition, const std::shared_ptr<Scope>& scope)
      : definition_(definition), scope_(scope) {}

  std::string_view type_name() const override { return "macro"; }
  bool callable() const override { return true; }

  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    // The scope holds this macro. A pointer that is not weak would keep the scope alive.
    const std::shared_ptr<Scope> scope = scope_.lock();
    if (scope == nullptr)
      return ErrorInMacro("was called after the block that defines it had ended");
    Text text;
    Context context{runtime, std::make_shared<Scope>(scope), &text};
    RETURN_IF_ERROR(BindParameters(context, arguments));
    RETURN_IF_ERROR(BindRest(context, arguments));
    RETURN_IF_ERROR(definition_.body.Execute(context).status());
    return Value(std::move(text));
  }

  absl::StatusOr<Value> Attribute(Runtime& runtime, std::string_view name) override {
    if (name == "name") return runtime.NewText(definition_.name, Origin::kTemplate);
    return Object::Attribute(runtime, name);
  }

 private:
  template <typename... Pieces>
  absl::Status ErrorInMacro(const Pieces&... pieces) const {
    return Error("macro '", definition_.name, "' ", pieces...);
  }

  static const Value* FindKeyword(const Arguments& arguments, std::string_view name) {
    for (const auto& [key, value] : arguments.keyword) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  // Whether one of the parameters after the first `begin` has this name.
  bool IsParameter(std::string_view name, size_t begin = 0) const {
    const auto& parameters = definition_.parameters;
    return std::any_of(
        parameters.begin() + static_cast<std::ptrdiff_t>(std::min(begin, parameters.size())),
        parameters.end(), [name](const auto& parameter) { return parameter.first == name; });
  }

  absl::Status BindParameters(Context& context, const Arguments& arguments) const {
    for (size_t i = 0; i < definition_.parameters.size(); ++i) {
      const auto& [name, fallback] = definition_.parameters[i];
      const Value* keyword = FindKeyword(arguments, name);
      Value value = Value::UndefinedNamed(Concat("parameter '", name, "' was not provided"));
      if (i < arguments.positional.size()) {
        value = arguments.positional[i];
      } else if (keyword != nullptr) {
        value = *keyword;
      } else if (fallback != nullptr) {
        ASSIGN_OR_RETURN(value, fallback->Evaluate(context));
      }
      context.scope->Set(name, std::move(value));
    }
    return absl::OkStatus();
  }

  // Binds what no parameter took: caller, varargs and kwargs, where the body uses them.
  absl::Status BindRest(Context& context, const Arguments& arguments) const {
    const size_t num_parameters = definition_.parameters.size();
    std::vector<Value> varargs;
    for (size_t i = num_parameters; i < arguments.positional.size(); ++i) {
      varargs.push_back(arguments.positional[i]);
    }
    if (!varargs.empty() && !definition_.uses_varargs) {
      return ErrorInMacro("takes at most ", num_parameters, " arguments");
    }
    Dict kwargs;
    Value caller = Value::UndefinedNamed("No caller defined");
    for (const auto& [name, value] : arguments.keyword) {
      if (IsParameter(name, arguments.positional.size())) continue;
      if (name == "caller" && definition_.uses_caller) {
        caller = value;
      } else if (definition_.uses_kwargs) {
        // A name may have come with **, out of what the user sent.
        kwargs.Set(Value(Text(name, Origin::kUser)), value);
      } else if (IsParameter(name)) {
        return ErrorInMacro("got '", name, "' twice");
      } else {
        return ErrorInMacro("takes no argument '", name, "'");
      }
    }
    if (definition_.uses_caller && !IsParameter("caller")) context.scope->Set("caller", caller);
    if (definition_.uses_varargs) {
      ASSIGN_OR_RETURN(Value list, context.runtime.NewList(ListKind::kTuple, std::move(varargs)));
      context.scope->Set("varargs", std::move(list));
    }
    if (definition_.uses_kwargs) {
      ASSIGN_OR_RETURN(Value dict, context.runtime.NewDict(std::move(kwargs)));
      context.scope->Set("kwargs", std::move(dict));
    }
    return absl::OkStatus();
  }

  const MacroDefinition& definition_;
  const std::weak_ptr<Scope> scope_;
};

Value MakeMacro(const MacroDefinition& definition, const std::shared_ptr<Scope>& scope) {
  return Value(std::make_shared<Macro>(definition, scope));
}

}  // namespace

absl::StatusOr<Flow> MacroStatement::DoExecute(Context& context) const {
  context.scope->Set(macro.name, MakeMacro(macro, context.scope));
  return Flow::kNormal;
}

absl::StatusOr<Flow> CallBlockStatement::DoExecute(Context& context) const {
  const Value block = MakeMacro(caller, context.scope);
  ASSIGN_OR_RETURN(const Value result, call->EvaluateWith(context, &block));
  if (result.text() == nullptr) return Error("a call block must call a macro");
  RETURN_IF_ERROR(context.runtime.Append(context.output, *result.text()));
  return Flow::kNormal;
}

}  // namespace quire::jinja
