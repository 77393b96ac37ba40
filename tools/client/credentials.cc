#include "tools/client/credentials.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace quire::client {

namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : std::string(absl::StripAsciiWhitespace(value));
}

// The file that the variable names; empty without one.
absl::StatusOr<std::string> FileOf(const char* variable) {
  const std::string path = Variable(variable);
  if (path.empty()) return "";
  errno = 0;
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file || text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(variable, ": cannot read ", path,
                     errno != 0 ? absl::StrCat(": ", std::strerror(errno)) : ", or it is empty"));
  }
  return text;
}

// Sends the key with the first bytes of each call.
class KeySender final : public grpc::experimental::Interceptor {
 public:
  explicit KeySender(const std::string& authorization) : authorization_(authorization) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", authorization_);
    }
    methods->Proceed();
  }

 private:
  const std::string& authorization_;
};

class KeySenderFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit KeySenderFactory(const std::string& key) : authorization_("Bearer " + key) {}

  // gRPC deletes it with the call, before the channel and this.
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new KeySender(authorization_);
  }

 private:
  const std::string authorization_;
};

}  // namespace

absl::Status CheckTlsVariables() {
  for (const char* variable : {kCaVariable, kCertificateVariable, kCertificateKeyVariable}) {
    const absl::StatusOr<std::string> text = FileOf(variable);
    if (!text.ok()) return text.status();
  }
  if (Variable(kCertificateVariable).empty() != Variable(kCertificateKeyVariable).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCertificateVariable, " and ", kCertificateKeyVariable, " are needed together"));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(bool tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = FileOf(kCaVariable).value_or("");
  options.pem_cert_chain = FileOf(kCertificateVariable).value_or("");
  options.pem_private_key = FileOf(kCertificateKeyVariable).value_or("");
  return grpc::SslCredentials(options);
}

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> KeySenders() {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> senders;
  const std::string key = Variable(kKeyVariable);
  if (!key.empty()) senders.push_back(std::make_unique<KeySenderFactory>(key));
  return senders;
}

}  // namespace quire::client
