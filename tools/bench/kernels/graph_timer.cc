#include "tools/bench/kernels/graph_timer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/float8.h"
#include "kernels/base/random_weight.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/memory_probe.h"

namespace quire::bench {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr double kReplaysUs = 1e5;
constexpr int kMinReplays = 3;
constexpr int64_t kFloat8Bytes = kMiB / 2;  // of random 8-bit elements
constexpr int kMaxReplays = 21;

}  // namespace

int NumCalls(double call_us, int round, int enough) {
  constexpr double kMostUs = 2e5;
  const int most_rounds = CeilDiv(enough, round);
  const double rounds_in_time = kMostUs / std::max(call_us * round, 1e-3);
  return round *
         static_cast<int>(std::clamp(rounds_in_time, 1.0, static_cast<double>(most_rounds)));
}

absl::StatusOr<std::unique_ptr<GraphTimer>> GraphTimer::Create(Backend& backend) {
  std::unique_ptr<GraphTimer> timer(new GraphTimer(backend));
  ASSIGN_OR_RETURN(timer->stream_, backend.device().CreateStream());
  ASSIGN_OR_RETURN(timer->begin_, backend.device().CreateEvent(/*timed=*/true));
  ASSIGN_OR_RETURN(timer->end_, backend.device().CreateEvent(/*timed=*/true));
  return timer;
}

int64_t GraphTimer::cold_bytes() const {
  return device_kind() == DeviceKind::kCuda ? 1024 * kMiB
                                            : 256 * kMiB;  // many times the last cache
}

int GraphTimer::NumColdBuffers(int64_t bytes) const {
  return static_cast<int>(std::max<int64_t>(2, CeilDiv(cold_bytes(), bytes)));
}

absl::StatusOr<double> GraphTimer::ReplayUs(const ExecGraph& graph) {
  stream_->Record(*begin_);
  stream_->Launch(graph);
  stream_->Record(*end_);
  RETURN_IF_ERROR(end_->Wait());
  return end_->MicrosecondsSince(*begin_);
}

absl::StatusOr<double> GraphTimer::MedianUs(int num_calls,
                                            const std::function<void(int)>& enqueue) {
  stream_->BeginCapture();
  for (int i = 0; i < num_calls; ++i) enqueue(i);
  ASSIGN_OR_RETURN(const std::unique_ptr<ExecGraph> graph, stream_->EndCapture());
  ASSIGN_OR_RETURN(const double warm_us, ReplayUs(*graph));
  const int num_replays =
      std::clamp(static_cast<int>(kReplaysUs / std::max(warm_us, 1.0)), kMinReplays, kMaxReplays);
  std::vector<double> times_us;
  for (int i = 0; i < num_replays; ++i) {
    ASSIGN_OR_RETURN(const double us, ReplayUs(*graph));
    times_us.push_back(us / num_calls);
  }
  std::nth_element(times_us.begin(), times_us.begin() + num_replays / 2, times_us.end());
  return times_us[num_replays / 2];
}

absl::StatusOr<double> GraphTimer::MedianOfRoundsUs(int round, int enough,
                                                    const std::function<void(int)>& enqueue) {
  ASSIGN_OR_RETURN(const double first_us, MedianUs(1, enqueue));
  return MedianUs(NumCalls(first_us, round, enough), enqueue);
}

absl::StatusOr<double> GraphTimer::MedianColdUs(int64_t bytes, int num_buffers,
                                                const std::function<void(int)>& enqueue) {
  constexpr int kMaxCalls = 512;
  const int enough = std::min(2 * NumColdBuffers(std::max<int64_t>(bytes, 1)), kMaxCalls);
  return MedianOfRoundsUs(/*round=*/1, RoundUp(enough, num_buffers),
                          [&](int i) { enqueue(i % num_buffers); });
}

// The same ones again and again: it is their addresses that caches know them by.
void GraphTimer::FillRandomFloat8(void* data, DType dtype, int64_t num_elements, uint64_t seed) {
  const uint64_t key = RandomRowKey(seed, 0, 0);
  const float scale = RandomWeightScale(1.0f);
  const absl::StatusOr<DeviceBuffer> pinned = backend_.device().AllocatePinned(kFloat8Bytes);
  CHECK(pinned.ok()) << pinned.status();
  auto* bytes = pinned->as<uint8_t>();
  for (int64_t i = 0; i < std::min(kFloat8Bytes, num_elements); ++i) {
    const float value = static_cast<float>(RandomByteSum(key, i)) * scale;
    bytes[i] = dtype == DType::kF8E4M3 ? Float8E4M3(value).bits : Float8E5M2(value).bits;
  }
  for (int64_t at = 0; at < num_elements; at += kFloat8Bytes) {
    stream_->CopyToDevice(static_cast<char*>(data) + at, bytes,
                          std::min(kFloat8Bytes, num_elements - at));
  }
  const absl::Status done = stream_->Synchronize();
  CHECK(done.ok()) << done;
}

