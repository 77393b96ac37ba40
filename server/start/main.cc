// quire-server.
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"
#include "server/start/run_server.h"

int main(int argc, char** argv) {
#ifdef NDEBUG
  // Debian's Abseil is built to look for deadlocks at every lock, and to abort on a suspicion.
  // Tests let it; those who serve need not pay for it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  return quire::RunServer(std::vector<std::string>(argv + 1, argv + argc), quire::OpenBackend);
}
