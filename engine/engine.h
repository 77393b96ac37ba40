// Engine: the door of serving. Owns the device, the model, the KV cache and one thread. Only this
// thread touches the scheduler, the block manager and the runner. Other threads reach it through an
// inbox and hear from it through the OutputStream of each request. It knows only token ids; text is
// the server's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine_status.h"
#include "engine/kv_events/kv_event_source.h"
#include "engine/metrics/engine_metrics.h"
#include "engine/output_stream.h"
#include "engine/start_clock.h"
#include "scheduler/queue_bounds.h"
#include "scheduler/request.h"

namespace quire {

class Backend;
struct EngineConfig;

class Engine {
 public:
  // Opens the device, loads the model, sizes and allocates all memory, starts the thread. Errors:
  // UNAVAILABLE (device), RESOURCE_EXHAUSTED (memory; with the ledger), NOT_FOUND,
  // INVALID_ARGUMENT, UNIMPLEMENTED (model files), OUT_OF_RANGE (the configuration, for this model
  // or device).
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const EngineConfig& config);
  // The same on a device that the caller has opened (config.device is then only what it says it
  // is).
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const EngineConfig& config,
                                                      std::unique_ptr<Backend> backend);
  // Cancels what is left and joins the thread.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Accepts a request (its id is set here) or refuses it at once: INVALID_ARGUMENT when it can
  // never fit, RESOURCE_EXHAUSTED when the queue or its flow's share of it is full, or when there
  // are too many streams (stream_bounds.h), UNAVAILABLE when draining or failed. `listener` is told
  // when the stream has something to read and must outlive the stream. Any thread.
  absl::StatusOr<std::shared_ptr<OutputStream>> Submit(Request request, OutputListener* listener);
  // The same for several requests of one flow: all of them, in their order, or none.
  absl::StatusOr<std::vector<std::shared_ptr<OutputStream>>> Submit(std::vector<Request> requests,
                                                                    OutputListener* listener);

  // The answer of Submit to requests of this flow with that many continuations and the shortest
  // prompts. It says whether it is worth while to prepare them. Any thread.
  absl::Status CheckRoom(const RequestFlow& flow, int64_t num_continuations = 1) const;

  // Ends a request, or one continuation of it, within one step. Unknown ids are ignored. Any
  // thread.
  void Cancel(RequestId request, FinishReason reason = FinishReason::kAbort);
  void CancelSequence(const SequenceKey& key, FinishReason reason);

  // Refuses new requests from now on; those accepted go on. Any thread.
  void StopAdmitting();
  // Waits until nothing is unfinished; false when the deadline came first.
  bool WaitUntilIdle(absl::Time deadline);

  // Forgets unreferenced prefix cache blocks; returns how many. Any thread; waits for a step at
  // most.
  int64_t FlushPrefixCache();

  // Subscribes to what becomes of the prefix cache, as KvEventSource::Subscribe does; `done` is
  // called on the engine's thread, between two steps, or at once when the engine has ended.
  // `on_news`: there is more in the log. Any thread.
  void SubscribeKvEvents(std::optional<uint64_t> from, std::function<void()> on_news,
                         const std::function<void(absl::StatusOr<KvSubscription>)>& done);
  void UnsubscribeKvEvents(uint64_t id);
  KvEventLog& kv_event_log();

  EngineStatus status() const;                 // a snapshot; any thread
  const EngineMetrics& metrics() const;        // counted since Open; any thread
  QueueLoad QueueHeldBy(uint64_t flow) const;  // what waits of one flow; any thread
  const ModelInfo& model_info() const;         // fixed after Open
  const MemoryLedger& memory_ledger() const;
  const StartStages& start_stages() const;  // of Open

  // Called once: from the engine's thread, after a device error has failed every stream, or from
  // the watchdog's, when a step has not ended in time and the engine's thread may never answer
  // again, so that the streams are the caller's to end. The server turns unhealthy and ends the
  // process with exit code 70. Set before the first Submit.
  void SetFailureCallback(std::function<void(const absl::Status&)> on_failure);

 private:
  Engine();
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
