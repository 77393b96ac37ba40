#include "server/surfaces/vllm/kv_event_stream.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "kernels/base/clock.h"
#include "server/call/messages.h"
#include "smg/grpc/common/common.pb.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"

namespace quire {

namespace {

namespace common = ::smg::grpc::common;

// Routers take messages of up to 4 MiB; a block costs some 100 bytes and up to 5 for a token.
constexpr int64_t kMaxChunkTokens = int64_t{1} << 18;

class KvEventStream : public std::enable_shared_from_this<KvEventStream> {
 public:
  KvEventStream(GrpcCallRef call, Engine* engine) : call_(std::move(call)), engine_(*engine) {}

  void Start(uint64_t from);

 private:
  // On the call's loop.
  void Begin(absl::StatusOr<KvSubscription> subscription);
  void QueueSnapshot(const std::vector<KvEvent>& events);
  void SendNext();
  void Send(const common::KvEventBatch& batch);

  void AddEvent(const KvEvent& event, uint64_t id, common::KvEventBatch* batch) const;

  const GrpcCallRef call_;
  Engine& engine_;
  std::atomic<bool> has_news_ = false;
  std::deque<common::KvEventBatch> snapshot_;  // not sent yet
  uint64_t next_sequence_ = 0;
  uint64_t next_event_ = 1;
  bool has_begun_ = false;
  bool is_sending_ = false;
};

void KvEventStream::Start(uint64_t from) {
  call_->SendHeaders();
  const std::weak_ptr<KvEventStream> weak = weak_from_this();
  engine_.SubscribeKvEvents(
      from == 0 ? std::nullopt : std::optional(from),
      [weak] {
        const auto self = weak.lock();
        if (self == nullptr || self->has_news_.exchange(true)) return;
        self->call_->Run([self] {
          self->has_news_ = false;
          self->SendNext();
        });
      },
      [self = shared_from_this()](absl::StatusOr<KvSubscription> subscription) {
        self->call_->Run([self, subscription = std::move(subscription)]() mutable {
          self->Begin(std::move(subscription));
        });
      });
}

void KvEventStream::Begin(absl::StatusOr<KvSubscription> subscription) {
  if (!subscription.ok()) {
    call_->Finish(subscription.status());
    return;
  }
  // Keeps the stream for as long as the call runs.
  call_->token()->Bind([self = shared_from_this(), id = subscription->id] {
    self->engine_.UnsubscribeKvEvents(id);
  });
  next_sequence_ = subscription->next_sequence;
  if (subscription->snapshot.has_value()) QueueSnapshot(*subscription->snapshot);
  has_begun_ = true;
  SendNext();
}

// Chunks with the numbers up to the state's own, so that what follows is next (KvSnapshotChunk).
void KvEventStream::QueueSnapshot(const std::vector<KvEvent>& events) {
  const int64_t block_size = engine_.model_info().block_size;
  const auto max_blocks = static_cast<size_t>(std::max<int64_t>(1, kMaxChunkTokens / block_size));
  uint64_t num_blocks = 0;
  size_t num_in_chunk = 0;
  snapshot_.emplace_back().add_events()->mutable_cleared();
  for (const KvEvent& event : events) {
    num_blocks += event.hashes.size();
    for (size_t begin = 0; begin < event.hashes.size(); begin += max_blocks) {
      const size_t count = std::min(max_blocks, event.hashes.size() - begin);
      if (num_in_chunk + count > max_blocks) {
        snapshot_.emplace_back();
        num_in_chunk = 0;
      }
      num_in_chunk += count;
      const auto tokens = event.tokens.begin() + static_cast<int64_t>(begin) * block_size;
      KvEvent part;
      part.kind = KvEvent::Kind::kStored;
      part.parent = begin == 0 ? event.parent : std::optional(event.hashes[begin - 1]);
      part.hashes.assign(event.hashes.begin() + static_cast<int64_t>(begin),
                         event.hashes.begin() + static_cast<int64_t>(begin + count));
      part.tokens.assign(tokens, tokens + static_cast<int64_t>(count) * block_size);
      AddEvent(part, 0, &snapshot_.back());
    }
  }
  for (size_t i = 0; i < snapshot_.size(); ++i) {
    common::KvEventBatch& batch = snapshot_[i];
    batch.set_sequence_number(next_sequence_ - snapshot_.size() + i);
    batch.set_timestamp(absl::ToDoubleSeconds(WallNow() - absl::UnixEpoch()));
    batch.mutable_snapshot()->set_index(static_cast<uint32_t>(i));
    batch.mutable_snapshot()->set_count(static_cast<uint32_t>(snapshot_.size()));
    batch.mutable_snapshot()->set_blocks(num_blocks);
  }
}

void KvEventStream::AddEvent(const KvEvent& event, uint64_t id, common::KvEventBatch* batch) const {
  common::KvCacheEvent& message = *batch->add_events();
  message.set_event_id(id);
  switch (event.kind) {
    case KvEvent::Kind::kCleared:
      message.mutable_cleared();
      break;
    case KvEvent::Kind::kRemoved:
      for (const uint64_t hash : event.hashes) {
        message.mutable_removed()->add_block_hashes(static_cast<int64_t>(hash));
      }
      break;
    case KvEvent::Kind::kStored: {
      const int32_t block_size = engine_.model_info().block_size;
      common::KvBlocksStored& stored = *message.mutable_stored();
      if (event.parent.has_value()) {
        stored.set_parent_block_hash(static_cast<int64_t>(*event.parent));
      }
      const TokenId* token = event.tokens.data();
      for (const uint64_t hash : event.hashes) {
        common::KvBlock& block = *stored.add_blocks();
        block.set_block_hash(static_cast<int64_t>(hash));
        block.set_block_size(block_size);
        block.mutable_token_ids()->Add(token, token + block_size);
        token += block_size;
      }
      break;
    }
  }
}

void KvEventStream::SendNext() {
  if (!has_begun_ || is_sending_ || call_->token()->cancelled()) return;
  if (!snapshot_.empty()) {
    const common::KvEventBatch chunk = std::move(snapshot_.front());
    snapshot_.pop_front();
    Send(chunk);
    return;
  }
  const KvEventLog::ReadResult next = engine_.kv_event_log().Read(next_sequence_);
  switch (next.outcome) {
    case KvEventLog::Outcome::kNothingYet:
      return;
    case KvEventLog::Outcome::kLost:
      call_->Finish(absl::DataLossError(
          "events were lost because they were read too slowly; subscribe from 0"));
      return;
    case KvEventLog::Outcome::kClosed:
      call_->Finish(absl::UnavailableError("the server is shutting down"));
      return;
    case KvEventLog::Outcome::kBatch:
      break;
  }
  ++next_sequence_;
  common::KvEventBatch batch;
  batch.set_sequence_number(next.batch->sequence);
  batch.set_timestamp(absl::ToDoubleSeconds(next.batch->time - absl::UnixEpoch()));
  for (const KvEvent& event : next.batch->events) AddEvent(event, next_event_++, &batch);
  Send(batch);
}

void KvEventStream::Send(const common::KvEventBatch& batch) {
  is_sending_ = true;
  call_->Send(batch.SerializeAsString(), [self = shared_from_this()] {
    self->is_sending_ = false;
    self->SendNext();
  });
}

}  // namespace

GrpcMethod SubscribeKvEventsMethod(const ServingContext& context) {
  const auto* method = ::vllm::grpc::engine::GenerateRequest::descriptor()
                           ->file()
                           ->FindServiceByName("VllmEngine")
                           ->FindMethodByName("SubscribeKvEvents");
  return {PathOf(*method), [context](const GrpcCallRef& call, const std::string& bytes) {
            if (!context.has_prefix_cache) {
              call->Finish(absl::UnimplementedError(
                  "there is no prefix cache to tell of: --no-enable-prefix-caching"));
              return;
            }
            const auto request = Parse<common::SubscribeKvEventsRequest>(bytes);
            if (!request.ok()) {
              call->Finish(request.status());
              return;
            }
            std::make_shared<KvEventStream>(call, context.engine)
                ->Start(request->start_sequence_number());
          }};
}

}  // namespace quire
