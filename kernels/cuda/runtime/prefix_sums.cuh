// Sums of what lanes, or elements, before one have. Device code only.
#pragma once

namespace quire::cuda {

// The sum of the values of the lanes up to this one, itself among them. All lanes of a warp call
// it.
template <typename T>
__device__ T UpToLane(T value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

// counts [size], in shared memory, become the sums of those before each; returns the sum of all.
// Only one warp calls it.
__device__ inline int SumBefore(int* counts, int size) {
  constexpr int kWarp = 32;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int before = 0;
  for (int first = 0; first < size; first += kWarp) {
    const int count = first + lane < size ? counts[first + lane] : 0;
    const int sum = UpToLane(count);
    if (first + lane < size) counts[first + lane] = before + sum - count;
    before += __shfl_sync(~0u, sum, kWarp - 1);
  }
  return before;
}

}  // namespace quire::cuda
