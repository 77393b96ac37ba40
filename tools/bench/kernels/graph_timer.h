// GraphTimer: device time of an operation, measured in captured graphs of many calls, which the
// caller lets go through more memory than the caches hold. The same for every device. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace quire::bench {

// How often to call something that takes `call_us`, in whole rounds of `round` calls: about
// `enough`, fewer when those would take longer than half a second, at least one round.
int NumCalls(double call_us, int round, int enough);

class GraphTimer {
 public:
  static absl::StatusOr<std::unique_ptr<GraphTimer>> Create(Backend& backend);

  // Microseconds of one call: `enqueue(i)` is captured for i in [0, num_calls) and replayed, at
  // least three times and for about a tenth of a second; the median of the replays.
  absl::StatusOr<double> MedianUs(int num_calls, const std::function<void(int)>& enqueue);

  // As above, for as many calls as NumCalls says after a look at one.
  absl::StatusOr<double> MedianOfRoundsUs(int round, int enough,
                                          const std::function<void(int)>& enqueue);

  // As above for calls that take their memory in turn: enough of them to go through cold_bytes()
  // twice, when each touches `bytes`; fewer when there is no time for them, as on a CPU, where what
  // takes so long does not wait for memory.
  absl::StatusOr<double> MedianColdUs(int64_t bytes, int num_buffers,
                                      const std::function<void(int)>& enqueue);

  Backend& backend() { return backend_; }
  DeviceKind device_kind() const { return backend_.device().info().kind; }
  Stream& stream() { return *stream_; }
  // What a round of calls must go through to find nothing in a cache.
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
// Likewise of work that only copies: bytes read and written.
absl::StatusOr<double> CopyCeiling(GraphTimer& timer);
// FLOP/s of a large square gemm of bfloat16 matrices.
absl::StatusOr<double> GemmCeiling(GraphTimer& timer);

}  // namespace quire::bench
