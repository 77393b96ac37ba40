// Finds the results of `.`, `[]` and method calls. Templates may read values, never change them:
// methods that change a list or dict do not exist here. One render, one thread.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/values/arguments.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

// object.name: a method, else the entry of a dict, else undefined. An error when the object is
// undefined.
absl::StatusOr<Value> GetAttribute(Runtime& runtime, const Value& object, std::string_view name);

// object[key]: an item, else the result of GetAttribute for a text key, else undefined.
absl::StatusOr<Value> GetItem(Runtime& runtime, const Value& object, const Value& key);

// object[start:stop:step]; None stands for a bound left out.
absl::StatusOr<Value> GetSlice(Runtime& runtime, const Value& object, const Value& start,
                               const Value& stop, const Value& step);

struct Method {
  std::string_view name;
  absl::StatusOr<Value> (*call)(Runtime& runtime, const Value& self, const Arguments& arguments);
};

// The method of that name; null if its type has none.
const Method* FindTextMethod(std::string_view name);
const Method* FindListMethod(std::string_view name);
const Method* FindDictMethod(std::string_view name);

}  // namespace quire::jinja
