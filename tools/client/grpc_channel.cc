#include "tools/client/grpc_channel.h"

#include <grpcpp/grpcpp.h>

#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "tools/client/credentials.h"
#include "tools/client/grpc_log.h"

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

// TLS or none.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(bool tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = FileOf(kCaVariable).value_or("");
  options.pem_cert_chain = FileOf(kCertificateVariable).value_or("");
  options.pem_private_key = FileOf(kCertificateKeyVariable).value_or("");
  return grpc::SslCredentials(options);
}

// Makes the interceptors that add the key of the environment, if there is one.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> KeySenders() {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> senders;
  const std::string key = Key();
  if (!key.empty()) senders.push_back(std::make_unique<KeySenderFactory>(key));
  return senders;
}

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target) {
  KeepGrpcErrors();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // prompt logprobs of long prompts
  // A client on the same machine must not go through a proxy that the environment names.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A server that is just starting is found soon after it listens (gRPC's default: a second or
  // more).
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  absl::string_view address = target;
  const bool tls = absl::ConsumePrefix(&address, kTlsPrefix);
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      std::string(address), MakeCredentials(tls), arguments, KeySenders());
}

}  // namespace quire::client
