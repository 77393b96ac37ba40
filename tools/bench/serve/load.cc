#include "tools/bench/serve/load.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "tools/bench/interrupt.h"

namespace quire::bench {

namespace {

// The calls in flight; they end on gRPC's threads, the load's thread waits here.
class Gate {
 public:
  explicit Gate(ProgressStage& stage) : stage_(stage) {}

  void Enter(const std::shared_ptr<grpc::ClientContext>& call) {
    absl::MutexLock lock(&mutex_);
    calls_.insert(call);
  }
  void Leave(const std::shared_ptr<grpc::ClientContext>& call) {
    absl::MutexLock lock(&mutex_);
    calls_.erase(call);
    stage_.Add(1);
    changed_.SignalAll();
  }
  // Without the lock: a call may end, and leave, inside TryCancel.
  void CancelAll() {
    std::vector<std::shared_ptr<grpc::ClientContext>> calls;
    {
      absl::MutexLock lock(&mutex_);
      calls.assign(calls_.begin(), calls_.end());
    }
    for (const auto& call : calls) call->TryCancel();
  }
  void WaitUntilEmpty() {
    absl::MutexLock lock(&mutex_);
    while (!calls_.empty()) changed_.Wait(&mutex_);
  }
  // Waits until fewer than `limit` calls are in flight, the time has come or a signal has.
  void WaitBelow(size_t limit, Clock::time_point until) {
    constexpr auto kPatience = std::chrono::milliseconds(100);  // then look for a signal
    absl::MutexLock lock(&mutex_);
    while (calls_.size() >= limit && Clock::now() < until && !Interrupted()) {
      changed_.WaitWithTimeout(
          &mutex_, absl::FromChrono(std::min<Clock::duration>(until - Clock::now(), kPatience)));
    }
  }

 private:
  ProgressStage& stage_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  absl::flat_hash_set<std::shared_ptr<grpc::ClientContext>> calls_ ABSL_GUARDED_BY(mutex_);
};

v1::GenerateRequest MakeRequest(const WorkItem& item, const SamplingFlags& flags, uint64_t seed) {
  v1::GenerateRequest request;
  for (const int32_t id : item.prompt) request.mutable_token_ids()->add_ids(id);
  request.mutable_stop()->set_max_tokens(item.output_len);
  request.mutable_stop()->set_ignore_eos(flags.ignore_eos);
  v1::Sampling& sampling = *request.mutable_sampling();
  sampling.set_temperature(flags.temperature);
  sampling.set_top_p(flags.top_p);
  sampling.set_top_k(flags.top_k);
  sampling.set_min_p(flags.min_p);
  sampling.set_repetition_penalty(flags.repetition_penalty);
  sampling.set_presence_penalty(flags.presence_penalty);
  sampling.set_frequency_penalty(flags.frequency_penalty);
  sampling.set_seed(seed);
  request.mutable_output()->set_return_token_ids(true);
  return request;
}

// One streaming call; deletes itself when it ends.
class Call : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  static void Start(v1::Inference::Stub& stub, v1::GenerateRequest request, RequestRecord* record,
                    Gate* gate) {
    auto* call = new Call(std::move(request), record, gate);
    gate->Enter(call->context_);
    record->sent = true;
    record->started = Clock::now();
    stub.async()->Generate(call->context_.get(), &call->request_, call);
    call->StartRead(&call->response_);
    call->StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (response_.has_started()) {
      record_->prompt_tokens = response_.started().prompt_tokens();
      record_->cached_tokens = response_.started().cached_tokens();
    } else if (response_.has_delta()) {
      record_->token_times.insert(record_->token_times.end(), response_.delta().token_ids_size(),
                                  Clock::now());
    } else {
      record_->completion_tokens = response_.finished().usage().completion_tokens();
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    record_->ended = Clock::now();
    record_->status = status;
    record_->cancelled = Interrupted() && status.error_code() == grpc::StatusCode::CANCELLED;
    gate_->Leave(context_);
    delete this;
  }

 private:
  Call(v1::GenerateRequest request, RequestRecord* record, Gate* gate)
      : record_(record), gate_(gate), request_(std::move(request)) {}

  RequestRecord* record_;
  Gate* gate_;
  const std::shared_ptr<grpc::ClientContext> context_ = std::make_shared<grpc::ClientContext>();
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
};

}  // namespace

std::vector<RequestRecord> RunLoad(v1::Inference::Stub& stub, const std::vector<WorkItem>& items,
                                   const LoadOptions& options, Progress* progress) {
  std::vector<RequestRecord> records(items.size());
  ProgressStage stage(progress, "requests", static_cast<int64_t>(items.size()),
                      ProgressUnit::kItems);
  Gate gate(stage);
  std::mt19937_64 random(options.seed);
  std::exponential_distribution<double> gap_seconds(options.request_rate > 0 ? options.request_rate
                                                                             : 1.0);
  const size_t limit = options.max_concurrency > 0 ? options.max_concurrency : items.size() + 1;
  constexpr auto kNever = Clock::time_point::max();
  Clock::time_point next_arrival = Clock::now();
  for (size_t i = 0; i < items.size() && !Interrupted(); ++i) {
    // An arrival waits for its time (fewer than 0 calls are never in flight), then for a place.
    gate.WaitBelow(0, next_arrival);
    gate.WaitBelow(limit, kNever);
    if (Interrupted()) break;
    Call::Start(stub, MakeRequest(items[i], options.sampling, options.seed + i), &records[i],
                &gate);
    if (options.request_rate > 0) {
      next_arrival += std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(gap_seconds(random)));
    }
  }
  gate.WaitBelow(1, kNever);
  if (Interrupted()) gate.CancelAll();
  gate.WaitUntilEmpty();
  return records;
}

}  // namespace quire::bench
