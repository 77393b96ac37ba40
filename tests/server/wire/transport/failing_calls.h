// FailingCalls: the system calls and library calls that the transport makes, any of which can be
// made to fail. Stands between the program and the C library (failing_calls.cc defines their
// functions anew), so the server's own code has no seam. Only calls of the server's threads fail:
// a thread that is a test's client says so by AsClient.
#pragma once

#include <cstdint>
#include <ostream>

namespace quire::testing {

enum class Call : uint8_t {
  kAccept,
  kReceive,  // in the clear; kRead and kWrite are TLS's
  kSend,
  kRead,
  kWrite,
  kEpollControl,
  kEpollWait,
  kPoll,
  kOpen,
  kEventFd,
  kEpollCreate,
  kSetOption,
  kShutdown,
  kThread,
  kTakeBytes,  // ByteBudget::Account::Take
  kTlsMemory,  // an allocation of OpenSSL's; nghttp2 does not survive a failure of its own
};

struct Fault {
  static constexpr int kShort = 0;  // the call moves one byte

  Call call;
  int error = kShort;  // or errno
  int64_t first = 1;
  int64_t count = 1;  // calls from the first on
};

std::ostream& operator<<(std::ostream& out, const Fault& fault);

class FailingCalls {
 public:
  // From now on the fault is in force, and its calls are counted from one.
  static void Begin(const Fault& fault);
  // No more. Returns how many calls there were.
  static int64_t End();
  // Whether one of them has failed.
  static bool HasFailed();
};

// While it lives nothing fails on this thread; nests.
class AsClient {
 public:
  explicit AsClient(bool is_client = true);
  ~AsClient();
  AsClient(const AsClient&) = delete;
  AsClient& operator=(const AsClient&) = delete;

 private:
  const bool was_client_;
};

}  // namespace quire::testing
