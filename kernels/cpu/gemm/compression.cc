#include "kernels/cpu/gemm/compression.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire::cpu {

namespace {

constexpr int kStepElements = static_cast<int>(kStepBytes) / 2;
constexpr int kNumCodes = 16;      // a sign and one of eight upper bytes without it
constexpr int kExceptionRoom = 2;  // at most one exception for this many steps, 256 weights

constexpr int kNumUppers = kNumCodes / 2;
constexpr int64_t kSampledSteps = 128;  // are looked at to choose a panel's codes, at least
constexpr int64_t kPanelsAtATime = 64;

// The upper bytes without their sign that have codes.
using Uppers = std::array<uint8_t, kNumUppers>;

// A step's bytes and codes; codes of exceptions are kNumCodes and above.
struct SplitStep {
  uint8_t lower[kStepElements];
  uint8_t codes[kStepElements];
};

// Written for the compiler to vectorise, as is CountExceptions.
inline void Split(const uint16_t* in, const Uppers& uppers, SplitStep* out) {
  uint8_t upper[kStepElements];
  for (int i = 0; i < kStepElements; ++i) {
    out->lower[i] = static_cast<uint8_t>(in[i]);
    upper[i] = static_cast<uint8_t>(in[i] >> 8);
    out->codes[i] = kNumCodes;
  }
  for (int code = 0; code < kNumUppers; ++code) {
    // At most one of them is it.
    const auto change = static_cast<uint8_t>(kNumCodes ^ code);
    for (int i = 0; i < kStepElements; ++i) {
      out->codes[i] ^= (upper[i] & 0x7F) == uppers[code] ? change : 0;
    }
  }
  for (int i = 0; i < kStepElements; ++i) out->codes[i] |= upper[i] >> 4 & kNumUppers;
}

inline int CountExceptions(const SplitStep& step) {
  uint8_t all = 0;
  for (int i = 0; i < kStepElements; ++i) all |= step.codes[i];
  if (all < kNumCodes) return 0;
  int count = 0;
  for (int i = 0; i < kStepElements; ++i) count += step.codes[i] >= kNumCodes;
  return count;
}

struct PanelPlan {
  Uppers uppers;
  int64_t num_exceptions;
};

// The most frequent upper bytes of a sample; of those that are as frequent (not seen, most likely)
// the nearest to the most frequent one, as weights are.
Uppers ChooseUppers(const uint16_t* weights, int64_t num_steps) {
  // Neighbours are alike often: two counters keep one addition from waiting for another.
  std::array<std::array<int, 128>, 2> counts = {};
  const int64_t stride = std::max<int64_t>(1, num_steps / kSampledSteps);
  for (int64_t step = 0; step < num_steps; step += stride) {
    for (int i = 0; i < kStepElements; ++i) {
      ++counts[i % 2][weights[step * kStepElements + i] >> 8 & 0x7F];
    }
  }
  const auto count = [&](int upper) { return counts[0][upper] + counts[1][upper]; };
  std::array<uint8_t, 128> ranked;
  std::iota(ranked.begin(), ranked.end(), 0);
  const int first = *std::max_element(ranked.begin(), ranked.end(),
                                      [&](int a, int b) { return count(a) < count(b); });
  std::partial_sort(ranked.begin(), ranked.begin() + kNumUppers, ranked.end(), [&](int a, int b) {
    return std::pair(-count(a), std::abs(a - first)) < std::pair(-count(b), std::abs(b - first));
  });
  Uppers uppers;
  std::copy_n(ranked.begin(), kNumUppers, uppers.begin());
  return uppers;
}

PanelPlan PlanPanel(const uint16_t* weights, int64_t num_steps) {
  PanelPlan plan = {.uppers = ChooseUppers(weights, num_steps), .num_exceptions = 0};
  for (int64_t step = 0; step < num_steps; ++step) {
    SplitStep split;
    Split(weights + step * kStepElements, plan.uppers, &split);
    plan.num_exceptions += CountExceptions(split);
  }
  return plan;
}

void CompressStep(const uint16_t* in, const Uppers& uppers, int32_t step, char* out,
                  WeightException** next_exception) {
  SplitStep split;
  Split(in, uppers, &split);
  if (CountExceptions(split) > 0) {
    for (int i = 0; i < kStepElements; ++i) {
      if (split.codes[i] < kNumCodes) continue;
      *(*next_exception)++ = {step, static_cast<uint16_t>(i), in[i]};
      split.codes[i] = 0;
    }
  }
  // Eight elements at a time, which stay together.
  for (int vector = 0; vector < 2; ++vector) {
    for (int byte = 0; byte < 64; byte += 8) {
      std::memcpy(out + 64 * vector + byte, split.lower + ElementAt(vector, byte), 8);
    }
  }
  for (int byte = 0; byte < 64; byte += 8) {
    const uint8_t* first = split.codes + ElementAt(0, byte);
    const uint8_t* second = split.codes + ElementAt(1, byte);
    for (int i = 0; i < 8; ++i) {
      out[128 + byte + i] = static_cast<char>(first[i] | second[i] << 4);
    }
  }
}

// Weights that nobody reads: any bits would become exceptions.
void ClearPadding(const LinearWeight& weight) {
  const int64_t last_rows = weight.out_features % kPanelFeatures;
  if (last_rows == 0) return;
  char* panel =
      static_cast<char*>(weight.data) + (NumPanels(weight) - 1) * NumSteps(weight) * kStepBytes;
  for (int64_t step = 0; step < NumSteps(weight); ++step) {
    std::memset(panel + step * kStepBytes + 4 * last_rows, 0,
                static_cast<size_t>(kStepBytes - 4 * last_rows));
  }
}

// Where the panels lie: `room` exceptions each, a whole number of cache lines.
int64_t PanelBytes(int64_t num_steps, int64_t room) {
  const int64_t bytes = static_cast<int64_t>(sizeof(CompressedPanel)) +
                        num_steps * kCompressedStepBytes +
                        room * static_cast<int64_t>(sizeof(WeightException));
  return CeilDiv<int64_t>(bytes, 64) * 64;
}

void CompressPanel(const uint16_t* weights, int64_t num_steps, const PanelPlan& plan, char* out) {
  auto* panel = reinterpret_cast<CompressedPanel*>(out);
  for (int code = 0; code < kNumUppers; ++code) {
    panel->upper[code] = plan.uppers[code];
    panel->upper[code + kNumUppers] = plan.uppers[code] | 0x80;
  }
  panel->num_exceptions = static_cast<int32_t>(plan.num_exceptions);
  char* const steps = out + sizeof(CompressedPanel);
  auto* exception = reinterpret_cast<WeightException*>(steps + num_steps * kCompressedStepBytes);
  for (int64_t step = 0; step < num_steps; ++step) {
    CompressStep(weights + step * kStepElements, plan.uppers, static_cast<int32_t>(step),
                 steps + step * kCompressedStepBytes, &exception);
  }
}

}  // namespace

