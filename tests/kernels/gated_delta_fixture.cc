#include "tests/kernels/gated_delta_fixture.h"

#include <algorithm>
#include <cmath>

namespace quire {

bool AllNan(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]) / (1 + std::abs(expected[i]));
    if (!(error <= worst)) worst = error;  // NaN is kept
  }
  EXPECT_LE(worst, tolerance) << what;
}

void GatedDeltaTest::Use(const GatedDeltaShape& shape, DType dtype, int64_t num_slots) {
  shape_ = shape;
  dtype_ = dtype;
  weights_.conv = RandomNormal(shape.num_channels() * shape.conv_width, 11, 0.5f);
  weights_.a_log = RandomNormal(shape.num_v_heads, 12);
  weights_.dt_bias = RandomNormal(shape.num_v_heads, 13);
  weights_.norm = RandomNormal(shape.v_head_dim, 14);
  num_slots_ = num_slots;
  PoisonSlots();
}

void GatedDeltaTest::PoisonSlots() {
  conv_ = UploadTensor(std::vector<float>(num_slots_ * (ConvSize() + kGap), kNan), dtype_,
                       {num_slots_, ConvSize() + kGap});
  recurrent_ = UploadTensor(std::vector<float>(num_slots_ * (RecurrentSize() + kGap), kNan),
                            state_dtype_, {num_slots_, RecurrentSize() + kGap});
}

GatedDeltaTest::Packed GatedDeltaTest::Pack(const std::vector<Piece>& pieces) const {
  const int64_t row_size = Tokens::RowSize(shape_), ba_size = 2 * shape_.num_v_heads;
  Packed step;
  for (const Piece& piece : pieces) {
    for (int64_t token = piece.begin; token < piece.end; ++token) {
      for (int64_t i = 0; i < row_size + kGap; ++i) {
        const bool is_value = piece.tokens != nullptr && i < row_size;
        step.qkvz.push_back(is_value ? piece.tokens->qkvz[token * row_size + i] : kNan);
      }
      for (int64_t i = 0; i < ba_size; ++i) {
        step.ba.push_back(piece.tokens != nullptr ? piece.tokens->ba[token * ba_size + i] : kNan);
      }
    }
    const auto num_before = static_cast<int32_t>(step.sequences.size());
    if (piece.end - piece.begin == 1 && step.num_decodes == num_before) ++step.num_decodes;
    step.cu_seqlens.push_back(
        static_cast<int32_t>(step.cu_seqlens.back() + piece.end - piece.begin));
    step.seq_lens.push_back(static_cast<int32_t>(piece.end));
    step.sequences.push_back({piece.read, piece.write, static_cast<int32_t>(step.snapshots.size()),
                              static_cast<int32_t>(piece.snapshots.size())});
    step.snapshots.insert(step.snapshots.end(), piece.snapshots.begin(), piece.snapshots.end());
  }
  const int64_t num_tokens = step.cu_seqlens.back() + 2;
  step.qkvz.resize(num_tokens * (row_size + kGap), kNan);
  step.ba.resize(num_tokens * ba_size, kNan);
  return step;
}

