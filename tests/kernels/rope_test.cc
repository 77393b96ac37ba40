// Rotary embedding, head norms and the write to the paged cache.
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/kernel_test.h"
#include "tests/reference/elementwise.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 16;

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
  // Of a KV head's keys, and of its values: no powers of two.
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

constexpr int64_t kMaxPositions = 300;
constexpr float kUntouched = 77.0f;

std::vector<float> CosSinTable(int32_t num_pairs) {
  std::vector<float> table;
  for (int64_t position = 0; position < kMaxPositions; ++position) {
    for (int part = 0; part < 2; ++part) {
      for (int32_t i = 0; i < num_pairs; ++i) {
        const double angle = position * std::pow(10000.0, -1.0 * i / num_pairs);
        table.push_back(static_cast<float>(part == 0 ? std::cos(angle) : std::sin(angle)));
      }
    }
  }
  return table;
}

struct RopeInputs {
  std::vector<float> x, q_weight, k_weight, v_weight, table;
  std::vector<int64_t> positions, slots;
};

// What is no head is NaN.
std::vector<float> MakeRows(const RopeCase& c) {
  std::vector<float> rows(c.num_tokens * c.row_size(), std::numeric_limits<float>::quiet_NaN());
  auto next = RandomNormal(c.num_tokens * (c.num_q_heads + 2 * c.num_kv_heads) * c.head_dim, 1);
  const float* from = next.data();
  for (int64_t token = 0; token < c.num_tokens; ++token) {
    float* row = rows.data() + token * c.row_size();
    const auto fill = [&](int64_t at) {
      std::copy_n(from, c.head_dim, row + at);
      from += c.head_dim;
    };
    for (int32_t head = 0; head < c.num_q_heads; ++head) fill(c.QAt(head));
    for (int32_t head = 0; head < c.num_kv_heads; ++head) fill(c.KAt(head));
    for (int32_t head = 0; head < c.num_kv_heads; ++head) fill(c.VAt(head));
  }
  return RoundTo(c.dtype, rows);
}

RopeInputs MakeInputs(const RopeCase& c) {
  RopeInputs in;
  const DType norm_dtype = c.norm_dtype.value_or(c.dtype);
  in.x = MakeRows(c);
  in.q_weight = RoundTo(norm_dtype, RandomNormal(c.head_dim, 2));
  in.k_weight = RoundTo(norm_dtype, RandomNormal(c.head_dim, 3));
  in.v_weight = RoundTo(norm_dtype, RandomNormal(c.head_dim, 4));
  in.table = CosSinTable(c.num_pairs);
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
  result.k.assign(c.num_blocks() * view.k.block_stride, untouched);
  result.v = result.k;
  for (int64_t token = 0; token < c.num_tokens; ++token) {
    const float* cos_sin = in.table.data() + in.positions[token] * 2 * c.num_pairs;
    const auto head = [&](int64_t at, HeadNormKind norm, std::vector<float> weight, bool rotate) {
      const auto begin = in.x.begin() + token * c.row_size() + at;
      std::vector<double> values(begin, begin + c.head_dim);
      if (norm == HeadNormKind::kPlain) weight.assign(c.head_dim, 1.0f);
      if (norm != HeadNormKind::kNone) values = reference::RmsNorm(values, weight, 1e-6f);
      return rotate ? reference::Rotate(values, cos_sin, c.num_pairs, c.distance()) : values;
    };
    const auto store = [&](std::vector<double> values, int64_t kv_head, double scale,
                           std::vector<double>& cache) {
      const int64_t slot = in.slots[token];
      if (c.has_scales()) {
        for (double& value : values) value /= scale;
      }
      std::copy(values.begin(), values.end(),
                cache.begin() + slot / kBlockSize * view.k.block_stride +
                    slot % kBlockSize * view.k.token_stride + kv_head * view.k.head_stride);
    };
    for (int32_t h = 0; h < c.num_q_heads; ++h) {
      auto values = head(c.QAt(h), c.q_norm, in.q_weight, c.rotate_q);
      if (c.scale_q) {
        for (double& value : values) value *= RopeCase::QueryScale(in.positions[token]);
      }
      result.q.insert(result.q.end(), values.begin(), values.end());
    }
    if (in.slots[token] == kNoSlot || !c.stores_kv) continue;
    for (int32_t h = 0; h < c.num_kv_heads; ++h) {
      store(head(c.KAt(h), c.k_norm, in.k_weight, c.rotate_k), h, RopeCase::KScale(h), result.k);
      store(head(c.VAt(h), c.v_norm, in.v_weight, c.rotate_v), h, RopeCase::VScale(h), result.v);
    }
  }
  return result;
}

