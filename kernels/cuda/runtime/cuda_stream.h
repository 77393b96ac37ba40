// CudaStream, CudaEvent and CudaGraph: the Stream door over CUDA's own. A launch that fails and an
// error of work already running are both noted in DeviceErrors and come back from Wait and
// Synchronize. One thread (the engine's) uses a stream; events may be asked from another.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/cuda/runtime/device_errors.h"
#include "kernels/device.h"

namespace quire::cuda {

class CudaGraph : public ExecGraph {
 public:
  explicit CudaGraph(cudaGraphExec_t exec) : exec_(exec) {}
  ~CudaGraph() override { cudaGraphExecDestroy(exec_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  cudaGraphExec_t exec() const { return exec_; }

 private:
  const cudaGraphExec_t exec_;
};

class CudaEvent : public Event {
 public:
  CudaEvent(cudaEvent_t event, std::shared_ptr<DeviceErrors> errors)
      : event_(event), errors_(std::move(errors)) {}
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool Done() const override { return cudaEventQuery(event_) != cudaErrorNotReady; }
  absl::Status Wait() override;
  double MicrosecondsSince(const Event& earlier) const override;

 private:
  friend class CudaStream;
  const cudaEvent_t event_;
  const std::shared_ptr<DeviceErrors> errors_;
};

class CudaStream : public Stream {
 public:
  CudaStream(cudaStream_t stream, std::shared_ptr<DeviceErrors> errors)
      : stream_(stream), errors_(std::move(errors)) {}
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // Every stream that reaches the CUDA backend was made by it.
  static CudaStream& From(Stream& stream) { return static_cast<CudaStream&>(stream); }
  cudaStream_t handle() const { return stream_; }
  DeviceErrors& errors() { return *errors_; }

  // Calls launch(handle()), which launches kernels, and notes a launch that failed. `operation`
  // names it in the error.
  template <typename F>
  void Run(const char* operation, const F& launch) {
    launch(stream_);
    errors_->Note(cudaGetLastError(), operation);
  }

  void CopyToDevice(void* device_dst, const void* pinned_src, int64_t bytes) override;
  void CopyToHost(void* pinned_dst, const void* device_src, int64_t bytes) override;
  void FillZero(void* device_dst, int64_t bytes) override;
  // Not while capturing.
  void Record(Event& event) override;
  void BeginCapture() override;
  absl::StatusOr<std::unique_ptr<ExecGraph>> EndCapture() override;
  void Launch(const ExecGraph& graph) override;
  absl::Status Synchronize() override;

 private:
  const cudaStream_t stream_;
  const std::shared_ptr<DeviceErrors> errors_;
  bool capturing_ = false;
};

}  // namespace quire::cuda
