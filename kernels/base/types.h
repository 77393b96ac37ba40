// Ids and small enums that every layer names. Plain values; any thread.
#pragma once

#include <cstdint>

namespace quire {

using TokenId = int32_t;
using BlockId = int32_t;     // index into the KV cache's blocks; kNoBlock where there is none
using RequestId = uint64_t;  // chosen by the engine, never reused within a process
using StateSlot = int32_t;   // index into the recurrent states' slots; kNoState: none

inline constexpr BlockId kNoBlock = -1;
inline constexpr StateSlot kNoState = -1;
inline constexpr int64_t kNoSlot = -1;  // slot_mapping entry: do not write this token's KV

// Ceiling division of non-negative integers.
template <typename T>
constexpr T CeilDiv(T a, T b) {
  return (a + b - 1) / b;
}

template <typename T>
constexpr T RoundUp(T a, T multiple) {
  return CeilDiv(a, multiple) * multiple;
}

}  // namespace quire
