// Limits of one request, checked before anything is allocated in proportion to them, beside those
// of engine/request_check.h. Part of the wire contract: the sentences that refuse a request quote
// them.
#pragma once

#include <cstddef>

namespace quire {

inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr size_t kMaxCacheSaltBytes = 128;
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;
inline constexpr size_t kMaxMessages = 4096;

}  // namespace quire