class RopeTest : public KernelTest {
 protected:
  void Check(const RopeCase& c) {
    SCOPED_TRACE(testing::Message()
                 << DTypeName(c.dtype) << "/" << DTypeName(c.kv_dtype) << " dim " << c.head_dim
                 << " pairs " << c.num_pairs << " of distance " << c.distance() << " norms "
                 << static_cast<int>(c.q_norm) << static_cast<int>(c.k_norm)
                 << static_cast<int>(c.v_norm) << " row " << static_cast<int>(c.row_form)
                 << " scaled " << c.scale_q << " hnd " << c.hnd << " heads " << c.num_q_heads << "/"
                 << c.num_kv_heads << " tokens " << c.num_tokens);
    const RopeInputs in = MakeInputs(c);
    const RopeResult<float> actual = Run(c, in);
    const RopeResult<double> expected = Expected(c, in, MakeView(c));
    ExpectNear(actual.q, expected.q, c.dtype);
    ExpectNear(actual.k, expected.k, c.kv_dtype);
    ExpectNear(actual.v, expected.v, c.kv_dtype);
  }

  RopeResult<float> Run(const RopeCase& c, const RopeInputs& in) {
    const KvCacheView view = MakeView(c);
    const int64_t cache_size = c.num_blocks() * view.k.block_stride;
    const auto untouched = std::vector<float>(cache_size, kUntouched);
    const DeviceTensor x = UploadTensor(in.x, c.dtype, {c.num_tokens, c.row_size()});
    const DType norm_dtype = c.norm_dtype.value_or(c.dtype);
    const DeviceTensor q_weight = UploadTensor(in.q_weight, norm_dtype, {c.head_dim});
    const DeviceTensor k_weight = UploadTensor(in.k_weight, norm_dtype, {c.head_dim});
    const DeviceTensor v_weight = UploadTensor(in.v_weight, norm_dtype, {c.head_dim});
    const DeviceBuffer table_device = Upload(in.table);
    const DeviceBuffer positions_device = Upload(in.positions);
    const DeviceBuffer slots_device = Upload(in.slots);
    const DeviceTensor k = UploadTensor(untouched, c.kv_dtype, {cache_size});
    const DeviceTensor v = UploadTensor(untouched, c.kv_dtype, {cache_size});
    const DeviceTensor q_out =
        UploadTensor(std::vector<float>(c.num_tokens * c.num_q_heads * c.head_dim), c.dtype,
                     {c.num_tokens, c.num_q_heads, c.head_dim});
    const auto heads = [&](int32_t num_heads, int64_t first, int64_t second, HeadNormKind norm,
                           const Tensor& weight, bool rotate) {
      return HeadsArgs{.num_heads = num_heads,
                       .first = first,
                       .stride = second - first,
                       .norm = norm,
                       .norm_weight = norm == HeadNormKind::kWeight ? weight : Tensor(),
                       .rotate = rotate};
    };
    std::vector<float> query_scales;
    for (int64_t i = 0; i < kMaxPositions; ++i) query_scales.push_back(RopeCase::QueryScale(i));
    const DeviceBuffer query_scales_device = Upload(query_scales);
    const int32_t num_stored = c.stores_kv ? c.num_kv_heads : 0;
    StoreHeadsArgs args = {
        .x = x.tensor,
        .q = heads(c.num_q_heads, c.QAt(0), c.QAt(1), c.q_norm, q_weight.tensor, c.rotate_q),
        .k = heads(num_stored, c.KAt(0), c.KAt(1), c.k_norm, k_weight.tensor, c.rotate_k),
        .v = heads(num_stored, c.VAt(0), c.VAt(1), c.v_norm, v_weight.tensor, c.rotate_v),
        .norm_eps = 1e-6f,
        .cos_sin = table_device.as<float>(),
        .num_pairs = c.num_pairs,
        .pair_distance = c.distance(),
        .query_scales = c.scale_q ? query_scales_device.as<float>() : nullptr,
        .positions = positions_device.as<int64_t>(),
        .slot_mapping = slots_device.as<int64_t>(),
        .kv_cache = view,
        .q_out = q_out.tensor};
    args.kv_cache.k.data = k.buffer.data();
    args.kv_cache.v.data = v.buffer.data();
    std::vector<float> scales[2];
    for (int32_t head = 0; head < c.num_kv_heads; ++head) {
      scales[0].push_back(RopeCase::KScale(head));
      scales[1].push_back(RopeCase::VScale(head));
    }
    const DeviceBuffer k_scales = Upload(scales[0]), v_scales = Upload(scales[1]);
    if (c.has_scales()) args.kv_cache.k.scales = k_scales.as<float>();
    if (c.has_scales()) args.kv_cache.v.scales = v_scales.as<float>();
    ops().StoreHeads(stream(), args);
    return {DownloadTensor(q_out.tensor), DownloadTensor(k.tensor), DownloadTensor(v.tensor)};
  }

