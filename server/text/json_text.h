// Any text as a JSON string. Pure; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace quire {

// In quotes and in ASCII; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(absl::string_view text);

}  // namespace quire
