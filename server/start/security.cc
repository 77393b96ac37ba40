#include "server/start/security.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "quire/v1/inference.pb.h"
#include "server/base/start_thread.h"
#include "vllm/control.pb.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"
#include "vllm/inference.pb.h"

namespace quire {

namespace {

// So that a change counts within a second, the time to read it included.
constexpr absl::Duration kLookInterval = absl::Milliseconds(500);

absl::StatusOr<std::unique_ptr<KeyFile>> OpenKeys(const Settings& settings) {
  if (settings.api_key_file.empty()) return std::unique_ptr<KeyFile>();
  absl::StatusOr<std::unique_ptr<KeyFile>> keys = KeyFile::Open(settings.api_key_file);
  if (!keys.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--api-key-file: ", keys.status().message()));
  }
  return keys;
}

absl::StatusOr<std::unique_ptr<TlsContext>> OpenTls(const Settings& settings) {
  if (settings.tls_cert.empty() != settings.tls_key.empty()) {
    return absl::InvalidArgumentError(
        settings.tls_key.empty() ? "--tls-cert needs --tls-key, the file of its private key"
                                 : "--tls-key needs --tls-cert, the file of its certificate");
  }
  if (settings.tls_cert.empty()) {
    if (!settings.tls_client_ca.empty()) {
      return absl::InvalidArgumentError("--tls-client-ca needs --tls-cert and --tls-key");
    }
    if (settings.plaintext == "off") {
      return absl::InvalidArgumentError(
          "--plaintext: off leaves no way in without --tls-cert and --tls-key");
    }
    return std::unique_ptr<TlsContext>();
  }
  // Where a key would do as well, a client without a certificate hears so from the gate.
  const ClientCertificate client_certificate =
      settings.api_key_file.empty() ? ClientCertificate::kRequired : ClientCertificate::kOptional;
  return TlsContext::Open({settings.tls_cert, settings.tls_key, settings.tls_client_ca},
                          client_certificate);
}

Access ToAccess(const std::string& choice) {
  if (choice == "anyone") return Access::kAnyone;
  return choice == "key" ? Access::kKnown : Access::kNobody;
}

std::vector<const google::protobuf::ServiceDescriptor*> OwnServices() {
  std::vector<const google::protobuf::ServiceDescriptor*> services;
  for (const google::protobuf::FileDescriptor* file :
       {v1::GenerateRequest::descriptor()->file(),
        vllm::grpc::engine::GenerateRequest::descriptor()->file(),
        vllm::GenerateRequest::descriptor()->file(), vllm::ServerInfo::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) services.push_back(file->service(i));
  }
  return services;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Security>> Security::Open(const Settings& settings) {
  ASSIGN_OR_RETURN(std::unique_ptr<KeyFile> keys, OpenKeys(settings));
  ASSIGN_OR_RETURN(std::unique_ptr<TlsContext> tls, OpenTls(settings));
  const GateOptions options = {.health = ToAccess(settings.health_access),
                               .reflection = ToAccess(settings.reflection_access)};
  Gate gate(OwnServices(), options,
            Authenticator(std::move(keys), !settings.tls_client_ca.empty()));
  std::string plaintext = settings.plaintext;
  if (plaintext == "auto") plaintext = tls != nullptr ? "local" : "on";
  std::unique_ptr<Security> security(
      new Security(std::move(gate), std::move(tls), std::move(plaintext)));
  if (settings.api_key_file.empty() && settings.tls_cert.empty()) return security;
  ASSIGN_OR_RETURN(security->follower_,
                   StartThread([raw = security.get()] { raw->FollowFiles(); }));
  return security;
}

Security::~Security() {
  if (!follower_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    news_.Signal();
  }
  follower_.join();
}

void Security::FollowFiles() {
  pthread_setname_np(pthread_self(), "quire-files");
  while (true) {
    bool reload = false;
    {
      absl::MutexLock lock(&mutex_);
      news_.Await(&mutex_, MonotonicNow() + kLookInterval,
                  [this]()
                      ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || reload_asked_; });
      if (stopping_) return;
      reload = std::exchange(reload_asked_, false);
    }
    if (reload) {
      gate_.authenticator().Reload();
      if (tls_ != nullptr) tls_->Reload();
    } else {
      gate_.authenticator().Look();
      if (tls_ != nullptr) tls_->Look();
    }
  }
}

bool Security::TakesPlaintext(const PeerAddress& peer) const {
  return plaintext_ == "on" || (plaintext_ == "local" && peer.is_loopback());
}

void Security::Reload() {
  if (!follower_.joinable()) {
    spdlog::info("SIGHUP: there is nothing to read again, neither keys nor certificates");
    return;
  }
  absl::MutexLock lock(&mutex_);
  reload_asked_ = true;
  news_.Signal();
}

std::vector<std::string> SecurityWarnings(const Settings& settings) {
  std::vector<std::string> warnings;
  if (IsLoopback(settings.host)) return warnings;
  if (settings.api_key_file.empty() && settings.tls_client_ca.empty()) {
    warnings.push_back(absl::StrCat(
        "whoever reaches ", settings.host,
        " may use the model: give out keys with --api-key-file, or listen on --host 127.0.0.1"));
  } else if (settings.tls_cert.empty()) {
    warnings.push_back(
        "keys, prompts and answers travel in the clear: set --tls-cert and --tls-key, or end TLS "
        "before this server");
  }
  return warnings;
}

}  // namespace quire
