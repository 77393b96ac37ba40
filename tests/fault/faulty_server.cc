// quire-server on a device that breaks: for tests of how the real program ends.
//   faulty_server fail|hang|shortage|trap N [quire-server's flags]
// The N-th wait for a step after the warm-up fails or lasts until SIGUSR1 comes, or the N-th
// allocation finds no memory, all on the CPU; or the device that the flags name is a GPU and stops
// when signal N comes. The end of the process gets no time beyond its drain's.
#include <signal.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "engine/engine_parts.h"
#include "kernels/backend.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/start/run_server.h"
#include "tests/engine/faulty_backend.h"

namespace quire::testing {
namespace {

// Looks up a token outside the table, which a GPU answers with a trap: from then on every call
// returns an error.
void StopDevice(Backend& backend) {
  constexpr int64_t kSize = 8, kBytes = 1024;
  const DeviceBuffer table = *backend.device().Allocate(kBytes);
  const DeviceBuffer ids = *backend.device().Allocate(kBytes);
  const DeviceBuffer out = *backend.device().Allocate(kBytes);
  const DeviceBuffer staged_ids = *backend.device().AllocatePinned(kBytes);
  *staged_ids.as<int32_t>() = 5;
  const LinearWeight weight = {.data = table.data(), .out_features = 1, .in_features = kSize};
  const auto stream = *backend.device().CreateStream();
  stream->CopyToDevice(ids.data(), staged_ids.data(), kBytes);
  backend.ops().Embedding(*stream, {.input_ids = ids.as<int32_t>(),
                                    .row_last_token = nullptr,
                                    .table = &weight,
                                    .out = Tensor(out.data(), DType::kF32, {1, kSize})});
  CHECK(!stream->Synchronize().ok()) << "this device does not mind";
}

sigset_t SetOf(int signal_number) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, signal_number);
  return signals;
}

// For this thread and all that it starts.
void Block(int signal_number) {
  const sigset_t signals = SetOf(signal_number);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals, nullptr), 0);
}

// On a thread of its own; the signal is blocked.
void WhenSignalled(int signal_number, std::function<void()> work) {
  std::thread([signal_number, work = std::move(work)] {
    const sigset_t signals = SetOf(signal_number);
    int received = 0;
    sigwait(&signals, &received);
    work();
  }).detach();
}

absl::StatusOr<std::unique_ptr<Backend>> OpenAndStopLater(const BackendOptions& options,
                                                          int signal_number) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend(options));
  WhenSignalled(signal_number, [&opened = *backend] { StopDevice(opened); });
  return backend;
}

// SIGUSR1 is blocked in every thread.
std::unique_ptr<Backend> OpenAndGoOnLater(const std::shared_ptr<FaultPlan>& plan) {
  WhenSignalled(SIGUSR1, [plan] {
    plan->hanging.wait(false);
    std::fprintf(stderr, "the step ends\n");
    plan->EndHang();
  });
  return std::make_unique<FaultyBackend>(plan);
}

BackendOpener MakeOpener(const std::string& fault, int n) {
  if (fault == "trap") {
    Block(n);
    return [n](const BackendOptions& options) { return OpenAndStopLater(options, n); };
  }
  auto plan = std::make_shared<FaultPlan>();
  if (fault == "hang") {
    plan->waits_until_hang = n + kNumWarmUpSteps;
    Block(SIGUSR1);
    return [plan](const BackendOptions&) { return OpenAndGoOnLater(plan); };
  }
  if (fault == "fail") plan->waits_until_failure = n + kNumWarmUpSteps;
  if (fault == "shortage") plan->creations_until_failure = n;
  return [plan](const BackendOptions&) { return std::make_unique<FaultyBackend>(plan); };
}

}  // namespace
}  // namespace quire::testing

int main(int argc, char** argv) {
  int n = 0;
  if (argc < 3 || !absl::SimpleAtoi(argv[2], &n)) {
    std::fprintf(stderr, "faulty_server fail|hang|shortage|trap N [flags of quire-server]\n");
    return 64;
  }
  return quire::RunServer(std::vector<std::string>(argv + 3, argv + argc),
                          quire::testing::MakeOpener(argv[1], n),
                          /*teardown_limit=*/absl::ZeroDuration());
}
