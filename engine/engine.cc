#include "engine/engine.h"

#include <utility>

#include "engine/engine_impl.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {

Engine::Engine() = default;
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend(config.backend_options()));
  return Open(config, std::move(backend));
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineConfig& config,
                                                     std::unique_ptr<Backend> backend) {
  ASSIGN_OR_RETURN(std::unique_ptr<EngineParts> parts, OpenEngineParts(config, std::move(backend)));
  std::unique_ptr<Engine> engine(new Engine());
  engine->impl_ = std::make_unique<Impl>(config, std::move(parts));
  return engine;
}

absl::StatusOr<std::shared_ptr<OutputStream>> Engine::Submit(Request request,
                                                             OutputListener* listener) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  ASSIGN_OR_RETURN(const auto streams, impl_->Submit(std::move(requests), listener));
  return streams.front();
}

absl::StatusOr<std::vector<std::shared_ptr<OutputStream>>> Engine::Submit(
    std::vector<Request> requests, OutputListener* listener) {
  CHECK(!requests.empty());
  return impl_->Submit(std::move(requests), listener);
}

absl::Status Engine::CheckRoom(const RequestFlow& flow, int64_t num_continuations) const {
  return impl_->CheckRoom(flow, num_continuations);
}

void Engine::Cancel(RequestId request, FinishReason reason) {
  impl_->Post(CancelMessage{request, reason});
}

void Engine::CancelSequence(const SequenceKey& key, FinishReason reason) {
  impl_->Post(CancelSequenceMessage{key, reason});
}

void Engine::StopAdmitting() { impl_->StopAdmitting(); }
bool Engine::WaitUntilIdle(absl::Time deadline) { return impl_->WaitUntilIdle(deadline); }
int64_t Engine::FlushPrefixCache() { return impl_->FlushPrefixCache(); }
void Engine::SubscribeKvEvents(std::optional<uint64_t> from, std::function<void()> on_news,
                               const std::function<void(absl::StatusOr<KvSubscription>)>& done) {
  const bool posted = impl_->Post(CallMessage{[this, from, on_news = std::move(on_news), done] {
    done(impl_->kv_events().Subscribe(from, on_news));
  }});
  if (!posted) done(absl::UnavailableError("the engine has ended; retry on another server"));
}

void Engine::UnsubscribeKvEvents(uint64_t id) {
  impl_->Post(CallMessage{[this, id] { impl_->kv_events().Unsubscribe(id); }});
}

KvEventLog& Engine::kv_event_log() { return impl_->kv_events().log(); }
EngineStatus Engine::status() const { return impl_->status(); }
const EngineMetrics& Engine::metrics() const { return impl_->metrics(); }
QueueLoad Engine::QueueHeldBy(uint64_t flow) const { return impl_->QueueHeldBy(flow); }
const ModelInfo& Engine::model_info() const { return impl_->parts().model; }
const StartStages& Engine::start_stages() const { return impl_->parts().stages.stages(); }
const MemoryLedger& Engine::memory_ledger() const { return impl_->parts().ledger; }

void Engine::SetFailureCallback(std::function<void(const absl::Status&)> on_failure) {
  impl_->SetFailureCallback(std::move(on_failure));
}

}  // namespace quire
