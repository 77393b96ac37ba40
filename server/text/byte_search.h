// Looking for bytes in bytes in linear time on any input, which std::string_view::find does not
// promise. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace quire {

// First offset >= `from` at which `text` has `needle`, or npos. Linear time on any input.
size_t FindBytes(std::string_view text, std::string_view needle, size_t from);

// Last offset at which `text` has `needle`, or npos. Linear time on any input.
size_t FindLastBytes(std::string_view text, std::string_view needle);

}  // namespace quire
