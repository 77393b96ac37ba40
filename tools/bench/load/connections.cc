#include "tools/bench/load/connections.h"

#include <sys/resource.h>

#include <algorithm>

#include "server/wire/client/http1_client_connection.h"
#include "server/wire/client/http2_client_connection.h"

namespace quire::bench {

std::unique_ptr<ClientConnection> OpenConnection(IoLoop* loop, const ServerAddress& server,
                                                 bool http2) {
  if (http2) return std::make_unique<Http2ClientConnection>(loop, server);
  return std::make_unique<Http1ClientConnection>(loop, server);
}

void AllowManyConnections() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Connections::Connection* Connections::StartCall(const ClientRequest& request, AnswerSink* sink) {
  Connection* const connection = Take();
  if (connection == nullptr) return nullptr;
  ++connection->num_calls;
  connection->client->Start(request, sink);
  ListOrDestroy(connection);
  return connection;
}

void Connections::EndCall(Connection* connection) {
  --connection->num_calls;
  ListOrDestroy(connection);
}

// One that is not listed, with room.
Connections::Connection* Connections::Take() {
  while (num_opened_ >= num_wanted_ && !with_room_.empty()) {
    Connection* const connection = with_room_.front();
    with_room_.pop_front();
    connection->is_listed = false;
    if (connection->client->NumFree() > 0) return connection;
    ListOrDestroy(connection);
  }
  auto connection = std::make_unique<Connection>();
  connection->client = OpenConnection(&loop_, server_, http2_);
  if (connection->client->is_lost()) return nullptr;
  ++num_opened_;
  open_.push_back(std::move(connection));
  return open_.back().get();
}

void Connections::ListOrDestroy(Connection* connection) {
  if (connection->is_listed) return;
  if (connection->client->NumFree() > 0) {
    connection->is_listed = true;
    with_room_.push_back(connection);
  } else if (connection->client->is_lost() && connection->num_calls == 0) {
    const auto it = std::find_if(open_.begin(), open_.end(),
                                 [&](const auto& one) { return one.get() == connection; });
    std::swap(*it, open_.back());
    open_.pop_back();
  }
}

}  // namespace quire::bench
