// SHA-256 of short texts, by OpenSSL. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace quire {

using Sha256 = std::array<uint8_t, 32>;

Sha256 Sha256Of(absl::string_view text);

}  // namespace quire
