// Builds the syntax tree of a template. Pure; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/tree/statements.h"

namespace quire::jinja {

// Limits on the form of a template; they bound the stack that parsing and rendering need.
inline constexpr size_t kMaxNesting =
    64;  // Brackets, blocks and prefix operators inside each other.
inline constexpr size_t kMaxTreeHeight = 100;  // Also counts chains, such as a + b + c or a.b.c.
inline constexpr size_t kMaxArguments = 255;   // In one call, filter or macro.

// An error names the line and the text that was expected there.
absl::StatusOr<Block> Parse(std::string_view source);

}  // namespace quire::jinja
