#include "tools/bench/load.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>

namespace quire::bench {

namespace {

// Counts the calls in flight; calls end on gRPC's threads, the load's thread waits here.
class Gate {
 public:
  void Enter() {
    std::lock_guard lock(mutex_);
    ++in_flight_;
  }
  void Leave() {
    std::lock_guard lock(mutex_);
    --in_flight_;
    ++num_ended_;
    changed_.notify_all();
  }
  // Waits until fewer than `limit` calls are in flight or the time has come; returns how many
  // ended.
  int64_t WaitBelow(int64_t limit, Clock::time_point until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return in_flight_ < limit; });
    return num_ended_;
  }
  bool Below(int64_t limit) {
    std::lock_guard lock(mutex_);
    return in_flight_ < limit;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t in_flight_ = 0;
  int64_t num_ended_ = 0;
};

// One streaming call; deletes itself when it ends.
class Call : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  static void Start(v1::Inference::Stub& stub, const WorkItem& item, RequestRecord* record,
                    Gate* gate) {
    auto* call = new Call(record, gate);
    for (const int32_t id : item.prompt) call->request_.mutable_token_ids()->add_ids(id);
    call->request_.mutable_stop()->set_max_tokens(item.output_len);
    call->request_.mutable_stop()->set_ignore_eos(true);
    call->request_.mutable_sampling()->set_temperature(0);
    call->request_.mutable_output()->set_return_token_ids(true);
    record->started = Clock::now();
    stub.async()->Generate(&call->context_, &call->request_, call);
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
    gate_->Leave();
    delete this;
  }

 private:
  Call(RequestRecord* record, Gate* gate) : record_(record), gate_(gate) {}

  RequestRecord* record_;
  Gate* gate_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
};

}  // namespace

std::vector<RequestRecord> RunLoad(v1::Inference::Stub& stub, const std::vector<WorkItem>& items,
                                   const LoadOptions& options,
                                   const std::function<void(int64_t num_ended)>& progress) {
  constexpr auto kProgressInterval = std::chrono::milliseconds(500);
  std::vector<RequestRecord> records(items.size());
  Gate gate;
  std::mt19937_64 random(options.seed);
  std::exponential_distribution<double> gap_seconds(options.request_rate > 0 ? options.request_rate
                                                                             : 1.0);
  const int64_t limit = options.max_concurrency > 0 ? options.max_concurrency
                                                    : static_cast<int64_t>(items.size()) + 1;
  Clock::time_point next_arrival = Clock::now();
  for (size_t i = 0; i < items.size(); ++i) {
    // An arrival waits for its time (fewer than 0 calls are never in flight), then for a place.
    while (Clock::now() < next_arrival) {
      progress(gate.WaitBelow(0, std::min(next_arrival, Clock::now() + kProgressInterval)));
    }
    while (!gate.Below(limit)) progress(gate.WaitBelow(limit, Clock::now() + kProgressInterval));
    gate.Enter();
    Call::Start(stub, items[i], &records[i], &gate);
    if (options.request_rate > 0) {
      next_arrival += std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(gap_seconds(random)));
    }
  }
  while (!gate.Below(1)) progress(gate.WaitBelow(1, Clock::now() + kProgressInterval));
  return records;
}

}  // namespace quire::bench
