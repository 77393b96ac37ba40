// ZmqPublisher: publishes the events of the prefix cache over ZeroMQ, as vLLM does: through a PUB
// socket, and a ROUTER socket for subscribers that ask for batches that they have missed. It has
// its own thread, which sleeps while there is nothing to publish. A subscriber that does not read
// loses batches, which shows in their numbers, and keeps nobody waiting. Made before the first
// request, destroyed before the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/observe/kv_events/kv_events_config.h"

namespace quire {

class Engine;

class ZmqPublisher {
 public:
  // Binds the endpoints (or connects, where vLLM does: to an endpoint of another host) and
  // subscribes to the engine. UNAVAILABLE when an endpoint cannot be had.
  static absl::StatusOr<std::unique_ptr<ZmqPublisher>> Start(const KvEventsConfig& config,
                                                             Engine* engine);
  ~ZmqPublisher();
  ZmqPublisher(const ZmqPublisher&) = delete;
  ZmqPublisher& operator=(const ZmqPublisher&) = delete;

 private:
  class Sockets;
  class WakeEvent;

  ZmqPublisher(const KvEventsConfig& config, Engine* engine, std::unique_ptr<Sockets> sockets);
  void Run();
  void PublishNews();
  void AnswerReplay();

  const KvEventsConfig config_;
  Engine& engine_;
  const std::shared_ptr<const WakeEvent> wake_;
  const std::unique_ptr<Sockets> sockets_;
  std::atomic<bool> stopping_ = false;
  uint64_t subscription_ = 0;
  uint64_t next_sequence_ = 0;  // of the log, to be published; the thread's
  std::thread thread_;          // the last member: it uses all others
};

}  // namespace quire
