#include "tools/bench/serve/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A port that was free a moment ago; 0 when there is none.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  int port = 0;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    port = ntohs(address.sin_port);
  }
  close(fd);
  return port;
}

bool Accepts(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  const bool accepts =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return accepts;
}

int ExitCode(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace

ServerProcess::ServerProcess(pid_t pid, int port, UniqueFd log)
    : pid_(pid), port_(port), target_(absl::StrCat("127.0.0.1:", port)), log_(std::move(log)) {
  kill_.emplace([pid] { kill(pid, SIGKILL); });
}

ServerProcess::~ServerProcess() {
  if (!kill_.has_value()) return;
  kill_.reset();
  waitpid(pid_, nullptr, 0);
}

void ServerProcess::NoteEnd() {
  kill_->Keep();
  kill_.reset();
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    const std::vector<std::string>& server_flags) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "quire-server").string();
  const int port = FreePort();
  std::vector<std::string> args = {program};
  args.insert(args.end(), server_flags.begin(), server_flags.end());
  args.insert(args.end(), {"--host", "127.0.0.1", "--port", absl::StrCat(port)});
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  UniqueFd log(memfd_create("quire-server log", MFD_CLOEXEC));
  posix_spawn_file_actions_adddup2(&actions, log.get(), STDERR_FILENO);
  // In a process group of its own: Ctrl-C is this program's to answer.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t no_signals;
  sigemptyset(&no_signals);
  posix_spawnattr_setsigmask(&attributes, &no_signals);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int result =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (result != 0) {
    return WithExitCode(kUnavailable, absl::NotFoundError(absl::StrCat(
                                          "cannot start ", program, ": build quire-server first")));
  }
  return std::unique_ptr<ServerProcess>(new ServerProcess(pid, port, std::move(log)));
}

absl::Status ServerProcess::WaitUntilListening(double timeout_seconds) {
  const auto give_up = std::chrono::steady_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  while (!Accepts(port_)) {
    if (Interrupted()) return absl::OkStatus();
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      NoteEnd();
      return WithExitCode(ExitCode(status),
                          absl::UnavailableError(absl::StrCat(
                              "quire-server ended before it was ready: ", LastLine())));
    }
    if (std::chrono::steady_clock::now() > give_up) {
      return WithExitCode(kUnavailable, absl::UnavailableError(absl::StrCat(
                                            "quire-server was not ready within ", timeout_seconds,
                                            " s (--timeout); it said last: ", LastLine())));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return absl::OkStatus();
}

std::string ServerProcess::Log() const {
  struct stat info = {};
  fstat(log_.get(), &info);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  const ssize_t count = pread(log_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

std::string ServerProcess::LastLine() const {
  const std::string log(absl::StripTrailingAsciiWhitespace(Log()));
  const std::string line = log.substr(log.rfind('\n') + 1);
  return std::string(absl::StripPrefix(line, "quire-server: "));
}

double ServerProcess::CpuSeconds() const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/stat"));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // Fields 14 and 15 (utime, stime in ticks); the name in field 2 ends with the last ')'.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int64_t ServerProcess::ResidentBytes() const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/statm"));
  int64_t total_pages = 0, resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

int ServerProcess::Stop() {
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  NoteEnd();
  return ExitCode(status);
}

}  // namespace quire::bench