  static KvCacheView MakeView(const RopeCase& c) {
    const HeadsView heads = {.block_stride = int64_t{kBlockSize} * c.num_kv_heads * c.head_dim,
                             .token_stride = c.hnd ? c.head_dim : c.num_kv_heads * c.head_dim,
                             .head_stride = c.hnd ? kBlockSize * c.head_dim : c.head_dim,
                             .head_dim = c.head_dim};
    return {.k = heads,
            .v = heads,
            .dtype = c.kv_dtype,
            .block_size = kBlockSize,
            .num_kv_heads = c.num_kv_heads};
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
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (auto [head_dim, num_pairs] : {std::pair(64, 32),
                                         {128, 64},
                                         {256, 128},
                                         {96, 48},
                                         {80, 16},
                                         {80, 10},
                                         {8, 4},
                                         {64, 0}}) {
        for (int64_t num_tokens : {1, 7, 129}) {
          Check({.dtype = dtype,
                 .kv_dtype = dtype,
                 .head_dim = head_dim,
                 .num_pairs = num_pairs,
                 .q_norm = norm,
                 .k_norm = norm,
                 .num_tokens = num_tokens});
        }
      }
    }
  }
}

// Elements without a partner lie between and behind the pairs. The last but one is what Gemma 4's
// heads of 512 elements ask for.
TEST_P(RopeTest, PairsApart) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (auto [head_dim, num_pairs, pair_distance] : {std::tuple(64, 8, 32),
                                                        {64, 16, 24},
                                                        {128, 32, 96},
                                                        {256, 32, 128},
                                                        {80, 10, 33},
                                                        {80, 3, 5},
                                                        {40, 1, 39},
                                                        {512, 64, 256},
                                                        {256, 0, 128}}) {
        Check({.dtype = dtype,
               .kv_dtype = dtype,
               .head_dim = head_dim,
               .num_pairs = num_pairs,
               .pair_distance = pair_distance,
               .q_norm = norm,
               .k_norm = norm,
               .num_tokens = 7});
      }
    }
  }
}

// As GLM-4 and Cohere 2 have them, of a part of a head or of all of it.
TEST_P(RopeTest, PairsOfNeighbours) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (auto [head_dim, num_pairs] : {std::pair(64, 32),
                                         {128, 32},
                                         {128, 64},
                                         {256, 64},
                                         {80, 16},
                                         {80, 10},
                                         {80, 13},
                                         {16, 2},
                                         {8, 1},
                                         {64, 0}}) {
        for (RowForm row_form : {RowForm::kPacked, RowForm::kGated}) {
          Check({.dtype = dtype,
                 .kv_dtype = dtype,
                 .head_dim = head_dim,
                 .num_pairs = num_pairs,
                 .pair_distance = 1,
                 .q_norm = norm,
                 .k_norm = norm,
                 .row_form = row_form,
                 .num_tokens = 7});
        }
      }
    }
  }
}

// As Ministral 3 has it: with rotation and without, after norms, and of no keys and values.
TEST_P(RopeTest, QueriesAreScaledByPosition) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (auto [num_pairs, rotate] : {std::pair(32, true), {10, true}, {32, false}}) {
        Check({.dtype = dtype,
               .kv_dtype = dtype,
               .num_pairs = num_pairs,
               .q_norm = norm,
               .k_norm = norm,
               .rotate_q = rotate,
               .rotate_k = rotate,
               .scale_q = true,
               .num_tokens = 7});
      }
    }
  }
}

TEST_P(RopeTest, HeadsAnywhereInARow) {
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (int32_t num_pairs : {8, 10}) {  // with and without 16-byte accesses
        Check({.dtype = dtype,
               .kv_dtype = dtype,
               .num_pairs = num_pairs,
               .q_norm = norm,
               .k_norm = norm,
               .row_form = RowForm::kGated,
               .num_tokens = 7});
      }
    }
  }
}

