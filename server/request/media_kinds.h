// What parts of a message are that no model here can see or hear. Pure functions; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace quire {

// Of a part's type, or of a key that it has: "pictures" of "image_url"; empty of what may be text.
absl::string_view MediaKindOf(absl::string_view name);

// Why they are refused: "pictures are not supported by this server, which takes text".
std::string WhyNoMedia(absl::string_view kind);

}  // namespace quire
