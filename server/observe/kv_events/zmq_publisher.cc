#include "server/observe/kv_events/zmq_publisher.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/observe/kv_events/kv_event_encoding.h"

namespace quire {

namespace {

constexpr size_t kNumberBytes = 8;
// A client that asks for past batches gets at most this many with one answer, so that the others
// need not wait long. A client that needs more asks again.
constexpr uint64_t kMaxReplay = 100'000;

// Eight bytes, most significant first.
std::string NumberBytes(uint64_t number) {
  constexpr int kByteBits = 8;
  std::string bytes(kNumberBytes, '\0');
  for (size_t i = kNumberBytes; i-- > 0; number >>= kByteBits) {
    bytes[i] = static_cast<char>(number & 0xff);
  }
  return bytes;
}

uint64_t NumberOf(const std::string& bytes) {
  constexpr int kByteBits = 8;
  uint64_t number = 0;
  for (const char byte : bytes) number = number << kByteBits | static_cast<unsigned char>(byte);
  return number;
}

// Where vLLM binds; it connects elsewhere.
bool IsBound(const std::string& endpoint) {
  return absl::StrContains(endpoint, "*") || absl::StrContains(endpoint, "::") ||
         absl::StartsWith(endpoint, "ipc://") || absl::StartsWith(endpoint, "tcp://127.") ||
         absl::StartsWith(endpoint, "tcp://0.0.0.0:");
}

absl::Status ZmqError(const std::string& what) {
  return absl::UnavailableError(
      absl::StrCat("--kv-events-config: ", what, ": ", zmq_strerror(zmq_errno())));
}

}  // namespace

// Wakes the thread. Shared with the engine, which may tell of news for the last time when the
// publisher is gone.
class ZmqPublisher::WakeEvent {
 public:
  WakeEvent() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { CHECK(fd_ >= 0); }
  ~WakeEvent() { close(fd_); }
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  int fd() const { return fd_; }
  void Wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
  }
  void Take() const {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = read(fd_, &count, sizeof(count));
  }

 private:
  const int fd_;
};

class ZmqPublisher::Sockets {
 public:
  Sockets() : context_(zmq_ctx_new()) { CHECK(context_ != nullptr); }
  ~Sockets() {
    for (void* socket : {publish_, replay_}) {
      if (socket != nullptr) zmq_close(socket);
    }
    zmq_ctx_term(context_);
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  absl::Status Open(const KvEventsConfig& config) {
    ASSIGN_OR_RETURN(publish_, OpenOne(ZMQ_PUB, config.hwm));
    const std::string& endpoint = config.endpoint;
    const bool done = IsBound(endpoint) ? zmq_bind(publish_, endpoint.c_str()) == 0
                                        : zmq_connect(publish_, endpoint.c_str()) == 0;
    if (!done) return ZmqError(absl::StrCat("endpoint ", endpoint));
    if (config.replay_endpoint.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(replay_, OpenOne(ZMQ_ROUTER, config.hwm));
    if (zmq_bind(replay_, config.replay_endpoint.c_str()) != 0) {
      return ZmqError(absl::StrCat("replay_endpoint ", config.replay_endpoint));
    }
    return absl::OkStatus();
  }

  // Sleeps until there is something; true when somebody asks for what is past.
  bool Wait(const WakeEvent& wake) {
    std::array<zmq_pollitem_t, 2> items = {
        {{nullptr, wake.fd(), ZMQ_POLLIN, 0}, {replay_, 0, ZMQ_POLLIN, 0}}};
    zmq_poll(items.data(), replay_ != nullptr ? 2 : 1, -1);
    wake.Take();
    return replay_ != nullptr && (items[1].revents & ZMQ_POLLIN) != 0;
  }

  // Drops what a peer has no room for.
  void Publish(const std::vector<std::string>& frames) { Send(publish_, frames); }
  bool Reply(const std::vector<std::string>& frames) { return Send(replay_, frames); }

  // The frames of one request.
  std::vector<std::string> TakeRequest() {
    std::vector<std::string> frames;
    int more = 1;
    while (more != 0) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      if (zmq_msg_recv(&message, replay_, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&message);
        return {};
      }
      frames.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
      more = zmq_msg_more(&message);
      zmq_msg_close(&message);
    }
    return frames;
  }

 private:
  absl::StatusOr<void*> OpenOne(int type, int64_t hwm) {
    void* socket = zmq_socket(context_, type);
    if (socket == nullptr) return ZmqError("no socket");
    const int limit = static_cast<int>(hwm);
    const int no_linger = 0;
    const int64_t max_bytes = 4096;  // of what a client sends
    zmq_setsockopt(socket, ZMQ_SNDHWM, &limit, sizeof(limit));
    zmq_setsockopt(socket, ZMQ_LINGER, &no_linger, sizeof(no_linger));
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof(max_bytes));
    return socket;
  }

