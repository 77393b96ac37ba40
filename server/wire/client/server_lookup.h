// ServerLookup: looks a server up on its own thread, so that nobody has to wait for name servers
// that do not answer. The loop's thread.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/base/host_port.h"
#include "server/wire/client/io_loop.h"
#include "server/wire/client/server_address.h"

namespace quire {

class ServerLookup final : public IoLoop::Watcher {
 public:
  // An address is read at once, without a thread.
  ServerLookup(IoLoop* loop, const HostPort& server);
  // Waits for nothing: the thread ends by itself.
  ~ServerLookup() override;
  ServerLookup(const ServerLookup&) = delete;
  ServerLookup& operator=(const ServerLookup&) = delete;

  // Nothing until the loop has told of the end.
  const std::optional<absl::StatusOr<ServerAddress>>& result() const { return result_; }

  void OnReady(uint32_t epoll_events) override;

 private:
  struct Shared;  // with the thread

  IoLoop& loop_;
  std::shared_ptr<Shared> shared_;  // null: nothing is waited for
  std::optional<absl::StatusOr<ServerAddress>> result_;
};

}  // namespace quire
