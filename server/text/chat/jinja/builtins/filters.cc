#include "server/text/chat/jinja/builtins/filters.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/attributes.h"
#include "server/text/chat/jinja/builtins/text_operations.h"

namespace quire::jinja {
namespace {

// Digits are an index, all else is a name.
Value PathPart(const Value& part) {
  int64_t index = 0;
  if (part.text() == nullptr) return part;
  const std::string digits(part.text()->bytes());
  const bool is_index = digits.find_first_not_of("0123456789") == std::string::npos &&
                        absl::SimpleAtoi(digits, &index);
  if (is_index) return Value(Integer{index});
  return part;
}

}  // namespace

FilterFunction FindFilter(std::string_view name) {
  for (const absl::Span<const Filter> filters :
       {TextFilters(), NumberFilters(), ListFilters(), SelectFilters()}) {
    const auto found = std::find_if(filters.begin(), filters.end(),
                                    [name](const Filter& filter) { return filter.name == name; });
    if (found != filters.end()) return found->function;
  }
  return nullptr;
}

absl::StatusOr<Value> GetPath(Runtime& runtime, const Value& item, const Value& attribute,
                              const Value* fallback) {
  std::vector<Value> parts = {attribute};
  if (attribute.text() != nullptr) {
    const Text dot(".", Origin::kTemplate);
    ASSIGN_OR_RETURN(parts, Split(runtime, *attribute.text(), &dot, -1));
  }
  Value value = item;
  for (const Value& part : parts) {
    ASSIGN_OR_RETURN(value, GetItem(runtime, value, PathPart(part)));
    if (value.is_undefined() && fallback != nullptr) value = *fallback;
  }
  return value;
}

}  // namespace quire::jinja
