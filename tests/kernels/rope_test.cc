// Rotary embedding, head norms and the write to the paged cache.
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tests/kernels/kernel_test.h"
#include "tests/reference/elementwise.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 16;

struct RopeCase {
  DType dtype = DType::kF32;
  DType kv_dtype = DType::kF32;
  int32_t head_dim = 64;
  int32_t rotary_dim = 64;
  bool q_norm = false;
  bool k_norm = false;
  std::optional<DType> norm_dtype = {};  // of their weights; the same if empty
  bool hnd = false;
  int32_t num_q_heads = 4;
  int32_t num_kv_heads = 2;
  int64_t num_tokens = 1;

  int32_t num_heads() const { return num_q_heads + 2 * num_kv_heads; }
  bool has_scales() const { return IsFloat8(kv_dtype); }
  // Of a KV head's keys, and of its values: no powers of two.
  static float KScale(int64_t head) { return 0.3f + 0.05f * static_cast<float>(head); }
  static float VScale(int64_t head) { return 0.7f - 0.03f * static_cast<float>(head); }
  int64_t num_blocks() const { return CeilDiv<int64_t>(num_tokens, kBlockSize) + 12; }
};

constexpr int64_t kMaxPositions = 300;
constexpr float kUntouched = 77.0f;

std::vector<float> CosSinTable(int32_t rotary_dim) {
  std::vector<float> table;
  for (int64_t position = 0; position < kMaxPositions; ++position) {
    for (int part = 0; part < 2; ++part) {
      for (int32_t i = 0; i < rotary_dim / 2; ++i) {
        const double angle = position * std::pow(10000.0, -2.0 * i / rotary_dim);
        table.push_back(static_cast<float>(part == 0 ? std::cos(angle) : std::sin(angle)));
      }
    }
  }
  return table;
}

struct RopeInputs {
  std::vector<float> qkv, q_weight, k_weight, table;
  std::vector<int64_t> positions, slots;
};

RopeInputs MakeInputs(const RopeCase& c) {
  RopeInputs in;
  in.qkv = RoundTo(c.dtype, RandomNormal(c.num_tokens * c.num_heads() * c.head_dim, 1));
  in.q_weight = RoundTo(c.norm_dtype.value_or(c.dtype), RandomNormal(c.head_dim, 2));
  in.k_weight = RoundTo(c.norm_dtype.value_or(c.dtype), RandomNormal(c.head_dim, 3));
  in.table = CosSinTable(c.rotary_dim);
  const int64_t num_slots = c.num_blocks() * kBlockSize;
  for (int64_t i = 0; i < c.num_tokens; ++i) {
    in.positions.push_back((i * 37 + 5) % kMaxPositions);
    in.slots.push_back(i % 5 == 4 ? kNoSlot : (i * 11 + 3) % num_slots);
  }
  return in;
}

template <typename Value>
struct RopeResult {
  std::vector<Value> q, k, v;  // k and v: the whole cache
};

RopeResult<double> Expected(const RopeCase& c, const RopeInputs& in, const KvCacheView& view) {
  RopeResult<double> result;
  const float untouched = RoundTo(c.kv_dtype, {kUntouched})[0];
  result.k.assign(c.num_blocks() * view.block_stride, untouched);
  result.v = result.k;
  auto next = in.qkv.begin();
  for (size_t token = 0; token < in.positions.size(); ++token) {
    const float* cos_sin = in.table.data() + in.positions[token] * c.rotary_dim;
    for (int64_t head = 0; head < c.num_heads(); ++head, next += c.head_dim) {
      std::vector<double> values(next, next + c.head_dim);
      const bool is_q = head < c.num_q_heads;
      const bool is_k = !is_q && head < c.num_q_heads + c.num_kv_heads;
      if (is_q && c.q_norm) values = reference::RmsNorm(values, in.q_weight, 1e-6f);
      if (is_k && c.k_norm) values = reference::RmsNorm(values, in.k_weight, 1e-6f);
      if (is_q || is_k) {
        values = reference::Rotate(values, cos_sin, c.rotary_dim);
      }
      if (is_q) {
        result.q.insert(result.q.end(), values.begin(), values.end());
      } else if (in.slots[token] != kNoSlot) {
        const int64_t slot = in.slots[token];
        const int64_t kv_head = (head - c.num_q_heads) % c.num_kv_heads;
        std::vector<double>& cache = is_k ? result.k : result.v;
        const double scale = !c.has_scales() ? 1
                             : is_k          ? RopeCase::KScale(kv_head)
                                             : RopeCase::VScale(kv_head);
        for (double& value : values) value /= scale;
        std::copy(values.begin(), values.end(),
                  cache.begin() + slot / kBlockSize * view.block_stride +
                      slot % kBlockSize * view.token_stride + kv_head * view.head_stride);
      }
    }
  }
  return result;
}