// As Gemma 4 has it: values are the keys' projection, with a norm of their own and not rotated.
TEST_P(RopeTest, ValuesOfWhatKeysAreMadeOf) {
  for (DType dtype : activation_dtypes()) {
    for (int32_t num_pairs : {32, 10}) {
      Check({.dtype = dtype,
             .kv_dtype = dtype,
             .num_pairs = num_pairs,
             .q_norm = HeadNormKind::kWeight,
             .k_norm = HeadNormKind::kWeight,
             .v_norm = HeadNormKind::kPlain,
             .row_form = RowForm::kValueIsKey,
             .num_tokens = 7});
    }
  }
}

TEST_P(RopeTest, EachKindOfHeadsIsNormedForItself) {
  constexpr HeadNormKind kKinds[] = {HeadNormKind::kNone, HeadNormKind::kPlain,
                                     HeadNormKind::kWeight};
  for (HeadNormKind q_norm : kKinds) {
    for (HeadNormKind k_norm : kKinds) {
      for (HeadNormKind v_norm : kKinds) {
        Check({.q_norm = q_norm, .k_norm = k_norm, .v_norm = v_norm, .num_tokens = 3});
      }
    }
  }
}

TEST_P(RopeTest, EachKindOfHeadsIsRotatedForItself) {
  for (int kinds = 0; kinds < 8; ++kinds) {
    SCOPED_TRACE(kinds);
    Check({.rotate_q = (kinds & 1) != 0,
           .rotate_k = (kinds & 2) != 0,
           .rotate_v = (kinds & 4) != 0,
           .num_tokens = 3});
  }
}

TEST_P(RopeTest, QueriesAloneLeaveTheCacheAsItIs) {
  Check({.q_norm = HeadNormKind::kWeight, .stores_kv = false, .num_tokens = 7});
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
                 .pair_distance = head_dim == 80 ? 1 : 0,
                 .k_norm = HeadNormKind::kWeight,
                 .scale_q = head_dim == 80,
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
    const RopeCase c = {.kv_dtype = kv_dtype, .head_dim = 8, .num_pairs = 4};
    RopeInputs in = MakeInputs(c);
    const float values[8] = {kInfinity, -kInfinity, kNan, 3e38f, -3e38f, 1e-30f, -0.0f, 0.35f};
    // The last of a token's heads is the second KV head's value, which nothing rotates.
    std::copy(std::begin(values), std::end(values), in.x.end() - 8);
    const KvCacheView view = MakeView(c);
    const RopeResult<float> result = Run(c, in);
    const int64_t slot = in.slots[0];
    const float* stored = result.v.data() + slot / kBlockSize * view.k.block_stride +
                          slot % kBlockSize * view.k.token_stride + view.k.head_stride;
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
    Check({.q_norm = HeadNormKind::kWeight,
           .k_norm = HeadNormKind::kWeight,
           .num_q_heads = num_q_heads,
           .num_kv_heads = num_kv_heads,
           .num_tokens = 3});
  }
}

TEST_P(RopeTest, NormWeightsOfAnotherDType) {
  Check({.dtype = DType::kBF16,
         .kv_dtype = DType::kBF16,
         .q_norm = HeadNormKind::kWeight,
         .k_norm = HeadNormKind::kWeight,
         .norm_dtype = DType::kF32,
         .num_tokens = 3});
}

// A GPU gives a thread more heads where tokens are many. Bit for bit what it gives for a few, so
// that a token does not depend on its batch.
TEST_P(RopeTest, ManyTokens) {
  const int64_t num_tokens = GetParam().kind == DeviceKind::kCuda ? 1801 : 101;
  for (DType dtype : activation_dtypes()) {
    for (HeadNormKind norm : {HeadNormKind::kNone, HeadNormKind::kWeight}) {
      for (RowForm row_form : {RowForm::kPacked, RowForm::kGated}) {
        RopeCase c = {.dtype = dtype,
                      .kv_dtype = dtype,
                      .pair_distance = row_form == RowForm::kGated ? 1 : 0,
                      .q_norm = norm,
                      .k_norm = norm,
                      .v_norm = norm == HeadNormKind::kNone ? norm : HeadNormKind::kPlain,
                      .scale_q = row_form == RowForm::kGated,
                      .row_form = row_form,
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
}

INSTANTIATE_TEST_SUITE_P(Targets, RopeTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