std::vector<float> GatedDeltaTest::Step(const std::vector<Piece>& pieces) {
  const Packed step = Pack(pieces);
  const int64_t row_size = Tokens::RowSize(shape_), num_heads = shape_.num_v_heads;
  const int64_t num_tokens = step.cu_seqlens.back() + 2;
  const DeviceTensor qkvz_device = UploadTensor(step.qkvz, dtype_, {num_tokens, row_size + kGap});
  const DeviceTensor ba_device = UploadTensor(step.ba, dtype_, {num_tokens, 2 * num_heads});
  const DeviceTensor conv_weight =
      UploadTensor(weights_.conv, DType::kF32, {shape_.num_channels(), shape_.conv_width});
  const DeviceTensor a_log = UploadTensor(weights_.a_log, DType::kF32, {num_heads});
  const DeviceTensor dt_bias = UploadTensor(weights_.dt_bias, DType::kF32, {num_heads});
  const DeviceTensor norm = UploadTensor(weights_.norm, DType::kF32, {shape_.v_head_dim});
  const DeviceTensor conv_out =
      UploadTensor(std::vector<float>(num_tokens * shape_.num_channels(), kNan), dtype_,
                   {num_tokens, shape_.num_channels()});
  const int64_t room_floats =
      GatedDeltaRoomBytes(shape_, num_tokens, GetParam().kind) / int64_t{sizeof(float)};
  const DeviceTensor room = UploadTensor(std::vector<float>(room_floats, kNan), DType::kF32, {1});
  const DeviceTensor out =
      UploadTensor(std::vector<float>(num_tokens * shape_.v_size(), kUntouched), dtype_,
                   {num_tokens, shape_.v_size()});
  const DeviceBuffer cu_seqlens_device = Upload(step.cu_seqlens);
  const DeviceBuffer seq_lens_device = Upload(step.seq_lens);
  const DeviceBuffer sequences_device = Upload(step.sequences),
                     snapshots_device = Upload(step.snapshots);
  GatedDeltaArgs args = {.shape = shape_,
                         .qkvz = Tensor(qkvz_device.buffer.data(), dtype_, {num_tokens, row_size})
                                     .WithRowStride(row_size + kGap),
                         .ba = ba_device.tensor,
                         .conv_weight = conv_weight.tensor,
                         .a_log = a_log.tensor,
                         .dt_bias = dt_bias.tensor,
                         .norm_weight = norm.tensor,
                         .norm_eps = weights_.norm_eps,
                         .state = View(),
                         .batch = {.num_seqs = static_cast<int32_t>(pieces.size()),
                                   .num_decodes = step.num_decodes,
                                   .cu_seqlens_q = cu_seqlens_device.as<int32_t>(),
                                   .seq_lens = seq_lens_device.as<int32_t>(),
                                   .sequences = sequences_device.as<StateAccess>(),
                                   .snapshots = snapshots_device.as<StateSnapshot>()},
                         .conv_out = conv_out.tensor,
                         .out = out.tensor};
  if (room_floats > 0) {
    args.room = Tensor(room.buffer.data(), DType::kU8, {room_floats * int64_t{sizeof(float)}});
  }
  ops().GatedDelta(stream(), args);
  std::vector<float> result = DownloadTensor(out.tensor);
  for (int64_t i = 0; i < 2 * shape_.v_size(); ++i) {
    EXPECT_EQ(result.back(), kUntouched) << "behind the last sequence";
    result.pop_back();
  }
  return result;
}

StateView GatedDeltaTest::View() const {
  return {.conv = conv_.buffer.data(),
          .recurrent = recurrent_.buffer.data(),
          .conv_stride_bytes = (ConvSize() + kGap) * DTypeBytes(dtype_),
          .recurrent_stride_bytes = (RecurrentSize() + kGap) * DTypeBytes(state_dtype_),
          .dtype = state_dtype_};
}

SlotContents GatedDeltaTest::Slot(int64_t slot) {
  const std::vector<float> conv = DownloadTensor(conv_.tensor.Rows(slot, 1));
  const std::vector<float> recurrent = DownloadTensor(recurrent_.tensor.Rows(slot, 1));
  EXPECT_TRUE(AllNan({conv.end() - kGap, conv.end()})) << "behind slot " << slot;
  EXPECT_TRUE(AllNan({recurrent.end() - kGap, recurrent.end()})) << "behind slot " << slot;
  return {{conv.begin(), conv.end() - kGap}, {recurrent.begin(), recurrent.end() - kGap}};
}

void GatedDeltaTest::ExpectSame(const std::vector<float>& actual,
                                const std::vector<float>& expected, const char* what) {
  if (GetParam().kind == DeviceKind::kCpu) {
    EXPECT_TRUE(actual == expected) << what;
    return;
  }
  const double tolerance =
      dtype_ == DType::kF32 ? 1e-4 : std::max(4 * OutputRounding(dtype_), TileRounding());
  ExpectNear(actual, std::vector<double>(expected.begin(), expected.end()), tolerance, what);
}

double GatedDeltaTest::TileRounding() const {
  return GetParam().kind == DeviceKind::kCuda && shape_.has_tiles() ? 8e-3 : 0;
}

void GatedDeltaTest::ExpectSameState(int64_t actual, int64_t expected) {
  const SlotContents a = Slot(actual), b = Slot(expected);
  EXPECT_TRUE(a.conv == b.conv) << "inputs in slot " << actual;
  EXPECT_FALSE(AllNan(b.recurrent));
  ExpectSame(a.recurrent, b.recurrent, "recurrent state");
}

void GatedDeltaTest::ExpectPoisoned(int64_t slot) {
  const SlotContents contents = Slot(slot);
  EXPECT_TRUE(AllNan(contents.conv) && AllNan(contents.recurrent)) << "slot " << slot;
}

}  // namespace quire
