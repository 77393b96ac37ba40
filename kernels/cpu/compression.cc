#include "kernels/cpu/compression.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire::cpu {

namespace {

constexpr int kStepElements = static_cast<int>(kStepBytes) / 2;
constexpr int kNumCodes = 16;      // 0 is the exponent 0 (zeros), 1 to 15 are those above `base`
constexpr int kExceptionRoom = 2;  // at most one exception for so many steps, 256 weights

int Exponent(uint16_t bits) { return bits >> 7 & 0xFF; }

// The code of an exponent; kNumCodes and above for an exception.
int CodeOf(int exponent, int base) {
  if (exponent == 0) return 0;
  return exponent > base && exponent < base + kNumCodes ? exponent - base : kNumCodes;
}

struct PanelPlan {
  int base;
  int64_t num_exceptions;
};

// The base that leaves the fewest exceptions.
PanelPlan PlanPanel(const uint16_t* weights, int64_t num_weights) {
  // Neighbours share an exponent often: four counters keep one addition from waiting for another.
  std::array<std::array<uint32_t, 256>, 4> counts = {};
  for (int64_t i = 0; i < num_weights; ++i) ++counts[i % 4][Exponent(weights[i])];
  std::array<int64_t, 256> count;
  for (int e = 0; e < 256; ++e) {
    count[e] = int64_t{counts[0][e]} + counts[1][e] + counts[2][e] + counts[3][e];
  }
  PanelPlan best = {.base = 0, .num_exceptions = num_weights};
  for (int base = 0; base + kNumCodes <= 256; ++base) {
    int64_t covered = count[0];
    for (int e = base + 1; e < base + kNumCodes; ++e) covered += count[e];
    if (num_weights - covered < best.num_exceptions) best = {base, num_weights - covered};
  }
  return best;
}

void CompressStep(const uint16_t* in, int base, int32_t step, char* out,
                  std::vector<WeightException>* exceptions) {
  uint8_t rest[kStepElements];
  uint8_t codes[kStepElements];
  int greatest = 0;
  for (int i = 0; i < kStepElements; ++i) {
    const int code = CodeOf(Exponent(in[i]), base);
    rest[i] = static_cast<uint8_t>((in[i] >> 8 & 0x80) | (in[i] & 0x7F));
    codes[i] = static_cast<uint8_t>(code);
    greatest = std::max(greatest, code);
  }
  if (greatest >= kNumCodes) {
    for (int i = 0; i < kStepElements; ++i) {
      if (codes[i] < kNumCodes) continue;
      exceptions->push_back({step, static_cast<uint16_t>(i), in[i]});
      codes[i] = 0;
    }
  }
  // Eight elements at a time, which stay together.
  for (int vector = 0; vector < 2; ++vector) {
    for (int byte = 0; byte < 64; byte += 8) {
      std::memcpy(out + 64 * vector + byte, rest + ElementAt(vector, byte), 8);
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
void CompressPanel(char* data, int64_t num_steps, int base) {
  std::vector<char> packed(data, data + num_steps * kStepBytes);
  std::vector<WeightException> exceptions;
  CompressedPanel header = {};
  for (int code = 1; code < kNumCodes; ++code) {
    header.high[code] = static_cast<uint8_t>((base + code) >> 1);
    header.low[code] = static_cast<uint8_t>((base + code) << 7);
  }
  char* out = data + sizeof(header);
  for (int64_t step = 0; step < num_steps; ++step) {
    uint16_t in[kStepElements];
    std::memcpy(in, packed.data() + step * kStepBytes, sizeof(in));
    CompressStep(in, base, static_cast<int32_t>(step), out + step * kCompressedStepBytes,
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
      CompressPanel(data + panel * packed_bytes, num_steps, plans[panel].base);
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
    const auto rest = static_cast<uint8_t>(step[64 * vector + b]);
    const int code = static_cast<uint8_t>(step[128 + b]) >> (4 * vector) & 0xF;
    return static_cast<uint16_t>((panel.high[code] | (rest & 0x80)) << 8 |
                                 (panel.low[code] | (rest & 0x7F)));
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
