#include "tests/kernels/rope_fixture.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/reference/elementwise.h"

namespace quire {
namespace {

constexpr int64_t kMaxPositions = 300;

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

// Elements that belong to no head are NaN.
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

}  // namespace

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

void RopeTest::Check(const RopeCase& c) {
  SCOPED_TRACE(testing::Message() << DTypeName(c.dtype) << "/" << DTypeName(c.kv_dtype) << " dim "
                                  << c.head_dim << " pairs " << c.num_pairs << " of distance "
                                  << c.distance() << " norms " << static_cast<int>(c.q_norm)
                                  << static_cast<int>(c.k_norm) << static_cast<int>(c.v_norm)
                                  << " row " << static_cast<int>(c.row_form) << " scaled "
                                  << c.scale_q << " hnd " << c.hnd << " heads " << c.num_q_heads
                                  << "/" << c.num_kv_heads << " tokens " << c.num_tokens);
  const RopeInputs in = MakeInputs(c);
  const RopeResult<float> actual = Run(c, in);
  const RopeResult<double> expected = Expected(c, in, MakeView(c));
  ExpectNear(actual.q, expected.q, c.dtype);
  ExpectNear(actual.k, expected.k, c.kv_dtype);
  ExpectNear(actual.v, expected.v, c.kv_dtype);
}

RopeResult<float> RopeTest::Run(const RopeCase& c, const RopeInputs& in) {
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

KvCacheView RopeTest::MakeView(const RopeCase& c) {
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

void RopeTest::ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                          DType dtype) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i],
                OutputRounding(dtype) * std::abs(expected[i]) + SubnormalRounding(dtype) +
                    (IsFloat8(dtype) ? 2e-5 : 2e-6))
        << "element " << i;
  }
}

}  // namespace quire
