// How gRPC shows what a client shows of itself (credentials.h). Main thread.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <vector>

namespace quire::client {

// TLS or none. A file that cannot be read counts as empty, and the handshake fails.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(bool tls);

// Adds the key of the environment, if there is one, to every call.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> KeySenders();

}  // namespace quire::client
