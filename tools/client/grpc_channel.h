// The gRPC library's channel to a server, with the client's credentials (credentials.h). Only the
// sources behind this header and inference_client.h include gRPC's headers. Main thread.
#pragma once

#include <memory>
#include <string>

namespace grpc {
class Channel;
}

namespace quire::client {

// `target` is HOST:PORT, after https:// for TLS. Every call carries the key of the environment, if
// there is one. A file that cannot be read counts as empty, and the handshake fails. Nothing is
// connected yet.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target);

}  // namespace quire::client