class RopeTest : public KernelTest {
 protected:
  void Check(const RopeCase& c) {
    SCOPED_TRACE(testing::Message()
                 << DTypeName(c.dtype) << "/" << DTypeName(c.kv_dtype) << " dim " << c.head_dim
                 << " rotary " << c.rotary_dim << " norms " << c.q_norm << c.k_norm << " hnd "
                 << c.hnd << " heads " << c.num_q_heads << "/" << c.num_kv_heads << " tokens "
                 << c.num_tokens);
    const RopeInputs in = MakeInputs(c);
    const RopeResult<float> actual = Run(c, in);
    const RopeResult<double> expected = Expected(c, in, MakeView(c));
    ExpectNear(actual.q, expected.q, c.dtype);
    ExpectNear(actual.k, expected.k, c.kv_dtype);
    ExpectNear(actual.v, expected.v, c.kv_dtype);
  }

  RopeResult<float> Run(const RopeCase& c, const RopeInputs& in) {
    const KvCacheView view = MakeView(c);
    const int64_t cache_size = c.num_blocks() * view.block_stride;
    const auto untouched = std::vector<float>(cache_size, kUntouched);
    const DeviceTensor qkv_device =
        UploadTensor(in.qkv, c.dtype, {c.num_tokens, int64_t{c.num_heads()} * c.head_dim});
    const DType norm_dtype = c.norm_dtype.value_or(c.dtype);
    const DeviceTensor q_weight_device = UploadTensor(in.q_weight, norm_dtype, {c.head_dim});
    const DeviceTensor k_weight_device = UploadTensor(in.k_weight, norm_dtype, {c.head_dim});
    const DeviceBuffer table_device = Upload(in.table);
    const DeviceBuffer positions_device = Upload(in.positions);
    const DeviceBuffer slots_device = Upload(in.slots);
    const DeviceTensor k = UploadTensor(untouched, c.kv_dtype, {cache_size});
    const DeviceTensor v = UploadTensor(untouched, c.kv_dtype, {cache_size});
    const DeviceTensor q_out =
        UploadTensor(std::vector<float>(c.num_tokens * c.num_q_heads * c.head_dim), c.dtype,
                     {c.num_tokens, c.num_q_heads, c.head_dim});
    RopeAndStoreKvArgs args = {.qkv = qkv_device.tensor,
                               .norm_eps = 1e-6f,
                               .cos_sin = table_device.as<float>(),
                               .rotary_dim = c.rotary_dim,
                               .positions = positions_device.as<int64_t>(),
                               .slot_mapping = slots_device.as<int64_t>(),
                               .num_q_heads = c.num_q_heads,
                               .kv_cache = view,
                               .q_out = q_out.tensor};
    args.kv_cache.k = k.buffer.data();
    args.kv_cache.v = v.buffer.data();
    std::vector<float> scales[2];
    for (int32_t head = 0; head < c.num_kv_heads; ++head) {
      scales[0].push_back(RopeCase::KScale(head));
      scales[1].push_back(RopeCase::VScale(head));
    }
    const DeviceBuffer k_scales = Upload(scales[0]), v_scales = Upload(scales[1]);
    if (c.has_scales()) args.kv_cache.k_scales = k_scales.as<float>();
    if (c.has_scales()) args.kv_cache.v_scales = v_scales.as<float>();
    if (c.q_norm) args.q_norm_weight = q_weight_device.tensor;
    if (c.k_norm) args.k_norm_weight = k_weight_device.tensor;
    ops().RopeAndStoreKv(stream(), args);
    return {DownloadTensor(q_out.tensor), DownloadTensor(k.tensor), DownloadTensor(v.tensor)};
  }

  static KvCacheView MakeView(const RopeCase& c) {
    return {.dtype = c.kv_dtype,
            .block_stride = int64_t{kBlockSize} * c.num_kv_heads * c.head_dim,
            .token_stride = c.hnd ? c.head_dim : c.num_kv_heads * c.head_dim,
            .head_stride = c.hnd ? kBlockSize * c.head_dim : c.head_dim,
            .block_size = kBlockSize,
            .num_kv_heads = c.num_kv_heads,
            .head_dim = c.head_dim};
  }

  // Values of a few units, rotated in float32: 2e-6 (of 8 bits, divided by their scale: 2e-5), and
  // one rounding to the dtype.
  static void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                         DType dtype) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i],
                  OutputRounding(dtype) * std::abs(expected[i]) + SubnormalRounding(dtype) +
                      (IsFloat8(dtype) ? 2e-5 : 2e-6))
          << "element " << i;
    }
  }
};

