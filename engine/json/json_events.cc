#include "engine/json/json_events.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quire {

bool JsonEvents::Enter() {
  if (depth_ == max_depth_) return Fail(absl::StrCat("nested more than ", max_depth_, " deep"));
  ++depth_;
  return true;
}

bool JsonEvents::RefuseNul(size_t position) {
  return Fail(absl::StrCat("not valid JSON at byte ", position + 1, ": a NUL"));
}

// "[json.exception.parse_error.101] <message>; last read: '<raw bytes>'"
bool JsonEvents::FailSyntax(size_t position, absl::string_view message) {
  constexpr size_t kMaxChars = 300;
  message.remove_prefix(std::min(message.find("] ") + 2, message.size()));
  message = message.substr(0, message.find("; last read")).substr(0, kMaxChars);
  return Fail(absl::StrCat("not valid JSON at byte ", position, ": ", message));
}

}  // namespace quire
