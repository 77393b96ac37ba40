// GraphTimer: device time of an operation, measured in captured graphs of many calls. The caller
// lets the calls go through more memory than the caches hold. It works the same on every device.
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace quire::bench {

// How often to call an operation that takes `call_us`, in whole rounds of `round` calls: about
// `enough` times, fewer if that would take longer than half a second, at least one round.
int NumCalls(double call_us, int round, int enough);

class GraphTimer {
 public:
  static absl::StatusOr<std::unique_ptr<GraphTimer>> Create(Backend& backend);

  // Microseconds of one call. Captures `enqueue(i)` for i in [0, num_calls) and replays it at least
  // three times and for about a tenth of a second. Returns the median of the replays.
  absl::StatusOr<double> MedianUs(int num_calls, const std::function<void(int)>& enqueue);

  // As above, for as many calls as NumCalls says after one call was timed.
  absl::StatusOr<double> MedianOfRoundsUs(int round, int enough,
                                          const std::function<void(int)>& enqueue);

  // As above for calls that use their buffers in turn. If each call touches `bytes`, there are
  // enough calls to go through cold_bytes() twice. There are fewer if that takes too long, as on a
  // CPU: an operation that takes that long does not wait for memory.
  absl::StatusOr<double> MedianColdUs(int64_t bytes, int num_buffers,
                                      const std::function<void(int)>& enqueue);

  Backend& backend() { return backend_; }
  DeviceKind device_kind() const { return backend_.device().info().kind; }
  Stream& stream() { return *stream_; }
  // The bytes through which a round of calls must go, so that it finds nothing in a cache.
  int64_t cold_bytes() const;
  // How many buffers of this size make cold_bytes().
  int NumColdBuffers(int64_t bytes) const;

  // Random values, of 32, 16 or 8 bits: speed on zeros is not speed on data.
  absl::StatusOr<DeviceBuffer> Random(DType dtype, int64_t num_elements, uint64_t seed);
  void FillRandom(void* data, DType dtype, int64_t num_elements, uint64_t seed);
  template <typename T>
  absl::StatusOr<DeviceBuffer> Upload(const std::vector<T>& values) {
    return UploadBytes(values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
  }

 private:
  explicit GraphTimer(Backend& backend) : backend_(backend) {}
  void FillRandomFloat8(void* data, DType dtype, int64_t num_elements, uint64_t seed);
  absl::StatusOr<double> ReplayUs(const ExecGraph& graph);
  absl::StatusOr<DeviceBuffer> UploadBytes(const void* values, int64_t bytes);

  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_, end_;
};

// Bytes per second of work that only reads, in cold memory.
absl::StatusOr<double> ReadCeiling(GraphTimer& timer);
// Bytes per second, read and written, of work that only copies, in cold memory.
absl::StatusOr<double> CopyCeiling(GraphTimer& timer);
// FLOP/s of a large square gemm of bfloat16 matrices.
absl::StatusOr<double> GemmCeiling(GraphTimer& timer);

}  // namespace quire::bench