void GraphTimer::FillRandom(void* data, DType dtype, int64_t num_elements, uint64_t seed) {
  if (IsFloat8(dtype)) return FillRandomFloat8(data, dtype, num_elements, seed);
  constexpr int64_t kColumns = 512;
  // As a matrix, whose rows are filled from the same generator as dummy weights are.
  LinearWeight matrix = {.data = data,
                         .dtype = dtype,
                         .out_features = num_elements / kColumns,
                         .in_features = kColumns};
  const int64_t bytes = num_elements * DTypeBytes(dtype);
  WeightStore& store = backend_.weight_store();
  while (matrix.out_features > 0 && store.BytesOf(matrix) > bytes) {
    --matrix.out_features;  // the backend's layout pads
  }
  if (matrix.out_features > 0) {
    store.Fill(*stream_, matrix, {.seed = seed, .tensor_id = 0, .stddev = 1.0f});
  }
}

absl::StatusOr<DeviceBuffer> GraphTimer::Random(DType dtype, int64_t num_elements, uint64_t seed) {
  const int64_t bytes = RoundUp<int64_t>(num_elements * DTypeBytes(dtype), 64);
  ASSIGN_OR_RETURN(DeviceBuffer buffer, backend_.device().Allocate(bytes));
  stream_->FillZero(buffer.data(), bytes);
  FillRandom(buffer.data(), dtype, num_elements, seed);
  RETURN_IF_ERROR(stream_->Synchronize());
  return buffer;
}

absl::StatusOr<DeviceBuffer> GraphTimer::UploadBytes(const void* values, int64_t bytes) {
  ASSIGN_OR_RETURN(DeviceBuffer buffer, backend_.device().Allocate(bytes));
  ASSIGN_OR_RETURN(const DeviceBuffer pinned, backend_.device().AllocatePinned(bytes));
  std::memcpy(pinned.data(), values, bytes);
  stream_->CopyToDevice(buffer.data(), pinned.data(), bytes);
  RETURN_IF_ERROR(stream_->Synchronize());
  return buffer;
}

absl::StatusOr<double> ReadCeiling(GraphTimer& timer) {
  const int64_t bytes = timer.cold_bytes();
  const int num_buffers = 2;
  std::vector<DeviceBuffer> buffers;
  for (int i = 0; i < num_buffers; ++i) {
    ASSIGN_OR_RETURN(DeviceBuffer buffer, timer.Random(DType::kBF16, bytes / 2, i));
    buffers.push_back(std::move(buffer));
  }
  ASSIGN_OR_RETURN(const DeviceBuffer sink, timer.backend().device().Allocate(4));
  ASSIGN_OR_RETURN(const double us, timer.MedianUs(2 * num_buffers, [&](int i) {
    EnqueueRead(timer.backend(), timer.stream(), buffers[i % num_buffers].data(), bytes,
                sink.as<uint32_t>());
  }));
  return static_cast<double>(bytes) / us * 1e6;
}

absl::StatusOr<double> CopyCeiling(GraphTimer& timer) {
  const int64_t bytes = timer.cold_bytes();
  ASSIGN_OR_RETURN(const DeviceBuffer from, timer.Random(DType::kBF16, bytes / 2, 1));
  ASSIGN_OR_RETURN(const DeviceBuffer to, timer.backend().device().Allocate(bytes));
  ASSIGN_OR_RETURN(const double us, timer.MedianUs(4, [&](int) {
    EnqueueCopy(timer.backend(), timer.stream(), to.data(), from.data(), bytes);
  }));
  return 2.0 * static_cast<double>(bytes) / us * 1e6;
}

absl::StatusOr<double> GemmCeiling(GraphTimer& timer) {
  const bool cuda = timer.device_kind() == DeviceKind::kCuda;
  const int64_t m = cuda ? 8192 : 256;
  const int64_t n = cuda ? 8192 : 2048;
  ASSIGN_OR_RETURN(const DeviceBuffer x, timer.Random(DType::kBF16, m * n, 1));
  ASSIGN_OR_RETURN(const DeviceBuffer out, timer.backend().device().Allocate(2 * m * n));
  Ops& ops = timer.backend().ops();
  WeightStore& store = timer.backend().weight_store();
  LinearWeight weight = {.dtype = DType::kBF16, .out_features = n, .in_features = n};
  ASSIGN_OR_RETURN(const DeviceBuffer memory,
                   timer.backend().device().Allocate(store.BytesOf(weight)));
  weight.data = memory.data();
  store.Fill(timer.stream(), weight, {.seed = 2, .tensor_id = 0, .stddev = 0.02f});
  const LinearArgs args = {.x = Tensor(x.data(), DType::kBF16, {m, n}),
                           .weight = &weight,
                           .out = Tensor(out.data(), DType::kBF16, {m, n})};
  ASSIGN_OR_RETURN(const double us,
                   timer.MedianUs(4, [&](int) { ops.Linear(timer.stream(), args); }));
  return 2.0 * static_cast<double>(m * n * n) / us * 1e6;
}

}  // namespace quire::bench
