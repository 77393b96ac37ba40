// How values become text: Python's str() and repr(), and json.dumps() as transformers' tojson
// filter calls it. One render, one thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

// str(value): a text as it is, with its origins; everything else as user text.
absl::StatusOr<Text> ToText(Runtime& runtime, const Value& value);

// repr(value).
absl::StatusOr<std::string> Repr(Runtime& runtime, const Value& value);

std::string IntegerToString(Integer value);

// Shortest digits that read back as the same double, in Python's layout: 1.0, 1e+16, inf.
std::string FloatToString(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // One level of it; unset writes a single line.
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Error for a value that JSON cannot express (undefined, namespace, generator, ...).
absl::StatusOr<std::string> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace quire::jinja
