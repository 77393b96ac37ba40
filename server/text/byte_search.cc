#include "server/text/byte_search.h"

#include <string.h>

#include <string>

namespace quire {

size_t FindBytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem, unlike string_view::find, is linear in the worst case.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t FindLastBytes(std::string_view text, std::string_view needle) {
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_needle(needle.rbegin(), needle.rend());
  const size_t found = FindBytes(reversed_text, reversed_needle, 0);
  return found == std::string_view::npos ? found : text.size() - found - needle.size();
}

}  // namespace quire
