// Numbers with a unit at the end: "32k" tokens, "1.5G" bytes. Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace quire {

// A count: digits, perhaps a fraction, and perhaps one letter. As in vLLM a lower-case letter is
// decimal (k = 1000, m, g, t) and a capital one binary (K = 1024, M, G, T). A fraction needs a
// letter, and a fraction of the result is dropped: 1.5k is 1500. Nothing for other text and for
// more than 2^63 - 1.
std::optional<int64_t> ParseCount(absl::string_view text);

// A number of bytes: as ParseCount (4G is 4 GiB), and KiB, MiB, GiB, TiB (binary) and kB, KB, MB,
// GB, TB (decimal).
std::optional<int64_t> ParseBytes(absl::string_view text);

}  // namespace quire
