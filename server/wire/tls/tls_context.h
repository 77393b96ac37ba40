// TlsContext: the server's certificate and key, and the CAs of the client certificates that it
// trusts, followed while the server runs. A new connection takes the files that were read last; an
// open one keeps those that it began with. If files cannot be read or do not fit together,
// everything stays as it was and the log gets one line. Any thread; Look and Reload may wait for
// the disk, so no event loop may call them.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/base/file_stamp.h"
#include "server/base/sha256.h"
#include "server/wire/tls/tls_stream.h"

namespace quire {

// Paths of PEM files.
struct TlsFiles {
  std::string certificate = {};  // the server's, and those between it and its CA
  std::string key = {};
  std::string client_ca = {};  // empty: clients are not asked for certificates
};

// How to treat a client that has no certificate, when there is a `client_ca`.
enum class ClientCertificate : uint8_t { kOptional, kRequired };

class TlsContext {
 public:
  // INVALID_ARGUMENT, beginning with the setting to change ("--tls-cert: ").
  static absl::StatusOr<std::unique_ptr<TlsContext>> Open(const TlsFiles& files,
                                                          ClientCertificate client_certificate);

  // TLS for a new connection. Null when OpenSSL finds no memory.
  std::unique_ptr<TlsStream> NewStream(int fd);

  // Reads the files again if one may have changed.
  void Look();
  // Reads the files again whatever their times say: SIGHUP.
  void Reload();

 private:
  using Context = std::shared_ptr<SSL_CTX>;
  using Stamps = std::array<FileStamp, 3>;

  TlsContext(TlsFiles files, ClientCertificate client_certificate)
      : files_(std::move(files)), client_certificate_(client_certificate) {}

  Stamps StampsNow() const;
  bool MayDiffer(const Stamps& now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(reload_mutex_);
  absl::StatusOr<Context> Read(std::optional<Sha256>* contents) const;
  void ReadAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reload_mutex_);

  const TlsFiles files_;
  const ClientCertificate client_certificate_;

  // Held while the files are read; new connections go on with the present context.
  absl::Mutex reload_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  Stamps stamps_ ABSL_GUARDED_BY(reload_mutex_);  // of the last reading, good or not
  std::optional<Sha256> contents_ ABSL_GUARDED_BY(reload_mutex_);  // digest of the last reading
  std::string complaint_ ABSL_GUARDED_BY(reload_mutex_);           // what was wrong, if anything

  absl::Mutex mutex_;
  Context context_ ABSL_GUARDED_BY(mutex_);  // never null after Open
};

}  // namespace quire
