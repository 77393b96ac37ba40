// The filters (`value | name(...)`) and tests (`value is name(...)`) by name. Pure functions of
// their arguments and the render budget; an unknown name is found out when the template is
// compiled.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/text/chat/jinja/values/arguments.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

using FilterFunction = absl::StatusOr<Value> (*)(Runtime& runtime, const Value& input,
                                                 const Arguments& arguments);
using TestFunction = absl::StatusOr<bool> (*)(Runtime& runtime, const Value& input,
                                              const Arguments& arguments);

// Null when there is none of that name.
FilterFunction FindFilter(std::string_view name);
TestFunction FindTest(std::string_view name);

struct Filter {
  std::string_view name;
  FilterFunction function;
};

// The parts of the table that FindFilter searches.
absl::Span<const Filter> TextFilters();
absl::Span<const Filter> NumberFilters();
absl::Span<const Filter> ListFilters();
absl::Span<const Filter> SelectFilters();

// item.a.b for the attribute "a.b" (digits are indices), or item[attribute] for an int. A non-null
// `fallback` replaces undefined values on the way.
absl::StatusOr<Value> GetPath(Runtime& runtime, const Value& item, const Value& attribute,
                              const Value* fallback);

}  // namespace quire::jinja
