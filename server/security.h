// Security: what the settings say about who may use the server, opened once at start. Any thread
// after that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/auth/gate.h"
#include "server/auth/peer_address.h"
#include "server/settings/settings.h"
#include "server/tls/tls_context.h"

namespace quire {

class Security {
 public:
  // Reads the key file and the certificates. INVALID_ARGUMENT, beginning with the flag to change.
  static absl::StatusOr<std::unique_ptr<Security>> Open(const Settings& settings);

  // Who may call what.
  const Gate& gate() const { return gate_; }
  // TLS for new connections; null without it.
  TlsContext* tls() const { return tls_.get(); }
  // Whether a connection from there may do without TLS.
  bool TakesPlaintext(const PeerAddress& peer) const;

  // Reads keys and certificates again: SIGHUP.
  void Reload() const;

 private:
  Security(Gate gate, std::unique_ptr<TlsContext> tls, std::string plaintext)
      : gate_(std::move(gate)), tls_(std::move(tls)), plaintext_(std::move(plaintext)) {}

  const Gate gate_;
  const std::unique_ptr<TlsContext> tls_;
  const std::string plaintext_;
};

// Whether there is anything that SIGHUP would read again.
bool HasSecrets(const Settings& settings);

// What an operator may not expect of these settings, a sentence each, for the log.
std::vector<std::string> SecurityWarnings(const Settings& settings);

}  // namespace quire
