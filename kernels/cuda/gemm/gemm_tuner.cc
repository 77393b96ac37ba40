#include "kernels/cuda/gemm/gemm_tuner.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/cuda/gemm/known_gemms.h"
#include "kernels/cuda/gemm/own_gemms.h"
#include "kernels/cuda/gemm/tuning_cache.h"
#include "kernels/cuda/gemm/weight_kernels.h"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/float8_rows.h"
#include "spdlog/spdlog.h"

namespace quire::cuda {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTimeLimit = std::chrono::seconds(3);  // for a start; the next one goes on
constexpr double kMeasuredUs = 150;  // calls in a row until so long, between these limits
constexpr int kMinCalls = 2, kMaxCalls = 8;
constexpr int kReplays = 5;
constexpr double kHopeless = 1.2;     // of the time so far in one replay: no more of them
constexpr double kWorthwhile = 0.99;  // of the time so far; less is noise
// Of candidates the fastest are measured once more: what was fast by chance is so once.
constexpr int kFinalists = 3;

std::string CurrentMachine(const CudaDevice& device) {
  int driver_version = 0;
  cudaDriverGetVersion(&driver_version);
  return MachineName(device.info().name, driver_version, cublasLtGetVersion());
}

// The choices of the file; none, with a warning, where it cannot be used.
GemmChoices ReadCache(const std::string& path, const std::string& machine) {
  absl::StatusOr<GemmChoices> choices = ReadChoices(path, machine);
  if (choices.ok()) return *std::move(choices);
  if (!absl::IsNotFound(choices.status())) {
    spdlog::warn("the file of measured gemms {} is ignored and will be replaced: {}", path,
                 std::string(choices.status().message()));
  }
  return {};
}

class Tuner {
 public:
  Tuner(CudaDevice& device, Gemm& gemm, CudaStream& stream)
      : device_(device), gemm_(gemm), stream_(stream) {}

  // Makes the numbers that x is made from, and room for the x and the out of the largest gemm.
  absl::Status Prepare(const std::vector<LinearGroup>& groups);
  LinearArgs ArgsFor(const LinearGroup& group, int64_t num_rows, size_t weight) const;
  absl::StatusOr<GemmChoice> Fastest(const LinearGroup& group, int64_t num_rows);

 private:
  absl::Status Compute(const LinearGroup& group, const LinearArgs& args, const GemmChoice& choice);
  // The time of one call, from `num_calls` calls with the gemm's weights in turn. It is the median
  // of several replays, because some algorithms' times vary, or the time of the first replay, if
  // that is hopeless beside `best_us`.
  absl::StatusOr<double> MeasureUs(const LinearGroup& group, int64_t num_rows,
                                   const GemmChoice& choice, int num_calls, double best_us);

