// The parts of a message that no model here can see or hear. Pure functions; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace quire {

// The kind of a part, by its type or by a key that it has: "pictures" for "image_url"; empty if it
// may be text.
absl::string_view MediaKindOf(absl::string_view name);

// Why they are refused: "pictures are not supported by this server, which takes text".
std::string WhyNoMedia(absl::string_view kind);

}  // namespace quire
