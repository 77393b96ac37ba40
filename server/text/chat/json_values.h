// The JSON of a request as values that a chat template sees. It is not trusted: depth and number of
// values are bounded, and time and memory grow as the text, however many keys an object has. Of
// equal keys the last one counts, in the place of the first. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/base/fuel.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/value.h"
#include "server/text/json_tree.h"

namespace quire {

// What the values of one request may take together.
struct JsonBudget {
  Fuel* fuel = nullptr;  // null: as much as it needs
  size_t num_values_left = kMaxJsonValues;
};

// INVALID_ARGUMENT where there are too many values; Fuel's status where there is none left.
absl::StatusOr<jinja::Value> ToValue(const JsonTree& tree, JsonBudget* budget);

// The same of a text. INVALID_ARGUMENT says what is wrong with it, too.
absl::StatusOr<jinja::Value> ParseJsonValue(std::string_view text, JsonBudget* budget,
                                            size_t max_depth = jinja::kMaxValueDepth);

}  // namespace quire
