// KernelTest: the fixture of tests that run one operation through the doors of kernels/ on every
// backend this machine has, and on the CPU with every instruction set. Moves host vectors to the
// device and back, converting to the operation's dtype.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cpu/runtime/isa.h"
#include "tests/kernels/load_rows.h"
#include "tests/kernels/test_values.h"

namespace quire {

struct KernelTarget {
  std::string name;
  DeviceKind kind;
  std::string cpu_isa;
  AttentionPath path = AttentionPath::kNative;
};

// Just the GPU's target, if there is a GPU.
inline std::vector<KernelTarget> CudaTargets() {
  return CudaAvailable() ? std::vector<KernelTarget>{{"Cuda", DeviceKind::kCuda, ""}}
                         : std::vector<KernelTarget>();
}

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
  const std::vector<DType>& activation_dtypes() {
    return backend_->device().info().activation_dtypes;
  }
  // Those of them that tensor cores multiply.
  std::vector<DType> half_dtypes() {
    std::vector<DType> dtypes = activation_dtypes();
    dtypes.erase(std::remove(dtypes.begin(), dtypes.end(), DType::kF32), dtypes.end());
    return dtypes;
  }
  AttentionBackend& attention() { return *backend_->attention(GetParam().path); }

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
    result.buffer = Upload(BytesOf(dtype, values));
    result.tensor = Tensor(result.buffer.data(), dtype, shape);
    return result;
  }

  std::vector<float> DownloadTensor(const Tensor& tensor) {
    if (tensor.dtype() == DType::kF32) {
      return Download<float>(tensor.data(), tensor.num_elements());
    }
    if (tensor.dtype() == DType::kF8E4M3) return DownloadAsFloats<Float8E4M3>(tensor);
    if (tensor.dtype() == DType::kF8E5M2) return DownloadAsFloats<Float8E5M2>(tensor);
    return tensor.dtype() == DType::kF16 ? DownloadAsFloats<Float16>(tensor)
                                         : DownloadAsFloats<BFloat16>(tensor);
  }

 private:
  template <typename T>
  std::vector<float> DownloadAsFloats(const Tensor& tensor) {
    std::vector<float> values;
    for (T value : Download<T>(tensor.data(), tensor.num_elements())) {
      values.push_back(static_cast<float>(value));
    }
    return values;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace quire
