#include "kernels/cpu/gemm/packing.h"

#include "kernels/base/check.h"
#include "kernels/base/half.h"
#include "kernels/base/random_weight.h"
#include "kernels/base/types.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/runtime/activation_dtypes.h"

namespace quire::cpu {

namespace {

// Element (row, column) of a panel of T is at step * kPanelFeatures * group + row * group + rest,
// where group is the number of input features per step.
template <typename T>
struct PanelOf {
  static constexpr int64_t kGroup = StepFeatures(kDTypeOf<T>);

  PanelOf(const LinearWeight& weight, int64_t row)
      : data(static_cast<T*>(weight.data) +
             row / kPanelFeatures * NumSteps(weight) * kPanelFeatures * kGroup +
             row % kPanelFeatures * kGroup) {}

  T& At(int64_t column) const {
    return data[column / kGroup * kPanelFeatures * kGroup + column % kGroup];
  }

  T* data;
};

template <typename T>
void WriteRow(const LinearWeight& weight, int64_t row, auto&& value_at) {
  const PanelOf<T> panel(weight, row);
  for (int64_t column = 0; column < weight.in_features; ++column) {
    panel.At(column) = T(value_at(column));
  }
  // A weight of zero, so that the padded activation adds nothing.
  const int64_t padded = NumSteps(weight) * PanelOf<T>::kGroup;
  for (int64_t column = weight.in_features; column < padded; ++column) panel.At(column) = T(0.0f);
}

template <typename T>
void ReadRow(const LinearWeight& weight, int64_t row, T* out) {
  const PanelOf<T> panel(weight, row);
  for (int64_t column = 0; column < weight.in_features; ++column) out[column] = panel.At(column);
}

template <typename T>
void PackRow(const LinearWeight& weight, int64_t row, DType dtype, const void* in) {
  switch (dtype) {
    case DType::kF32:
      return WriteRow<T>(weight, row,
                         [p = static_cast<const float*>(in)](int64_t i) { return p[i]; });
    case DType::kBF16:
      return WriteRow<T>(weight, row, [p = static_cast<const BFloat16*>(in)](int64_t i) {
        return static_cast<float>(p[i]);
      });
    case DType::kF16:
      return WriteRow<T>(weight, row, [p = static_cast<const uint16_t*>(in)](int64_t i) {
        return HalfToFloat(p[i]);
      });
    default:
      CHECK(false) << "cannot convert " << DTypeName(dtype) << " to a weight";
  }
}

template <typename T>
void FillRow(const LinearWeight& weight, const FillWeightArgs& args, int64_t row) {
  const uint64_t key = RandomRowKey(args.seed, args.tensor_id, row);
  const float scale = RandomWeightScale(args.stddev);
  WriteRow<T>(weight, row, [&](int64_t column) {
    return static_cast<float>(RandomByteSum(key, column)) * scale;
  });
}

}  // namespace

int64_t NumPanels(const LinearWeight& weight) {
  return CeilDiv(weight.out_features, kPanelFeatures);
}

int64_t NumSteps(const LinearWeight& weight) {
  CheckActivationDType(weight.dtype);
  return CeilDiv(weight.in_features, StepFeatures(weight.dtype));
}

int64_t PackedBytes(int64_t out_features, int64_t in_features, DType dtype) {
  const LinearWeight weight{
      .dtype = dtype, .out_features = out_features, .in_features = in_features};
  return NumPanels(weight) * NumSteps(weight) * kStepBytes;
}

void PackRows(const LinearWeight& weight, int64_t first_row, const Tensor& rows) {
  const int64_t row_bytes = rows.row_stride() * DTypeBytes(rows.dtype());
  for (int64_t i = 0; i < rows.dim(0); ++i) {
    const void* in = static_cast<const char*>(rows.data()) + i * row_bytes;
    if (weight.dtype == DType::kBF16) {
      PackRow<BFloat16>(weight, first_row + i, rows.dtype(), in);
    } else {
      PackRow<float>(weight, first_row + i, rows.dtype(), in);
    }
  }
}

void FillNormal(const LinearWeight& weight, const FillWeightArgs& args, ThreadPool& pool) {
  pool.ParallelFor(weight.out_features, kPanelFeatures, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      if (weight.dtype == DType::kBF16) {
        FillRow<BFloat16>(weight, args, row);
      } else {
        FillRow<float>(weight, args, row);
      }
    }
  });
}

void UnpackRow(const LinearWeight& weight, int64_t row, void* out) {
  if (weight.is_compressed()) {
    UnpackCompressedRow(weight, row, static_cast<BFloat16*>(out));
  } else if (weight.dtype == DType::kBF16) {
    ReadRow(weight, row, static_cast<BFloat16*>(out));
  } else {
    ReadRow(weight, row, static_cast<float*>(out));
  }
}

}  // namespace quire::cpu
