#include "kernels/cpu/compression.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire::cpu {

namespace {

constexpr int kStepElements = static_cast<int>(kStepBytes) / 2;
constexpr int kNumCodes = 16;      // a sign and one of eight upper bytes without it
constexpr int kExceptionRoom = 2;  // at most one exception for so many steps, 256 weights

// By upper byte; kNumCodes for an exception.
using CodeTable = std::array<uint8_t, 256>;

struct PanelPlan {
  std::array<uint8_t, 16> upper;  // CompressedPanel::upper
  int64_t num_exceptions;
};

// The upper bytes that leave the fewest exceptions.
PanelPlan PlanPanel(const uint16_t* weights, int64_t num_weights) {
  // Neighbours are alike often: four counters keep one addition from waiting for another.
  std::array<std::array<uint32_t, 128>, 4> counts = {};
  for (int64_t i = 0; i < num_weights; ++i) ++counts[i % 4][weights[i] >> 8 & 0x7F];
  std::array<std::pair<int64_t, uint8_t>, 128> ranked;
  for (int upper = 0; upper < 128; ++upper) {
    const int64_t count =
        int64_t{counts[0][upper]} + counts[1][upper] + counts[2][upper] + counts[3][upper];
    ranked[upper] = {-count, static_cast<uint8_t>(upper)};
  }
  std::partial_sort(ranked.begin(), ranked.begin() + kNumCodes / 2, ranked.end());
  PanelPlan plan = {.upper = {}, .num_exceptions = num_weights};
  for (int code = 0; code < kNumCodes / 2; ++code) {
    const auto [count, upper] = ranked[code];
    plan.upper[code] = upper;
    plan.upper[code + kNumCodes / 2] = upper | 0x80;
    plan.num_exceptions += count;
  }
  return plan;
}

CodeTable CodesOf(const PanelPlan& plan) {
  CodeTable codes;
  codes.fill(kNumCodes);
  for (int code = 0; code < kNumCodes; ++code) {
    codes[plan.upper[code]] = static_cast<uint8_t>(code);
  }
  return codes;
}

void CompressStep(const uint16_t* in, const CodeTable& code_of, int32_t step, char* out,
                  std::vector<WeightException>* exceptions) {
  uint8_t lower[kStepElements];
  uint8_t codes[kStepElements];
  int all = 0;
  for (int i = 0; i < kStepElements; ++i) {
    lower[i] = static_cast<uint8_t>(in[i]);
    codes[i] = code_of[in[i] >> 8];
    all |= codes[i];
  }
  if (all >= kNumCodes) {
    for (int i = 0; i < kStepElements; ++i) {
      if (codes[i] < kNumCodes) continue;
      exceptions->push_back({step, static_cast<uint16_t>(i), in[i]});
      codes[i] = 0;
    }
  }
  // Eight elements at a time, which stay together.
  for (int vector = 0; vector < 2; ++vector) {
    for (int byte = 0; byte < 64; byte += 8) {
      std::memcpy(out + 64 * vector + byte, lower + ElementAt(vector, byte), 8);
    }
  }
  for (int byte = 0; byte < 64; byte += 8) {
    const uint8_t* first = codes + ElementAt(0, byte);
    const uint8_t* second = codes + ElementAt(1, byte);
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

// Compresses the packed panel at `data` into its own beginning.
void CompressPanel(char* data, int64_t num_steps, const PanelPlan& plan) {
  std::vector<char> packed(data, data + num_steps * kStepBytes);
  std::vector<WeightException> exceptions;
  CompressedPanel header = {};
  std::memcpy(header.upper, plan.upper.data(), sizeof(header.upper));
  const CodeTable code_of = CodesOf(plan);
  char* out = data + sizeof(header);
  for (int64_t step = 0; step < num_steps; ++step) {
    uint16_t in[kStepElements];
    std::memcpy(in, packed.data() + step * kStepBytes, sizeof(in));
    CompressStep(in, code_of, static_cast<int32_t>(step), out + step * kCompressedStepBytes,
                 &exceptions);
  }
  header.num_exceptions = static_cast<int32_t>(exceptions.size());
  std::memcpy(data, &header, sizeof(header));
  std::memcpy(out + num_steps * kCompressedStepBytes, exceptions.data(),
              exceptions.size() * sizeof(WeightException));
}

}  // namespace

void Compress(LinearWeight& weight, ThreadPool& pool) {
  if (weight.dtype != DType::kBF16) return;
  CHECK_EQ(reinterpret_cast<uintptr_t>(weight.data) % alignof(CompressedPanel), 0u);
  ClearPadding(weight);
  char* const data = static_cast<char*>(weight.data);
  const int64_t num_panels = NumPanels(weight);
  const int64_t num_steps = NumSteps(weight);
  const int64_t packed_bytes = num_steps * kStepBytes;
  std::vector<PanelPlan> plans(num_panels);
  pool.ParallelFor(num_panels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t panel = begin; panel < end; ++panel) {
      plans[panel] = PlanPanel(reinterpret_cast<const uint16_t*>(data + panel * packed_bytes),
                               num_steps * kStepElements);
    }
  });
  int64_t room = 0;
  for (const PanelPlan& plan : plans) room = std::max(room, plan.num_exceptions);
  const int64_t panel_bytes = PanelBytes(num_steps, room);
  if (room > num_steps / kExceptionRoom || panel_bytes > packed_bytes) return;
  pool.ParallelFor(num_panels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t panel = begin; panel < end; ++panel) {
      CompressPanel(data + panel * packed_bytes, num_steps, plans[panel]);
    }
  });
  // Side by side: gaps would cost a third of the bandwidth.
  for (int64_t panel = 1; panel < num_panels; ++panel) {
    std::memmove(data + panel * panel_bytes, data + panel * packed_bytes,
                 static_cast<size_t>(panel_bytes));
  }
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
