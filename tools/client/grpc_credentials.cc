#include "tools/client/grpc_credentials.h"

#include <string>

#include "tools/client/credentials.h"

namespace quire::client {

namespace {

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
  const std::string key = Key();
  if (!key.empty()) senders.push_back(std::make_unique<KeySenderFactory>(key));
  return senders;
}

}  // namespace quire::client
