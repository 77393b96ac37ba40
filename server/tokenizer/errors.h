// Error statuses from texts and numbers. Debian's absl::StrCat does not take std::string_view; this
// does. Pure functions; any thread; cold paths only.
#pragma once

#include <sstream>
#include <string>

#include "absl/status/status.h"

namespace quire {

template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(Concat(parts...));
}

template <typename... Parts>
absl::Status Unimplemented(const Parts&... parts) {
  return absl::UnimplementedError(Concat(parts...));
}

}  // namespace quire
