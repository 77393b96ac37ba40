#include "tools/client/credentials.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

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

// Whether the text has a line "-----BEGIN ...CONTENT-----"; what it holds is for gRPC to check.
bool HasPem(absl::string_view text, absl::string_view content) {
  return absl::StrContains(text, "-----BEGIN ") &&
         absl::StrContains(text, absl::StrCat(content, "-----"));
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

bool HasKey() { return !Variable(kKeyVariable).empty(); }

absl::Status CheckKeyVariable() {
  for (const char c : Variable(kKeyVariable)) {
    if (!absl::ascii_isgraph(c)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kKeyVariable, ": no key has spaces, control characters or letters beyond ",
                       "ASCII; is it the key itself, not the name of a file?"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTlsVariables() {
  for (const auto& [variable, content] :
       {std::pair(kCaVariable, "CERTIFICATE"), std::pair(kCertificateVariable, "CERTIFICATE"),
        std::pair(kCertificateKeyVariable, "PRIVATE KEY")}) {
    const absl::StatusOr<std::string> text = FileOf(variable);
    if (!text.ok()) return text.status();
    if (!text->empty() && !HasPem(*text, content)) {
      return absl::InvalidArgumentError(absl::StrCat(variable, ": ", Variable(variable), " has no ",
                                                     absl::AsciiStrToLower(content),
                                                     " in PEM form"));
    }
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