// Head sizes that fill lanes, that leave some idle, and a rotary part that no 16-byte access fits.
TEST_P(RopeTest, MatchesReference) {
  for (DType dtype : activation_dtypes()) {
    for (bool norms : {false, true}) {
      for (auto [head_dim, rotary_dim] : {std::pair(64, 64),
                                          {128, 128},
                                          {256, 256},
                                          {96, 96},
                                          {80, 32},
                                          {80, 20},
                                          {8, 8},
                                          {64, 0}}) {
        for (int64_t num_tokens : {1, 7, 129}) {
          Check({.dtype = dtype,
                 .kv_dtype = dtype,
                 .head_dim = head_dim,
                 .rotary_dim = rotary_dim,
                 .q_norm = norms,
                 .k_norm = norms,
                 .num_tokens = num_tokens});
        }
      }
    }
  }
}

TEST_P(RopeTest, CacheOfAnotherDTypeAndLayout) {
  Check({.dtype = DType::kBF16, .kv_dtype = DType::kF32, .hnd = true, .num_tokens = 33});
  Check({.dtype = DType::kF32, .kv_dtype = DType::kBF16, .hnd = true, .num_tokens = 33});
}

TEST_P(RopeTest, QuantisesToEightBits) {
  for (const DType dtype : activation_dtypes()) {
    for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
      for (const int64_t num_tokens : {1, 33}) {
        for (const int32_t head_dim : {64, 80, 128}) {
          Check({.dtype = dtype,
                 .kv_dtype = kv_dtype,
                 .head_dim = head_dim,
                 .k_norm = true,
                 .hnd = num_tokens > 1,
                 .num_tokens = num_tokens});
        }
      }
    }
  }
}

// What is too large becomes the largest number there is, and what is none stays none.
TEST_P(RopeTest, QuantisingSaturatesAndKeepsNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const RopeCase c = {.kv_dtype = kv_dtype, .head_dim = 8, .rotary_dim = 8};
    RopeInputs in = MakeInputs(c);
    const float values[8] = {kInfinity, -kInfinity, kNan, 3e38f, -3e38f, 1e-30f, -0.0f, 0.35f};
    // The last of a token's heads is the second KV head's value, which nothing rotates.
    std::copy(std::begin(values), std::end(values), in.qkv.end() - 8);
    const KvCacheView view = MakeView(c);
    const RopeResult<float> result = Run(c, in);
    const int64_t slot = in.slots[0];
    const float* stored = result.v.data() + slot / kBlockSize * view.block_stride +
                          slot % kBlockSize * view.token_stride + view.head_stride;
    const float max = kv_dtype == DType::kF8E4M3 ? 448 : 57344;
    EXPECT_EQ(stored[0], max);
    EXPECT_EQ(stored[1], -max);
    EXPECT_TRUE(std::isnan(stored[2]));
    EXPECT_EQ(stored[3], max);
    EXPECT_EQ(stored[4], -max);
    EXPECT_EQ(stored[5], 0);
    EXPECT_EQ(stored[6], 0);
    EXPECT_EQ(stored[7], RoundTo(kv_dtype, {0.35f / RopeCase::VScale(1)})[0]);
  }
}

TEST_P(RopeTest, AnyNumberOfHeads) {
  for (auto [num_q_heads, num_kv_heads] : {std::pair(1, 1), {7, 1}, {14, 2}, {6, 3}, {64, 8}}) {
    Check({.q_norm = true,
           .k_norm = true,
           .num_q_heads = num_q_heads,
           .num_kv_heads = num_kv_heads,
           .num_tokens = 3});
  }
}

TEST_P(RopeTest, OneNormAlone) {
  Check({.q_norm = true, .num_tokens = 3});
  Check({.k_norm = true, .num_tokens = 3});
}

TEST_P(RopeTest, NormWeightsOfAnotherDType) {
  Check({.dtype = DType::kBF16,
         .kv_dtype = DType::kBF16,
         .q_norm = true,
         .k_norm = true,
         .norm_dtype = DType::kF32,
         .num_tokens = 3});
}

// A GPU gives a thread more heads where tokens are many. Bit for bit what it gives for a few, so
// that a token does not depend on its batch.
TEST_P(RopeTest, ManyTokens) {
  const int64_t num_tokens = GetParam().kind == DeviceKind::kCuda ? 1801 : 101;
  for (DType dtype : activation_dtypes()) {
    for (bool norms : {false, true}) {
      RopeCase c = {.dtype = dtype,
                    .kv_dtype = dtype,
                    .q_norm = norms,
                    .k_norm = norms,
                    .num_q_heads = 33,
                    .num_kv_heads = 7,
                    .num_tokens = num_tokens};
      Check(c);
      const std::vector<float> many = Run(c, MakeInputs(c)).q;
      c.num_tokens = 2;
      const std::vector<float> few = Run(c, MakeInputs(c)).q;
      for (size_t i = 0; i < few.size(); ++i) ASSERT_EQ(few[i], many[i]) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RopeTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
