// The escape sequences of string literals.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quire::jinja {

// The text that a Python string literal with this content stands for. An error on a cut or
// impossible escape.
absl::StatusOr<std::string> UnescapeString(std::string_view content);

}  // namespace quire::jinja
