// The JSON of a request as values that a chat template sees. It is not trusted: depth and number of
// values are bounded, and time and memory grow as the text, however many keys an object has. If
// keys are equal, the last one counts, in the place of the first. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/fuel.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/value.h"
#include "server/text/json_tree.h"

namespace quire {

// The budget for the values of one request together.
struct JsonBudget {
  Fuel* fuel = nullptr;  // null: as much as it needs
  size_t num_values_left = kMaxJsonValues;
};

// INVALID_ARGUMENT if there are too many values; Fuel's status if there is none left.
absl::StatusOr<jinja::Value> ToValue(const JsonTree& tree, JsonBudget* budget);

// The same for a list of these items.
absl::StatusOr<jinja::Value> ToListValue(const std::vector<JsonTree>& items, JsonBudget* budget);

// The same for a text. INVALID_ARGUMENT also says what is wrong with it.
absl::StatusOr<jinja::Value> ParseJsonValue(std::string_view text, JsonBudget* budget,
                                            size_t max_depth = jinja::kMaxValueDepth);

}  // namespace quire
