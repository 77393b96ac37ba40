// Authenticator: finds the principal behind a call from the credentials that the call shows. Any
// thread.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/auth/key_file.h"
#include "server/auth/peer_address.h"
#include "server/auth/principal.h"

namespace quire {

// The credentials that a call shows of its caller. Views into the call's own memory.
struct Credentials {
  std::optional<absl::string_view> bearer_token = {};      // of authorization or x-api-key
  std::optional<absl::string_view> certificate_name = {};  // of a certificate that TLS has verified
  PeerAddress peer = {};
};

// The token of an `authorization` header, "Bearer TOKEN". UNAUTHENTICATED for another scheme.
absl::StatusOr<absl::string_view> BearerToken(absl::string_view authorization);

class Authenticator {
 public:
  // `keys` may be null. With keys, or with `client_certificates`, which TLS then verifies, a caller
  // must show one of either. Without both, everybody is let in, as a peer address.
  Authenticator(std::unique_ptr<KeyFile> keys, bool client_certificates)
      : keys_(std::move(keys)), client_certificates_(client_certificates) {}

  // A key counts before a certificate. A wrong key is refused, whatever else the call shows.
  // UNAUTHENTICATED with a sentence that says what to send.
  absl::StatusOr<std::shared_ptr<const Principal>> Authenticate(
      const Credentials& credentials) const;

  // Whether callers must show who they are.
  bool is_closed() const { return keys_ != nullptr || client_certificates_; }

  // Reads the keys again if their file may have changed, or in any case: may wait for the disk.
  void Look() const;
  void Reload() const;

 private:
  std::unique_ptr<KeyFile> keys_;
  bool client_certificates_;
};

}  // namespace quire
