// How the heads that StoreHeads takes out of a row lie over a warp's lanes: runs of elements, whole
// vectors of 16-bit numbers where they can be, with their loads and stores. Device code.
#pragma once

#include <algorithm>

#include "kernels/base/types.h"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

// A head's elements and the pairs of them that are rotated.
struct HeadPairs {
  int head_dim, num_pairs;
  int pair_distance;  // num_pairs of neighbours, which have as little between their halves
  bool neighbours;
};

// What a lane has of every head: two runs of up to kVector elements. The first lanes have the pairs
// from lane * kVector on: partners of the first run in the second, or neighbours, in both.
struct HeadRuns {
  int begin[2];
  int size[2];
  int num_pairs;
};

// The elements without partners lie between and behind the pairs' halves: [num_pairs,
// pair_distance) and [pair_distance + num_pairs, head_dim), each divided into runs of its own.
__device__ inline HeadRuns RunsOfLane(int lane, const HeadPairs& pairs) {
  const auto& [head_dim, num_pairs, pair_distance, neighbours] = pairs;
  const int num_rotating = CeilDiv(num_pairs, kVector);  // lanes
  if (lane < num_rotating) {
    const int begin = lane * kVector;
    const int size = min(kVector, num_pairs - begin);
    if (!neighbours) return {{begin, pair_distance + begin}, {size, size}, size};
    return {{2 * begin, 2 * begin + kVector},
            {min(kVector, 2 * size), max(0, 2 * size - kVector)},
            size};
  }
  HeadRuns runs = {};
  const int num_between = CeilDiv(pair_distance - num_pairs, kVector);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int run = 2 * (lane - num_rotating) + i;
    const bool is_between = run < num_between;
    const int first = is_between ? num_pairs : pair_distance + num_pairs - num_between * kVector;
    runs.begin[i] = first + run * kVector;
    const int end = is_between ? pair_distance : head_dim;
    runs.size[i] = min(kVector, max(0, end - runs.begin[i]));
  }
  return runs;
}

// Of a head.
inline int NumLanes(const HeadPairs& pairs) {
  const auto& [head_dim, num_pairs, pair_distance, neighbours] = pairs;
  const int num_runs = CeilDiv(pair_distance - num_pairs, kVector) +
                       CeilDiv(head_dim - pair_distance - num_pairs, kVector);
  return CeilDiv(num_pairs, kVector) + CeilDiv(num_runs, 2);
}

// A run as it lies in memory, so that many can be under way at once.
template <typename T>
struct RawRun {
  static constexpr int kWords = kVector * sizeof(T) / 16;
  uint4 words[kWords];
};

// kWhole: a run is kVector elements, on 16 bytes, or none.
template <bool kWhole, typename T>
__device__ RawRun<T> LoadRun(const T* from, int size) {
  RawRun<T> raw = {};
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < RawRun<T>::kWords; ++i) {
      if (size > 0) raw.words[i] = reinterpret_cast<const uint4*>(from)[i];
    }
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (j < size) reinterpret_cast<T*>(raw.words)[j] = from[j];
    }
  }
  return raw;
}

template <typename T>
__device__ void Unpack(const RawRun<T>& raw, float (&values)[kVector]) {
  Load(reinterpret_cast<const T*>(raw.words), values);
}

template <bool kWhole, typename T>
__device__ void StoreRun(const float (&values)[kVector], int size, T* to) {
  if constexpr (kWhole) {
    if (size > 0) Store(values, to);
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (j < size) Store<1>({values[j]}, to + j);
    }
  }
}

// 8-bit elements, the values divided by their scale as on the CPU: times its reciprocal some would
// round to other bits.
template <bool kWhole>
__device__ void StoreRun(const float (&values)[kVector], int size, float scale, DType dtype,
                         Float8Bits* to) {
  float scaled[kVector];
#pragma unroll
  for (int j = 0; j < kVector; ++j) scaled[j] = __fdiv_rn(values[j], scale);
  if constexpr (kWhole) {
    if (size > 0) StoreFloat8(scaled, dtype, to);
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (j < size) StoreFloat8<1>({scaled[j]}, dtype, to + j);
    }
  }
}

// A lane's weights of a head norm as they lie in memory, 16-bit ones in the first of two words.
struct RawNorm {
  uint4 words[2][2];
  DType dtype;

  __device__ void Unpack(float (&weight)[2][kVector]) const {
#pragma unroll
    for (int run = 0; run < 2; ++run) {
      FloatVector held;
      held.data = words[run];
      held.dtype = dtype;
      held.LoadAt(0, weight[run]);
    }
  }
};

// Ones where the norm has no weight.
template <bool kWhole>
__device__ RawNorm LoadNorm(FloatVector norm, const HeadRuns& runs) {
  constexpr unsigned kOne = 0x3f800000;  // in float32, an empty tensor's dtype
  constexpr uint4 kOnes = {kOne, kOne, kOne, kOne};
  RawNorm raw = {{{kOnes, kOnes}, {kOnes, kOnes}}, kWhole ? norm.dtype : DType::kF32};
  if (norm.data == nullptr) return raw;
#pragma unroll
  for (int run = 0; run < 2; ++run) {
    if constexpr (kWhole) {
      if (runs.size[run] == 0) continue;
      const bool is_f32 = norm.dtype == DType::kF32;
      const auto* from = reinterpret_cast<const uint4*>(static_cast<const char*>(norm.data) +
                                                        runs.begin[run] * (is_f32 ? 4 : 2));
      raw.words[run][0] = from[0];
      if (is_f32) raw.words[run][1] = from[1];
    } else {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        float value[1] = {};
        if (j < runs.size[run]) norm.LoadAt(runs.begin[run] + j, value);
        reinterpret_cast<float*>(raw.words[run])[j] = value[0];
      }
    }
  }
  return raw;
}

}  // namespace quire::cuda
