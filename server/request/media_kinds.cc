#include "server/request/media_kinds.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace quire {

absl::string_view MediaKindOf(absl::string_view name) {
  for (const auto& [part, kind] : {std::pair("image", "pictures"), std::pair("video", "videos"),
                                   std::pair("audio", "sounds"), std::pair("file", "files")}) {
    if (absl::StrContains(name, part)) return kind;
  }
  return "";
}

std::string WhyNoMedia(absl::string_view kind) {
  return absl::StrCat(kind, " are not supported by this server, which takes text");
}

}  // namespace quire
