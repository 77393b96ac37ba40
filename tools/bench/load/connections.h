// Connections: the connections of a load to its server. Each request goes to a connection that has
// room for it, in turns. If none has room, a new one is opened. The load's thread.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "server/wire/client/client_connection.h"
#include "server/wire/client/io_loop.h"
#include "server/wire/client/server_address.h"

namespace quire::bench {

std::unique_ptr<ClientConnection> OpenConnection(IoLoop* loop, const ServerAddress& server,
                                                 bool http2);

// Lets this process have as many connections as the system allows.
void AllowManyConnections();

class Connections {
 public:
  struct Connection {
    std::unique_ptr<ClientConnection> client;
    int64_t num_calls = 0;   // calls under way
    bool is_listed = false;  // in with_room_
  };

  // Opens `num_wanted` connections before any of them gets a second request.
  Connections(IoLoop* loop, const ServerAddress& server, bool http2, int64_t num_wanted)
      : loop_(*loop), server_(server), http2_(http2), num_wanted_(num_wanted) {}

  // Starts the request on a connection that has room, which belongs to the caller until EndCall.
  // Null when the system has no more connections.
  Connection* StartCall(const ClientRequest& request, AnswerSink* sink);
  // The answer has ended. Not from within a sink.
  void EndCall(Connection* connection);

  int64_t num_opened() const { return num_opened_; }

 private:
  Connection* Take();
  void ListOrDestroy(Connection* connection);

  IoLoop& loop_;
  const ServerAddress& server_;
  const bool http2_;
  const int64_t num_wanted_;
  int64_t num_opened_ = 0;
  std::vector<std::unique_ptr<Connection>> open_;
  std::deque<Connection*> with_room_;  // some of them may have been lost since
};

}  // namespace quire::bench
