// Security: the settings' rules about who may use the server, opened once at start. Its own thread,
// "quire-files", follows the files of keys and certificates, because their disk may be slow or
// away. A change counts within a second. Any thread after that.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/base/clock.h"
#include "server/auth/gate.h"
#include "server/auth/peer_address.h"
#include "server/start/settings/settings.h"
#include "server/wire/tls/tls_context.h"

namespace quire {

class Security {
 public:
  // Reads the key file and the certificates. INVALID_ARGUMENT, beginning with the flag to change.
  static absl::StatusOr<std::unique_ptr<Security>> Open(const Settings& settings);

  // The rules about who may call which method.
  const Gate& gate() const { return gate_; }
  // TLS for new connections; null without it.
  TlsContext* tls() const { return tls_.get(); }
  // Whether a connection from there may do without TLS.
  bool TakesPlaintext(const PeerAddress& peer) const;

  ~Security();

  // Lets the thread read keys and certificates again, or says that there are none: SIGHUP. Does not
  // wait for it.
  void Reload();

 private:
  Security(Gate gate, std::unique_ptr<TlsContext> tls, std::string plaintext)
      : gate_(std::move(gate)), tls_(std::move(tls)), plaintext_(std::move(plaintext)) {}

  void FollowFiles();

  const Gate gate_;
  const std::unique_ptr<TlsContext> tls_;
  const std::string plaintext_;

  absl::Mutex mutex_;
  MonotonicCondVar news_;
  bool reload_asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread follower_;  // only if there are files to follow
};

// Facts about these settings that an operator may not expect, a sentence each, for the log.
std::vector<std::string> SecurityWarnings(const Settings& settings);

}  // namespace quire