  static bool Send(void* socket, const std::vector<std::string>& frames) {
    for (size_t i = 0; i < frames.size(); ++i) {
      const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
      if (zmq_send(socket, frames[i].data(), frames[i].size(), more | ZMQ_DONTWAIT) < 0) {
        return false;
      }
    }
    return true;
  }

  void* const context_;
  void* publish_ = nullptr;
  void* replay_ = nullptr;  // null: none
};

absl::StatusOr<std::unique_ptr<ZmqPublisher>> ZmqPublisher::Start(const KvEventsConfig& config,
                                                                  Engine* engine) {
  auto sockets = std::make_unique<Sockets>();
  RETURN_IF_ERROR(sockets->Open(config));
  std::unique_ptr<ZmqPublisher> publisher(new ZmqPublisher(config, engine, std::move(sockets)));
  std::promise<absl::StatusOr<KvSubscription>> promise;
  engine->SubscribeKvEvents(
      std::nullopt, [wake = publisher->wake_] { wake->Wake(); },
      [&promise](absl::StatusOr<KvSubscription> subscription) {
        promise.set_value(std::move(subscription));
      });
  ASSIGN_OR_RETURN(const KvSubscription subscription, promise.get_future().get());
  publisher->subscription_ = subscription.id;
  publisher->next_sequence_ = subscription.next_sequence;
  publisher->thread_ = std::thread([p = publisher.get()] { p->Run(); });
  return publisher;
}

ZmqPublisher::ZmqPublisher(const KvEventsConfig& config, Engine* engine,
                           std::unique_ptr<Sockets> sockets)
    : config_(config),
      engine_(*engine),
      wake_(std::make_shared<const WakeEvent>()),
      sockets_(std::move(sockets)) {}

ZmqPublisher::~ZmqPublisher() {
  engine_.UnsubscribeKvEvents(subscription_);
  stopping_ = true;
  wake_->Wake();
  if (thread_.joinable()) thread_.join();
}

void ZmqPublisher::Run() {
  pthread_setname_np(pthread_self(), "quire-kv-events");
  while (!stopping_) {
    const bool is_asked = sockets_->Wait(*wake_);
    PublishNews();
    if (is_asked) AnswerReplay();
  }
}

// The number that subscribers see: from 0, as in vLLM.
void ZmqPublisher::PublishNews() {
  while (true) {
    const KvEventLog::ReadResult next = engine_.kv_event_log().Read(next_sequence_);
    if (next.outcome == KvEventLog::Outcome::kLost) {
      next_sequence_ = engine_.kv_event_log().first_sequence();
      continue;
    }
    if (next.outcome != KvEventLog::Outcome::kBatch) return;
    sockets_->Publish({config_.topic, NumberBytes(next_sequence_ - KvEventLog::kFirstSequence),
                       EncodeKvEvents(*next.batch, engine_.model_info().block_size)});
    ++next_sequence_;
  }
}

// vLLM's protocol: [client, "", first number] is answered with [client, "", number, batch] for each
// batch from there on, and an end, the number -1.
void ZmqPublisher::AnswerReplay() {
  const std::vector<std::string> request = sockets_->TakeRequest();
  if (request.size() != 3 || request[2].size() != kNumberBytes) {
    spdlog::warn("a request for past KV events is not one: it has {} parts", request.size());
    return;
  }
  KvEventLog& log = engine_.kv_event_log();
  const uint64_t asked = NumberOf(request[2]);
  const uint64_t kept = log.first_sequence() - KvEventLog::kFirstSequence;
  const uint64_t first = std::max(asked, kept) + KvEventLog::kFirstSequence;
  for (uint64_t sequence = first; sequence - first < kMaxReplay && sequence < next_sequence_;
       ++sequence) {
    const KvEventLog::ReadResult past = log.Read(sequence);
    if (past.outcome != KvEventLog::Outcome::kBatch) continue;
    const bool sent =
        sockets_->Reply({request[0], "", NumberBytes(sequence - KvEventLog::kFirstSequence),
                         EncodeKvEvents(*past.batch, engine_.model_info().block_size)});
    if (!sent) return;  // it does not read
  }
  sockets_->Reply({request[0], "", NumberBytes(~uint64_t{0}), ""});
}

}  // namespace quire
