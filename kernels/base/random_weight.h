// The values of random weights (WeightStore::Fill). Each value depends only on (seed, tensor_id,
// row, column): it is the sum of the 8 bytes of a 64-bit mix of these four. Such a sum is
// approximately normal, with a range of +-4.88 deviations. The values are the same on every
// backend. Plain functions; any thread.
#pragma once

#include <cmath>
#include <cstdint>

namespace quire {

inline constexpr uint64_t kGoldenRatio64 = 0x9e3779b97f4a7c15u;

// splitmix64's finaliser: every input bit reaches every output bit.
constexpr uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The part of the mix that the elements of one row share.
constexpr uint64_t RandomRowKey(uint64_t seed, uint64_t tensor_id, int64_t row) {
  return Mix64(Mix64(Mix64(seed + kGoldenRatio64) + tensor_id) + static_cast<uint64_t>(row));
}

// The sum of 8 random bytes less its mean; its variance is 8 * (256^2 - 1) / 12 = 43690.
constexpr int32_t RandomByteSum(uint64_t row_key, int64_t column) {
  constexpr uint64_t kEvenBytes = 0x00ff00ff00ff00ffu;
  const uint64_t bits = Mix64(row_key + static_cast<uint64_t>(column) * kGoldenRatio64);
  const uint64_t pairs = (bits & kEvenBytes) + (bits >> 8 & kEvenBytes);
  return static_cast<int32_t>(pairs * 0x0001000100010001u >> 48) - 1020;
}

// What a byte sum is multiplied with to get this deviation.
inline float RandomWeightScale(float stddev) {
  return static_cast<float>(stddev / std::sqrt(43690.0));
}

}  // namespace quire
