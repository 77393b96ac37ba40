// quire-server on a device that breaks: for tests of how the real program ends.
//   faulty_server fail|hang|shortage N [quire-server's flags]
// The N-th wait for a step fails or never returns; or the N-th allocation finds no memory.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "server/run_server.h"
#include "tests/engine/faulty_backend.h"

namespace quire::testing {

std::shared_ptr<FaultPlan> MakePlan(const std::string& fault, int n) {
  auto plan = std::make_shared<FaultPlan>();
  if (fault == "fail") plan->waits_until_failure = n;
  if (fault == "hang") plan->waits_until_hang = n;
  if (fault == "shortage") plan->creations_until_failure = n;
  return plan;
}

}  // namespace quire::testing

int main(int argc, char** argv) {
  using quire::testing::FaultyBackend;
  int n = 0;
  if (argc < 3 || !absl::SimpleAtoi(argv[2], &n)) {
    std::fprintf(stderr, "faulty_server fail|hang|shortage N [flags of quire-server]\n");
    return 64;
  }
  const auto plan = quire::testing::MakePlan(argv[1], n);
  return quire::RunServer(std::vector<std::string>(argv + 3, argv + argc),
                          [&](const quire::BackendOptions&) {
                            return absl::StatusOr<std::unique_ptr<quire::Backend>>(
                                std::make_unique<FaultyBackend>(plan));
                          });
}
