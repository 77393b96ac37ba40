// RopeTest: heads as they lie in a row, with rotary embedding, norms and the write to the paged
// cache, on a backend and in plain loops. For tests.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace quire {

inline constexpr int32_t kBlockSize = 16;

// How heads lie in a row.
enum class RowForm {
  kPacked,      // q, k, v, one head behind the other
  kGated,       // something behind each query's head, and around all
  kValueIsKey,  // as packed; there is no v, and values are made of what keys are made of
};

struct RopeCase {
  DType dtype = DType::kF32;
  DType kv_dtype = DType::kF32;
  int32_t head_dim = 64;
  int32_t num_pairs = 32;
  int32_t pair_distance = 0;  // 0: as many as pairs
  HeadNormKind q_norm = HeadNormKind::kNone;
  HeadNormKind k_norm = HeadNormKind::kNone;
  HeadNormKind v_norm = HeadNormKind::kNone;
  std::optional<DType> norm_dtype = {};  // of their weights; the same if empty
  bool rotate_q = true, rotate_k = true, rotate_v = false;
  bool scale_q = false;  // by position
  RowForm row_form = RowForm::kPacked;
  bool stores_kv = true;  // else there are only queries
  bool hnd = false;
  int32_t num_q_heads = 4;
  int32_t num_kv_heads = 2;
  int64_t num_tokens = 1;

  int32_t distance() const { return pair_distance == 0 ? num_pairs : pair_distance; }
  bool has_scales() const { return IsFloat8(kv_dtype); }
  // The scales of a KV head's keys, and of its values. They are no powers of two.
  static float KScale(int64_t head) { return 0.3f + 0.05f * static_cast<float>(head); }
  static float VScale(int64_t head) { return 0.7f - 0.03f * static_cast<float>(head); }
  static float QueryScale(int64_t position) { return 1 + 0.001f * static_cast<float>(position); }
  int64_t num_blocks() const { return CeilDiv<int64_t>(num_tokens, kBlockSize) + 12; }

  // Elements from a row's beginning to a head, and the row's.
  int64_t QAt(int64_t head) const {
    return row_form == RowForm::kGated ? 16 + head * (2 * head_dim + 8) : head * head_dim;
  }
  int64_t KAt(int64_t head) const {
    return QAt(num_q_heads) + head * (row_form == RowForm::kGated ? head_dim + 16 : head_dim);
  }
  int64_t VAt(int64_t head) const {
    return row_form == RowForm::kValueIsKey ? KAt(head) : KAt(num_kv_heads) + head * head_dim;
  }
  int64_t row_size() const { return VAt(num_kv_heads) + (row_form == RowForm::kGated ? 24 : 0); }
};

// What a slot of the cache has before.
inline constexpr float kUntouched = 77.0f;

struct RopeInputs {
  std::vector<float> x, q_weight, k_weight, v_weight, table;
  std::vector<int64_t> positions, slots;
};

RopeInputs MakeInputs(const RopeCase& c);

template <typename Value>
struct RopeResult {
  std::vector<Value> q, k, v;  // k and v: the whole cache
};

class RopeTest : public KernelTest {
 protected:
  void Check(const RopeCase& c);

  RopeResult<float> Run(const RopeCase& c, const RopeInputs& in);

  static KvCacheView MakeView(const RopeCase& c);

  // Values of a few units, rotated in float32: 2e-6 (of 8 bits, divided by their scale: 2e-5), and
  // one rounding to the dtype.
  static void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                         DType dtype);
};

}  // namespace quire