  CudaDevice& device_;
  Gemm& gemm_;
  CudaStream& stream_;
  DeviceBuffer random_, x_, out_, gated_;
  std::unique_ptr<Event> begin_, end_;
};

absl::Status Tuner::Prepare(const std::vector<LinearGroup>& groups) {
  int64_t x_bytes = 0, out_bytes = 0, gated_bytes = 0;
  for (const LinearGroup& group : groups) {
    const int64_t num_rows = RowBucket(group.max_num_rows);
    const LinearWeight& weight = *group.weights[0];
    x_bytes = std::max(x_bytes, num_rows * weight.in_features * DTypeBytes(weight.dtype));
    if (group.float8_x) {
      x_bytes = std::max(x_bytes, Float8Rows::MaxBytes(num_rows, weight.in_features));
    }
    const int64_t result_bytes = num_rows * weight.out_features * DTypeBytes(group.out_dtype);
    out_bytes = std::max(out_bytes, result_bytes);
    if (group.gated) gated_bytes = std::max(gated_bytes, result_bytes / 2);
  }
  ASSIGN_OR_RETURN(random_, device_.Allocate(2 * x_bytes));
  ASSIGN_OR_RETURN(x_, device_.Allocate(x_bytes));
  ASSIGN_OR_RETURN(out_, device_.Allocate(out_bytes));
  ASSIGN_OR_RETURN(gated_, device_.Allocate(gated_bytes));
  ASSIGN_OR_RETURN(begin_, device_.CreateEvent(/*timed=*/true));
  ASSIGN_OR_RETURN(end_, device_.CreateEvent(/*timed=*/true));
  const DType dtype = groups[0].weights[0]->dtype;
  const LinearWeight random = {.data = random_.data(),
                               .dtype = dtype,
                               .out_features = 2,
                               .in_features = x_bytes / DTypeBytes(dtype)};
  stream_.Run("filling x", [&](cudaStream_t s) {
    LaunchFill(random, {.seed = 0, .tensor_id = 0, .stddev = 1.0f}, s);
  });
  return stream_.Synchronize();
}

LinearArgs Tuner::ArgsFor(const LinearGroup& group, int64_t num_rows, size_t weight) const {
  const LinearWeight& shape = *group.weights[weight];
  return {.x = group.float8_x ? Float8Rows(num_rows, shape.in_features, x_.data()).tensor()
                              : Tensor(x_.data(), shape.dtype, {num_rows, shape.in_features}),
          .weight = &shape,
          .bias = group.bias,
          .out = Tensor(out_.data(), group.out_dtype, {num_rows, shape.out_features})};
}

// As a step does it.
absl::Status Tuner::Compute(const LinearGroup& group, const LinearArgs& args,
                            const GemmChoice& choice) {
  if (!group.gated) return gemm_.Run(args, choice, stream_);
  const int64_t num_rows = args.x.dim(0), size = args.out.dim(1) / 2;
  return gemm_.Run(
      GatedLinearArgs{.x = args.x,
                      .weight = args.weight,
                      .bias = args.bias,
                      .gate_up = args.out,
                      .out = Tensor(gated_.data(), args.out.dtype(), {num_rows, size})},
      choice, stream_);
}

absl::StatusOr<double> Tuner::MeasureUs(const LinearGroup& group, int64_t num_rows,
                                        const GemmChoice& choice, int num_calls, double best_us) {
  stream_.BeginCapture();
  absl::Status launched;
  for (int i = 0; i < num_calls && launched.ok(); ++i) {
    const size_t weight = static_cast<size_t>(i) % group.weights.size();
    const LinearArgs args = ArgsFor(group, num_rows, weight);
    // As in a step, x has just been made: some candidates use that time, others do not.
    stream_.Run("making x", [&](cudaStream_t s) {
      const DType dtype = group.weights[weight]->dtype;
      if (group.float8_x) {
        LaunchRmsNorm({.x = Tensor(random_.data(), dtype, {num_rows, args.x.dim(1)}),
                       .weight = Tensor(random_.data(), dtype, {args.x.dim(1)}),
                       .eps = 1e-5f,
                       .out = args.x},
                      s);
      } else {
        const int64_t size = args.x.dim(1);
        const Tensor gate_up(random_.data(), dtype, {num_rows, 2 * size});
        LaunchGatedActivation(
            {.gate = Columns(gate_up, 0, size), .up = Columns(gate_up, size, size), .out = args.x},
            s);
      }
    });
    launched = Compute(group, args, choice);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ExecGraph> graph, stream_.EndCapture());
  RETURN_IF_ERROR(launched);
  stream_.Launch(*graph);  // the first time is longer
  std::vector<double> times;
  while (times.size() < kReplays && (times.empty() || times[0] < kHopeless * best_us)) {
    stream_.Record(*begin_);
    stream_.Launch(*graph);
    stream_.Record(*end_);
    RETURN_IF_ERROR(stream_.Synchronize());
    times.push_back(end_->MicrosecondsSince(*begin_) / num_calls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

absl::StatusOr<GemmChoice> Tuner::Fastest(const LinearGroup& group, int64_t num_rows) {
  const LinearArgs args = ArgsFor(group, num_rows, 0);
  ASSIGN_OR_RETURN(const std::vector<GemmChoice> candidates, gemm_.Candidates(args));
  struct Measured {
    GemmChoice choice;
    double us;
  };
  std::vector<Measured> measured;
  double best_us = std::numeric_limits<double>::infinity();
  int num_calls = kMinCalls;
  for (const GemmChoice& candidate : candidates) {
    // Once outside a graph: what cuBLASLt refuses must not spoil a capture.
    if (!Compute(group, args, candidate).ok()) continue;
    RETURN_IF_ERROR(stream_.Synchronize());
    ASSIGN_OR_RETURN(double us, MeasureUs(group, num_rows, candidate, num_calls, best_us));
    if (measured.empty()) {
      num_calls = std::clamp(static_cast<int>(kMeasuredUs / us), kMinCalls, kMaxCalls);
      ASSIGN_OR_RETURN(us, MeasureUs(group, num_rows, candidate, num_calls, best_us));
    }
    measured.push_back({candidate, us});
    best_us = std::min(best_us, us);
  }
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Measured& a, const Measured& b) { return a.us < b.us; });
  GemmChoice best = measured.empty() ? candidates[0] : measured[0].choice;
  best_us = std::numeric_limits<double>::infinity();
  for (int i = 0; i < std::min<int>(kFinalists, static_cast<int>(measured.size())); ++i) {
    ASSIGN_OR_RETURN(const double again_us,
                     MeasureUs(group, num_rows, measured[i].choice, num_calls, best_us));
    const double us = std::max(measured[i].us, again_us);
    if (us >= best_us * kWorthwhile) continue;
    best_us = us;
    best = measured[i].choice;
  }
  return best;
}

struct Bucket {
  const LinearGroup* group;
  int64_t num_rows;
  GemmKey key;
};

// Whether this build would choose so, too: a file outlives builds, and a variant of the same name
// may no longer compute such a gemm.
bool IsOffered(const LinearArgs& args, const GemmChoice& choice) {
  const OwnGemm* const gemm = FindOwnGemm(choice.kernel);
  if (gemm == nullptr) return true;
  const std::vector<int> variants = gemm->variants(args);
  return std::find(variants.begin(), variants.end(), choice.variant) != variants.end();
}

// The buckets of every gemm that have no choice, few rows first; choices that are no longer offered
// are removed.
std::vector<Bucket> ListMissing(const Tuner& tuner, const std::vector<LinearGroup>& groups,
                                const GemmChoices& known, GemmChoices& choices) {
  std::vector<Bucket> buckets;
  for (const LinearGroup& group : groups) {
    for (int64_t num_rows = 1; num_rows <= RowBucket(group.max_num_rows);
         num_rows = RowBucket(num_rows + 1)) {
      const LinearArgs args = tuner.ArgsFor(group, num_rows, 0);
      const GemmKey key = Gemm::KeyOf(args);
      const auto found = choices.find(key);
      if (found != choices.end() && !IsOffered(args, found->second)) choices.erase(found);
      if (known.contains(key) || choices.contains(key)) continue;
      buckets.push_back({&group, num_rows, key});
    }
  }
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const Bucket& a, const Bucket& b) { return a.num_rows < b.num_rows; });
  return buckets;
}