void Compress(LinearWeight& weight, void* target, ThreadPool& pool) {
  if (weight.dtype != DType::kBF16) return;
  CHECK_EQ(reinterpret_cast<uintptr_t>(target) % alignof(CompressedPanel), 0u);
  CHECK_LE(target, weight.data);
  ClearPadding(weight);
  const char* const data = static_cast<char*>(weight.data);
  char* const out = static_cast<char*>(target);
  const int64_t num_panels = NumPanels(weight);
  const int64_t num_steps = NumSteps(weight);
  const int64_t packed_bytes = num_steps * kStepBytes;
  const auto packed = [&](int64_t panel) {
    return reinterpret_cast<const uint16_t*>(data + panel * packed_bytes);
  };
  std::vector<PanelPlan> plans(num_panels);
  pool.ParallelFor(num_panels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) plans[i] = PlanPanel(packed(i), num_steps);
  });
  int64_t room = 0;
  for (const PanelPlan& plan : plans) room = std::max(room, plan.num_exceptions);
  const int64_t panel_bytes = PanelBytes(num_steps, room);
  if (room > num_steps / kExceptionRoom || panel_bytes > packed_bytes) return;
  // Side by side: gaps would cost a third of the bandwidth. Panels go where others were, so some
  // are compressed before any of them goes there.
  std::vector<CacheLine> lines(std::min(num_panels, kPanelsAtATime) * panel_bytes / 64);
  char* const staging = lines.data()->bytes;
  for (int64_t first = 0; first < num_panels; first += kPanelsAtATime) {
    const int64_t count = std::min(kPanelsAtATime, num_panels - first);
    pool.ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        CompressPanel(packed(first + i), num_steps, plans[first + i], staging + i * panel_bytes);
      }
    });
    pool.ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
      std::memcpy(out + (first + begin) * panel_bytes, staging + begin * panel_bytes,
                  static_cast<size_t>((end - begin) * panel_bytes));
    });
  }
  weight.data = target;
  weight.compressed_bytes = num_panels * panel_bytes;
}

void UnpackCompressedRow(const LinearWeight& weight, int64_t row, BFloat16* out) {
  const CompressedPanel& panel = CompressedPanelOf(weight, row / kPanelFeatures);
  const int64_t num_steps = NumSteps(weight);
  const int first_element = static_cast<int>(row % kPanelFeatures) * 2;
  // Where the row's two elements of a step are.
  const int vector = first_element / 64;
  int byte = 0;
  while (ElementAt(vector, byte) != first_element) ++byte;
  const auto element = [&](const char* step, int b) {
    const auto lower = static_cast<uint8_t>(step[64 * vector + b]);
    const int code = static_cast<uint8_t>(step[128 + b]) >> (4 * vector) & 0xF;
    return static_cast<uint16_t>(panel.upper[code] << 8 | lower);
  };
  for (int64_t i = 0; i < weight.in_features; ++i) {
    out[i].bits = element(panel.Step(i / 2), byte + static_cast<int>(i % 2));
  }
  ExceptionRange exceptions = panel.Exceptions(num_steps);
  for (; exceptions.next != exceptions.end; ++exceptions.next) {
    const int which = exceptions.next->element - first_element;
    const int64_t column = int64_t{2} * exceptions.next->step + which;
    if (which >= 0 && which < 2 && column < weight.in_features) {
      out[column].bits = exceptions.next->bits;
    }
  }
}

}  // namespace quire::cpu
