// The page at /, made of server/surfaces/web/page/ when the server is built.
#pragma once

#include "absl/strings/string_view.h"

namespace quire {

absl::string_view PageText();

}  // namespace quire
