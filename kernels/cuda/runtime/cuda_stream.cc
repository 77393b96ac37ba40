#include "kernels/cuda/runtime/cuda_stream.h"

#include "kernels/base/check.h"

namespace quire::cuda {

absl::Status CudaEvent::Wait() {
  errors_->Note(cudaEventSynchronize(event_), "waiting for the device");
  return errors_->status();
}

double CudaEvent::MicrosecondsSince(const Event& earlier) const {
  float ms = 0;
  errors_->Note(cudaEventElapsedTime(&ms, static_cast<const CudaEvent&>(earlier).event_, event_),
                "reading an event's time");
  return 1e3 * ms;
}

void CudaStream::CopyToDevice(void* device_dst, const void* pinned_src, int64_t bytes) {
  errors_->Note(cudaMemcpyAsync(device_dst, pinned_src, static_cast<size_t>(bytes),
                                cudaMemcpyHostToDevice, stream_),
                "copy to the device");
}

void CudaStream::CopyToHost(void* pinned_dst, const void* device_src, int64_t bytes) {
  errors_->Note(cudaMemcpyAsync(pinned_dst, device_src, static_cast<size_t>(bytes),
                                cudaMemcpyDeviceToHost, stream_),
                "copy to the host");
}

void CudaStream::FillZero(void* device_dst, int64_t bytes) {
  errors_->Note(cudaMemsetAsync(device_dst, 0, static_cast<size_t>(bytes), stream_),
                "filling device memory");
}

void CudaStream::Record(Event& event) {
  CHECK(!capturing_) << "an event cannot be recorded in a captured graph";
  errors_->Note(cudaEventRecord(static_cast<CudaEvent&>(event).event_, stream_),
                "recording an event");
}

void CudaStream::BeginCapture() {
  CHECK(!capturing_) << "BeginCapture twice";
  capturing_ = true;
  // Thread-local: loading weights on other threads may go on meanwhile.
  errors_->Note(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                "beginning a capture");
}

absl::StatusOr<std::unique_ptr<ExecGraph>> CudaStream::EndCapture() {
  CHECK(capturing_) << "EndCapture without BeginCapture";
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  errors_->Note(cudaStreamEndCapture(stream_, &graph), "ending a capture");
  if (absl::Status status = errors_->status(); !status.ok()) return status;
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not for the next launch to find: the device itself is well
    return ToStatus(error, "instantiating a captured graph");
  }
  errors_->Note(error, "instantiating a captured graph");
  if (error != cudaSuccess) return errors_->status();
  return std::make_unique<CudaGraph>(exec);
}

void CudaStream::Launch(const ExecGraph& graph) {
  errors_->Note(cudaGraphLaunch(static_cast<const CudaGraph&>(graph).exec(), stream_),
                "launching a captured graph");
}

absl::Status CudaStream::Synchronize() {
  CHECK(!capturing_) << "Synchronize while capturing";
  errors_->Note(cudaStreamSynchronize(stream_), "waiting for the device");
  return errors_->status();
}

}  // namespace quire::cuda