// Adds to the choices what the time allows of what is in neither; how many.
absl::StatusOr<int> MeasureMissing(CudaDevice& device, Gemm& gemm, CudaStream& stream,
                                   const std::vector<LinearGroup>& groups, const GemmChoices& known,
                                   GemmChoices& choices, Progress* progress) {
  const auto begin = Clock::now();
  Tuner tuner(device, gemm, stream);
  const std::vector<Bucket> missing = ListMissing(tuner, groups, known, choices);
  if (missing.empty()) return 0;
  const absl::Status prepared = tuner.Prepare(groups);
  if (absl::IsResourceExhausted(prepared)) {
    spdlog::warn("gemms are not measured: {}", std::string(prepared.message()));
    return 0;
  }
  RETURN_IF_ERROR(prepared);
  int num_measured = 0;
  ProgressStage stage(progress, "measuring gemms", static_cast<int64_t>(missing.size()),
                      ProgressUnit::kItems);
  for (const Bucket& bucket : missing) {
    if (Clock::now() - begin > kTimeLimit) break;
    ASSIGN_OR_RETURN(const GemmChoice choice, tuner.Fastest(*bucket.group, bucket.num_rows));
    choices[bucket.key] = choice;
    ++num_measured;
    stage.Add(1);
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  spdlog::info("measured {} of {} gemms in {:.1f} s", num_measured, missing.size(),
               seconds.count());
  return num_measured;
}

}  // namespace

absl::Status TuneGemm(CudaDevice& device, Gemm& gemm, CudaStream& stream,
                      const std::vector<LinearGroup>& groups, Progress* progress) {
  const GemmChoices known = KnownGemms(device.info().name, cublasLtGetVersion());
  const std::string machine = CurrentMachine(device), folder = DefaultCacheFolder();
  const std::string path = folder.empty() ? "" : TuningCachePath(folder, machine);
  GemmChoices choices = path.empty() ? GemmChoices() : ReadCache(path, machine);
  ASSIGN_OR_RETURN(const int num_measured,
                   MeasureMissing(device, gemm, stream, groups, known, choices, progress));
  // Choices that were measured on this machine replace the known ones.
  const GemmChoices& measured = choices;
  for (const GemmChoices* chosen : {&known, &measured}) {
    for (const auto& [key, choice] : *chosen) gemm.Choose(key, choice);
  }
  if (num_measured == 0 || path.empty()) return absl::OkStatus();
  if (const absl::Status status = WriteChoices(path, machine, choices); !status.ok()) {
    spdlog::warn("the measured gemms cannot be kept in {}: {}; the next start measures again", path,
                 std::string(status.message()));
  }
  return absl::OkStatus();
}

}  // namespace quire::cuda
