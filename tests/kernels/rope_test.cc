// Rotary embedding, head norms and the write to the paged cache.
#include <limits>
#include <vector>

#include "tests/kernels/kernel_test.h"
#include "tests/reference/elementwise.h"

namespace quire {
namespace {

struct RopeCase {
  DType dtype = DType::kF32;
  DType kv_dtype = DType::kF32;
  int32_t head_dim = 64;
  int32_t rotary_dim = 64;
  bool norms = false;
  bool hnd = false;
};

constexpr int32_t kQHeads = 4;
constexpr int32_t kKvHeads = 2;
constexpr int32_t kBlockSize = 16;
constexpr int64_t kNumBlocks = 20;
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

RopeInputs MakeInputs(const RopeCase& c, int64_t num_tokens) {
  RopeInputs in;
  in.qkv = RoundTo(c.dtype, RandomNormal(num_tokens * (kQHeads + 2 * kKvHeads) * c.head_dim, 1));
  in.q_weight = RoundTo(c.dtype, RandomNormal(c.head_dim, 2));
  in.k_weight = RoundTo(c.dtype, RandomNormal(c.head_dim, 3));
  in.table = CosSinTable(c.rotary_dim);
  for (int64_t i = 0; i < num_tokens; ++i) {
    in.positions.push_back((i * 37 + 5) % kMaxPositions);
    in.slots.push_back(i % 5 == 4 ? kNoSlot : (i * 11 + 3) % (kNumBlocks * kBlockSize));
  }
  return in;
}

struct RopeResult {
  std::vector<double> q, k, v;  // k and v: the whole cache
};

RopeResult Expected(const RopeCase& c, const RopeInputs& in, const KvCacheView& view) {
  RopeResult result;
  result.k.assign(kNumBlocks * view.block_stride, kUntouched);
  result.v = result.k;
  auto next = in.qkv.begin();
  for (size_t token = 0; token < in.positions.size(); ++token) {
    const float* cos_sin = in.table.data() + in.positions[token] * c.rotary_dim;
    for (int64_t head = 0; head < kQHeads + 2 * kKvHeads; ++head, next += c.head_dim) {
      std::vector<double> values(next, next + c.head_dim);
      const bool is_q = head < kQHeads;
      if (head < kQHeads + kKvHeads) {
        if (c.norms) values = reference::RmsNorm(values, is_q ? in.q_weight : in.k_weight, 1e-6f);
        values = reference::Rotate(values, cos_sin, c.rotary_dim);
      }
      if (is_q) {
        result.q.insert(result.q.end(), values.begin(), values.end());
      } else if (in.slots[token] != kNoSlot) {
        const int64_t slot = in.slots[token];
        const int64_t kv_head = (head - kQHeads) % kKvHeads;
        std::vector<double>& cache = head < kQHeads + kKvHeads ? result.k : result.v;
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
  void Check(const RopeCase& c, int64_t num_tokens) {
    SCOPED_TRACE(testing::Message() << DTypeName(c.dtype) << "/" << DTypeName(c.kv_dtype) << " dim "
                                    << c.head_dim << " rotary " << c.rotary_dim << " norms "
                                    << c.norms << " hnd " << c.hnd << " tokens " << num_tokens);
    const int64_t row = (kQHeads + 2 * kKvHeads) * c.head_dim;
    const RopeInputs in = MakeInputs(c, num_tokens);
    const KvCacheView view = MakeView(c);
    const int64_t cache_size = kNumBlocks * view.block_stride;
    const auto untouched = std::vector<float>(cache_size, kUntouched);

    const DeviceTensor qkv_device = UploadTensor(in.qkv, c.dtype, {num_tokens, row});
    const DeviceTensor q_weight_device = UploadTensor(in.q_weight, c.dtype, {c.head_dim});
    const DeviceTensor k_weight_device = UploadTensor(in.k_weight, c.dtype, {c.head_dim});
    const DeviceBuffer table_device = Upload(in.table);
    const DeviceBuffer positions_device = Upload(in.positions);
    const DeviceBuffer slots_device = Upload(in.slots);
    const DeviceTensor k = UploadTensor(untouched, c.kv_dtype, {cache_size});
    const DeviceTensor v = UploadTensor(untouched, c.kv_dtype, {cache_size});
    const DeviceTensor q_out = UploadTensor(std::vector<float>(num_tokens * kQHeads * c.head_dim),
                                            c.dtype, {num_tokens, kQHeads, c.head_dim});
    RopeAndStoreKvArgs args = {.qkv = qkv_device.tensor,
                               .norm_eps = 1e-6f,
                               .cos_sin = table_device.as<float>(),
                               .rotary_dim = c.rotary_dim,
                               .positions = positions_device.as<int64_t>(),
                               .slot_mapping = slots_device.as<int64_t>(),
                               .num_q_heads = kQHeads,
                               .kv_cache = view,
                               .q_out = q_out.tensor};
    args.kv_cache.k = k.buffer.data();
    args.kv_cache.v = v.buffer.data();
    if (c.norms) {
      args.q_norm_weight = q_weight_device.tensor;
      args.k_norm_weight = k_weight_device.tensor;
    }
    ops().RopeAndStoreKv(stream(), args);

    const RopeResult expected = Expected(c, in, view);
    ExpectNear(DownloadTensor(q_out.tensor), expected.q, c.dtype);
    ExpectNear(DownloadTensor(k.tensor), expected.k, c.kv_dtype);
    ExpectNear(DownloadTensor(v.tensor), expected.v, c.kv_dtype);
  }

  static KvCacheView MakeView(const RopeCase& c) {
    return {.dtype = c.kv_dtype,
            .block_stride = int64_t{kBlockSize} * kKvHeads * c.head_dim,
            .token_stride = c.hnd ? c.head_dim : kKvHeads * c.head_dim,
            .head_stride = c.hnd ? kBlockSize * c.head_dim : c.head_dim,
            .block_size = kBlockSize,
            .num_kv_heads = kKvHeads,
            .head_dim = c.head_dim};
  }

  // Values of a few units, rotated in float32: 2e-6, and one rounding to the dtype.
  static void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                         DType dtype) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], OutputRounding(dtype) * std::abs(expected[i]) + 2e-6)
          << "element " << i;
    }
  }
};

TEST_P(RopeTest, MatchesReference) {
  for (DType dtype : activation_dtypes()) {
    for (bool norms : {false, true}) {
      for (auto [head_dim, rotary_dim] : {std::pair(64, 64), {128, 128}, {80, 32}, {8, 8}}) {
        for (int64_t num_tokens : {1, 7, 129}) {
          Check({.dtype = dtype,
                 .kv_dtype = dtype,
                 .head_dim = head_dim,
                 .rotary_dim = rotary_dim,
                 .norms = norms},
                num_tokens);
        }
      }
    }
  }
}

TEST_P(RopeTest, CacheOfAnotherDTypeAndLayout) {
  Check({.dtype = DType::kBF16, .kv_dtype = DType::kF32, .hnd = true}, 33);
  Check({.dtype = DType::kF32, .kv_dtype = DType::kBF16, .hnd = true}, 33);
}

INSTANTIATE_TEST_SUITE_P(Targets, RopeTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
