// A quire-server of our own: started, watched and stopped by a benchmark.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace quire::bench {

class ServerProcess {
 public:
  // Starts the quire-server that lies beside this program, on a free port of the loopback
  // interface.
  static absl::StatusOr<ServerProcess> Start(const std::vector<std::string>& server_flags);
  // Kills the process if Stop has not been called.
  ~ServerProcess();
  ServerProcess(ServerProcess&& other) noexcept;
  ServerProcess& operator=(ServerProcess&&) = delete;

  const std::string& target() const { return target_; }  // "127.0.0.1:PORT"
  // Polls until the port accepts a connection. UNAVAILABLE when the process has ended or time is
  // up.
  absl::Status WaitUntilListening(double timeout_seconds);
  double CpuSeconds() const;  // user and system time so far
  int64_t ResidentBytes() const;
  // SIGTERM, then waits; the exit code, or 128 + signal.
  int Stop();

 private:
  ServerProcess(pid_t pid, int port);

  pid_t pid_;
  int port_;
  std::string target_;
};

}  // namespace quire::bench
