#include "server/text/chat/jinja/values/arguments.h"

#include <algorithm>

#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"

namespace quire::jinja {

absl::StatusOr<BoundArguments> BoundArguments::Bind(
    const Arguments& arguments, std::initializer_list<std::string_view> parameters,
    size_t num_required) {
  if (arguments.positional.size() > parameters.size()) {
    return Error("takes at most ", parameters.size(), " arguments, got ",
                 arguments.positional.size());
  }
  BoundArguments bound;
  bound.parameters_ = parameters;
  bound.values_.resize(parameters.size(), nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = &arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.keyword) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      return Error("has no argument '", name, "'");
    }
    const Value*& slot = bound.values_[static_cast<size_t>(found - parameters.begin())];
    if (slot != nullptr) {
      return Error("argument '", name, "' is given twice");
    }
    slot = &value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (bound.values_[i] == nullptr) {
      return Error("argument '", bound.parameters_[i], "' is missing");
    }
  }
  return bound;
}

absl::StatusOr<Integer> BoundArguments::IntegerOr(size_t index, Integer fallback) const {
  const Value* value = values_[index];
  if (value == nullptr || value->is_none()) return fallback;
  if (value->is_integer()) return value->integer();
  return Error("argument '", parameters_[index], "' must be an int, not ", value->type_name());
}

absl::StatusOr<bool> BoundArguments::BoolOr(size_t index, bool fallback) const {
  const Value* value = values_[index];
  if (value == nullptr || value->is_none()) return fallback;
  return IsTrue(*value);
}

absl::StatusOr<Text> BoundArguments::TextOr(size_t index, const Text& fallback) const {
  const Value* value = values_[index];
  if (value == nullptr || value->is_none()) return fallback;
  if (value->text() != nullptr) return *value->text();
  return Error("argument '", parameters_[index], "' must be a str, not ", value->type_name());
}

}  // namespace quire::jinja
