// A quire-server of our own: started, watched and stopped by a benchmark.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/wire/transport/unique_fd.h"
#include "tools/bench/interrupt.h"

namespace quire::bench {

class ServerProcess {
 public:
  // Starts the quire-server that lies beside this program, on a free port of the loopback
  // interface. Its log is kept in memory.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(
      const std::vector<std::string>& server_flags);
  // Kills the process if Stop has not been called; so does a signal that ends this program.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& target() const { return target_; }  // "127.0.0.1:PORT"
  // Polls until the port accepts a connection, or until Interrupted(). UNAVAILABLE, with the
  // server's last line, if the process has ended or time is up. If the process has ended, the
  // status has its exit code.
  absl::Status WaitUntilListening(double timeout_seconds);
  std::string Log() const;       // all that the server has written to standard error
  std::string LastLine() const;  // of the log, without the program's name
  double CpuSeconds() const;     // user and system time so far
  int64_t ResidentBytes() const;
  // SIGTERM, then waits; the exit code, or 128 + signal.
  int Stop();

 private:
  ServerProcess(pid_t pid, int port, UniqueFd log);
  void NoteEnd();

  const pid_t pid_;
  const int port_;
  const std::string target_;
  const UniqueFd log_;
  std::optional<ExitCleanup> kill_;  // none: it has ended
};

}  // namespace quire::bench
