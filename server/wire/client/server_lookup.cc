#include "server/wire/client/server_lookup.h"

#include <sys/eventfd.h>

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/start_thread.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

struct ServerLookup::Shared {
  const UniqueFd done{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  absl::Mutex mutex;
  absl::StatusOr<ServerAddress> result ABSL_GUARDED_BY(mutex);
};

ServerLookup::ServerLookup(IoLoop* loop, const HostPort& server) : loop_(*loop) {
  absl::StatusOr<ServerAddress> address = ReadServerAddress(server);
  if (address.ok()) {
    result_ = std::move(address);
    return;
  }
  auto shared = std::make_shared<Shared>();
  if (!shared->done.valid() || !loop_.Watch(shared->done.get(), EPOLLIN, this)) {
    result_ = absl::UnavailableError("this process may open no more descriptors (ulimit -n)");
    return;
  }
  shared_ = shared;
  absl::StatusOr<std::thread> thread = StartThread([shared, server] {
    absl::StatusOr<ServerAddress> found = LookUpServer(server);
    absl::MutexLock lock(&shared->mutex);
    shared->result = std::move(found);
    eventfd_write(shared->done.get(), 1);
  });
  if (thread.ok()) {
    thread->detach();
  } else {
    loop_.EndWatch(std::exchange(shared_, nullptr)->done.get(), this);
    result_ = thread.status();
  }
}

ServerLookup::~ServerLookup() {
  if (shared_ != nullptr) loop_.EndWatch(shared_->done.get(), this);
}

void ServerLookup::OnReady(uint32_t /*epoll_events*/) {
  const std::shared_ptr<Shared> shared = std::exchange(shared_, nullptr);
  loop_.EndWatch(shared->done.get(), this);
  absl::MutexLock lock(&shared->mutex);
  result_ = std::move(shared->result);
}

}  // namespace quire
