// KernelTest: the fixture of tests that run one operation through the doors of kernels/ on every
// backend this machine has, and on the CPU with every instruction set. Moves host vectors to the
// device and back, converting to the operation's dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/base/half.h"
#include "kernels/cpu/runtime/isa.h"
#include "tests/kernels/load_rows.h"

namespace quire {

struct KernelTarget {
  std::string name;
  DeviceKind kind;
  std::string cpu_isa;
};

inline std::vector<KernelTarget> KernelTargets() {
  std::vector<KernelTarget> targets;
  for (cpu::Isa isa : cpu::kAllIsas) {
    const std::string name = cpu::IsaName(isa);
    if (cpu::IsaSupported(isa)) targets.push_back({"Cpu_" + name, DeviceKind::kCpu, name});
  }
  if (CudaAvailable()) targets.push_back({"Cuda", DeviceKind::kCuda, ""});
  return targets;
}

inline std::string TargetName(const testing::TestParamInfo<KernelTarget>& info) {
  return info.param.name;
}

// A tensor with its device memory.
struct DeviceTensor {
  DeviceBuffer buffer;
  Tensor tensor;
};

inline std::vector<float> RandomNormal(int64_t size, uint32_t seed, float deviation = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(size);
  for (float& value : values) value = normal(rng);
  return values;
}

// The nearest IEEE float16, of a value in its range or NaN.
inline uint16_t FloatToHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const int exponent = value == 0 ? -14 : std::max(std::ilogb(value), -14);
  const float units = std::nearbyint(std::ldexp(std::abs(value), 10 - exponent));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + static_cast<int>(units)));
}

// The values as a tensor of this dtype holds them.
inline std::vector<float> RoundTo(DType dtype, std::vector<float> values) {
  for (float& value : values) {
    if (dtype == DType::kBF16) value = static_cast<float>(BFloat16(value));
    if (dtype == DType::kF16) value = HalfToFloat(FloatToHalf(value));
  }
  return values;
}

// Half a unit in the last place of an output of this dtype, relative.
inline double OutputRounding(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-8 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-23;
}

class KernelTest : public testing::TestWithParam<KernelTarget> {
 protected:
  void SetUp() override { OpenWithThreads(2); }

  virtual std::unique_ptr<Backend> MakeBackend(int num_threads) {
    return OpenBackend(
               {.kind = GetParam().kind, .num_threads = num_threads, .cpu_isa = GetParam().cpu_isa})
        .value();
  }

  void OpenWithThreads(int num_threads) {
    stream_.reset();
    backend_ = MakeBackend(num_threads);
    stream_ = backend_->device().CreateStream().value();
  }

  Backend& backend() { return *backend_; }
  Ops& ops() { return backend_->ops(); }
  WeightStore& weight_store() { return backend_->weight_store(); }
  Stream& stream() { return *stream_; }
  AttentionBackend& attention() { return *backend_->attention(AttentionPath::kNative); }

  void Synchronize() { ASSERT_TRUE(stream_->Synchronize().ok()); }

  template <typename T>
  DeviceBuffer Upload(const std::vector<T>& values) {
    const int64_t bytes = std::max<int64_t>(1, values.size()) * sizeof(T);
    DeviceBuffer buffer = backend_->device().Allocate(bytes).value();
    Overwrite(buffer, values);
    return buffer;
  }

  // Replaces the beginning of a buffer.
  template <typename T>
  void Overwrite(const DeviceBuffer& buffer, const std::vector<T>& values) {
    if (values.empty()) return;
    const int64_t bytes = values.size() * sizeof(T);
    DeviceBuffer pinned = backend_->device().AllocatePinned(bytes).value();
    std::memcpy(pinned.data(), values.data(), bytes);
    stream_->CopyToDevice(buffer.data(), pinned.data(), bytes);
    Synchronize();
  }

  template <typename T>
  std::vector<T> Download(const void* device, int64_t count) {
    DeviceBuffer pinned = backend_->device().AllocatePinned(count * sizeof(T)).value();
    stream_->CopyToHost(pinned.data(), device, count * sizeof(T));
    Synchronize();
    return std::vector<T>(pinned.as<T>(), pinned.as<T>() + count);
  }

  DeviceTensor UploadTensor(const std::vector<float>& values, DType dtype,
                            std::initializer_list<int64_t> shape) {
    DeviceTensor result;
    if (dtype == DType::kBF16) {
      std::vector<BFloat16> rounded;
      for (float value : values) rounded.push_back(BFloat16(value));
      result.buffer = Upload(rounded);
    } else if (dtype == DType::kF16) {
      std::vector<uint16_t> rounded;
      for (float value : values) rounded.push_back(FloatToHalf(value));
      result.buffer = Upload(rounded);
    } else {
      result.buffer = Upload(values);
    }
    result.tensor = Tensor(result.buffer.data(), dtype, shape);
    return result;
  }

  std::vector<float> DownloadTensor(const Tensor& tensor) {
    if (tensor.dtype() == DType::kF32) {
      return Download<float>(tensor.data(), tensor.num_elements());
    }
    std::vector<float> values;
    if (tensor.dtype() == DType::kF16) {
      for (uint16_t half : Download<uint16_t>(tensor.data(), tensor.num_elements())) {
        values.push_back(HalfToFloat(half));
      }
      return values;
    }
    for (BFloat16 value : Download<BFloat16>(tensor.data(), tensor.num_elements())) {
      values.push_back(static_cast<float>(value));
    }
    return values;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace quire
