// GatedDeltaTest: a gated delta net on a backend, with slots of states that begin as NaN, and steps
// made of pieces of sequences. For tests.
#pragma once

#include <limits>
#include <vector>

#include "tests/kernels/kernel_test.h"
#include "tests/reference/gated_delta.h"

namespace quire {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kUntouched = 77.0f;
inline constexpr GatedDeltaShape kSmall = {
    .num_k_heads = 2, .num_v_heads = 4, .k_head_dim = 16, .v_head_dim = 40, .conv_width = 4};
// Heads as published models have them, for which a GPU has kernels of its own.
inline constexpr GatedDeltaShape kHeads128 = {
    .num_k_heads = 2, .num_v_heads = 4, .k_head_dim = 128, .v_head_dim = 128, .conv_width = 4};

// The inputs of a sequence.
struct Tokens {
  std::vector<float> qkvz, ba;

  Tokens(const GatedDeltaShape& shape, DType dtype, int64_t num_tokens, uint32_t seed)
      : qkvz(RoundTo(dtype, RandomNormal(num_tokens * RowSize(shape), seed))),
        ba(RoundTo(dtype, RandomNormal(num_tokens * 2 * shape.num_v_heads, seed + 1, 2.0f))) {}

  static int64_t RowSize(const GatedDeltaShape& shape) {
    return shape.num_channels() + shape.v_size();
  }
};

// Some tokens of a sequence in a step. No tokens to read from: padding.
struct Piece {
  const Tokens* tokens = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  int32_t read = -1;
  int32_t write = -1;
  std::vector<StateSnapshot> snapshots = {};
};

// What a slot has.
struct SlotContents {
  std::vector<float> conv, recurrent;
};

bool AllNan(const std::vector<float>& values);

// Within `tolerance` of 1 + |expected|.
void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                double tolerance, const char* what);

class GatedDeltaTest : public KernelTest {
 protected:
  // Weights, and slots that are all NaN.
  void Use(const GatedDeltaShape& shape, DType dtype, int64_t num_slots);

  // A slot begins behind a gap, which is NaN, too.
  void PoisonSlots();

  int64_t ConvSize() const { return (shape_.conv_width - 1) * shape_.num_channels(); }
  int64_t RecurrentSize() const { return shape_.v_size() * shape_.k_head_dim; }

  // A step's inputs. Two more tokens are behind the last piece.
  struct Packed {
    std::vector<float> qkvz, ba;
    std::vector<int32_t> cu_seqlens = {0};
    std::vector<int32_t> seq_lens;
    std::vector<StateAccess> sequences;
    std::vector<StateSnapshot> snapshots;
    int32_t num_decodes = 0;
  };

  Packed Pack(const std::vector<Piece>& pieces) const;

  // The pieces' outputs, one after the other.
  std::vector<float> Step(const std::vector<Piece>& pieces);

  StateView View() const;

  SlotContents Slot(int64_t slot);

  // Bit for bit on the CPU; on a GPU within rounding.
  void ExpectSame(const std::vector<float>& actual, const std::vector<float>& expected,
                  const char* what);
  void ExpectSameState(int64_t actual, int64_t expected);
  // The error that tiles of float16 add to the rounding of float16 or bfloat16 activations, as
  // ExpectNear's tolerance.
  double TileRounding() const;
  void ExpectPoisoned(int64_t slot);

  static constexpr int64_t kGap = 8;  // elements behind each slot and each row of qkvz

  GatedDeltaShape shape_;
  DType dtype_ = DType::kF32;
  DType state_dtype_ = DType::kF32;
  int64_t num_slots_ = 0;
  reference::GatedDeltaWeights weights_;
  DeviceTensor conv_, recurrent_;
};

}  // namespace quire
