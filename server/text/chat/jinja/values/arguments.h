// The arguments of a call, filter or test, and how they are matched with parameter names.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

// Arguments in the order of the parameters; null for those that the caller did not give. Points
// into the Arguments.
class BoundArguments {
 public:
  // Error if there are too many, an unknown name, one given twice, or one of the first
  // `num_required` is missing.
  static absl::StatusOr<BoundArguments> Bind(const Arguments& arguments,
                                             std::initializer_list<std::string_view> parameters,
                                             size_t num_required = 0);

  const Value* operator[](size_t index) const { return values_[index]; }

  // The argument, or `fallback` if it is absent or None. An error names the parameter.
  absl::StatusOr<Integer> IntegerOr(size_t index, Integer fallback) const;
  absl::StatusOr<bool> BoolOr(size_t index, bool fallback) const;
  absl::StatusOr<Text> TextOr(size_t index, const Text& fallback) const;

 private:
  std::vector<const Value*> values_;
  std::vector<std::string_view> parameters_;
};

}  // namespace quire::jinja
