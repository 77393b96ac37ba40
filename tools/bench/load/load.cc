#include "tools/bench/load/load.h"

#include <time.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <random>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/wire/client/io_loop.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/load/connections.h"

namespace quire::bench {

namespace {

using Clock = IoLoop::Clock;

constexpr auto kPatience = std::chrono::milliseconds(100);  // then a signal is looked for
constexpr size_t kMaxErrorBytes = 4096;                     // that are kept of an answer

double ThreadCpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The beginning of a run's ids, which end with a number. They look like a UUID, because some
// servers refuse others.
std::string IdPrefix() {
  std::random_device random;
  return absl::StrFormat("%08x-%04x-4%03x-8000-", random(), random() & 0xffff, random() & 0xfff);
}

// `next` with what came before it: `item` and its answer.
WorkItem Continue(const WorkItem& item, const RequestRecord& answer, const WorkItem& next) {
  const auto append = [](const auto& more, auto* all) {
    all->insert(all->end(), more.begin(), more.end());
  };
  WorkItem whole = next;
  if (!item.messages.empty()) {
    whole.messages = item.messages;
    whole.messages.push_back({.role = "assistant", .content = answer.text});
    append(next.messages, &whole.messages);
  } else if (!item.prompt.empty()) {
    whole.prompt = item.prompt;
    append(answer.token_ids, &whole.prompt);
    append(next.prompt, &whole.prompt);
  } else {
    whole.text = absl::StrCat(item.text, answer.text, next.text);
  }
  return whole;
}

class Load {
 public:
  Load(const ServerAddress& server, const LoadBackend& backend, const std::vector<WorkItem>& items,
       const std::vector<double>& due, const LoadOptions& options, Progress* progress);

  LoadResult Run();

 private:
  // One request that is under way.
  class Call final : public AnswerSink {
   public:
    Call(Load* load, size_t index)
        : load_(*load), index_(index), decoder_(load->backend_.NewDecoder()) {}

    void OnBody(std::string_view bytes) override;
    void OnEnd(const AnswerEnd& end) override { load_.End(this, end); }

   private:
    friend class Load;

    Load& load_;
    const size_t index_;
    const std::unique_ptr<AnswerDecoder> decoder_;
    Connections::Connection* connection_ = nullptr;
    AnswerSoFar answer_;
    std::string first_bytes_;  // until there is a token: they may tell of an error
  };

  double Now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  std::string IdOf(size_t index) const { return absl::StrFormat("%s%012x", id_prefix_, index); }
  void DrawCancels(uint64_t seed, double rate);
  bool has_more() const {
    return next_ < firsts_.size() || !later_turns_.empty() || !waiting_.empty();
  }
  void StartDue();
  void Start(size_t index);
  const WorkItem& ItemOf(size_t index) const;
  void GoOn(size_t index);
  double TakePlace();
  void TakeTokens(Call* call, int64_t num_before);
  void End(Call* call, const AnswerEnd& end);
  void Settle();
  void CancelDue();
  void Cancel(size_t index, Outcome outcome);
  void Stop();
  Clock::time_point NextTime() const;

  const LoadBackend& backend_;
  const std::vector<WorkItem>& items_;
  const std::vector<double>& due_;
  const LoadOptions& options_;
  ProgressStage stage_;
  const std::string id_prefix_;
  IoLoop loop_;
  Connections connections_;
  LoadResult result_;
  std::vector<int64_t> cancel_after_;           // tokens; 0 = never: [items.size()]
  std::vector<std::unique_ptr<Call>> calls_;    // null: not under way
  std::vector<std::unique_ptr<Call>> ended_;    // since the loop last ran
  std::vector<size_t> to_abandon_;              // since then
  std::vector<size_t> firsts_;                  // requests that continue none, as they are due
  std::unordered_map<size_t, WorkItem> turns_;  // that continue one whose answer is there
  // When they are due, until then.
  std::priority_queue<std::pair<double, size_t>, std::vector<std::pair<double, size_t>>,
                      std::greater<>>
      later_turns_;
  std::deque<size_t> waiting_;       // due, for a place
  std::deque<double> freed_places_;  // when; each is taken again in turn
  std::deque<std::pair<double, size_t>> deadlines_;
  Clock::time_point begin_;
  size_t next_ = 0;  // the first of firsts_ that is not due yet
  int64_t num_in_flight_ = 0;
  bool has_stopped_ = false;
};

Load::Load(const ServerAddress& server, const LoadBackend& backend,
           const std::vector<WorkItem>& items, const std::vector<double>& due,
           const LoadOptions& options, Progress* progress)
    : backend_(backend),
      items_(items),
      due_(due),
      options_(options),
      stage_(progress, "requests", static_cast<int64_t>(items.size()), ProgressUnit::kItems),
      id_prefix_(IdPrefix()),
      connections_(&loop_, server, backend.is_http2(), options.num_connections),
      cancel_after_(items.size(), 0),
      calls_(items.size()) {
  result_.records.resize(items.size());
  result_.effort.lag_ms.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].continues) firsts_.push_back(i);
  }
  if (options.cancel_rate > 0) DrawCancels(options.seed, options.cancel_rate);
}

void Load::DrawCancels(uint64_t seed, double rate) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution is_cancelled(rate);
  for (size_t i = 0; i < items_.size(); ++i) {
    std::uniform_int_distribution<int64_t> tokens(1, std::max<int64_t>(1, items_[i].output_len));
    const int64_t count = tokens(random);
    if (is_cancelled(random)) cancel_after_[i] = count;
  }
}

LoadResult Load::Run() {
  begin_ = Clock::now();
  const double cpu_begin = ThreadCpuSeconds();
  while (num_in_flight_ > 0 || (!has_stopped_ && has_more())) {
    const bool is_over = options_.max_seconds > 0 && Now() >= options_.max_seconds;
    if (!has_stopped_ && (is_over || Interrupted())) {
      Stop();
      continue;
    }
    StartDue();
    loop_.RunUntil(NextTime());
    Settle();
    CancelDue();
  }
  result_.effort.seconds = Now();
  result_.effort.cpu_seconds = ThreadCpuSeconds() - cpu_begin;
  result_.effort.num_connections = connections_.num_opened();
  return std::move(result_);
}

Clock::time_point Load::NextTime() const {
  double next = std::numeric_limits<double>::infinity();
  if (!has_stopped_ && next_ < firsts_.size()) next = due_[firsts_[next_]];
  if (!has_stopped_ && !later_turns_.empty()) next = std::min(next, later_turns_.top().first);
  if (!deadlines_.empty()) next = std::min(next, deadlines_.front().first);
  if (options_.max_seconds > 0 && !has_stopped_) next = std::min(next, options_.max_seconds);
  const Clock::time_point patience = Clock::now() + kPatience;
  if (next > Now() + 1) return patience;
  return std::min(patience, begin_ + std::chrono::duration_cast<Clock::duration>(
                                         std::chrono::duration<double>(next)));
}

void Load::StartDue() {
  if (has_stopped_) return;
  const double now = Now();
  for (; next_ < firsts_.size() && due_[firsts_[next_]] <= now; ++next_) {
    result_.records[firsts_[next_]].scheduled = due_[firsts_[next_]];
    waiting_.push_back(firsts_[next_]);
  }
  for (; !later_turns_.empty() && later_turns_.top().first <= now; later_turns_.pop()) {
    const auto& [time, index] = later_turns_.top();
    result_.records[index].scheduled = time;
    waiting_.push_back(index);
  }
  const int64_t limit =
      options_.max_concurrency > 0 ? options_.max_concurrency : std::numeric_limits<int64_t>::max();
  while (!waiting_.empty() && num_in_flight_ < limit) {
    Start(waiting_.front());
    waiting_.pop_front();
  }
}

void Load::Start(size_t index) {
  RequestRecord& record = result_.records[index];
  const ClientRequest request =
      backend_.GenerateRequest(ItemOf(index), options_.seed + index, IdOf(index));
  calls_[index] = std::make_unique<Call>(this, index);
  record.sent = Now();
  Call& call = *calls_[index];
  call.connection_ = connections_.StartCall(request, &call);
  result_.effort.lag_ms.push_back(1000 * (record.sent - std::max(record.scheduled, TakePlace())));
  if (call.connection_ == nullptr) {
    calls_[index] = nullptr;
    record.outcome = Outcome::kFailed;
    record.ended = record.sent;
    record.problem = "this machine allows no more connections (ulimit -n)";
    if (options_.max_concurrency > 0) freed_places_.push_back(record.ended);
    stage_.Add(1);
    GoOn(index);
    return;
  }
  ++num_in_flight_;
  result_.effort.max_in_flight = std::max(result_.effort.max_in_flight, num_in_flight_);
  if (options_.deadline_seconds > 0) {
    deadlines_.emplace_back(record.sent + options_.deadline_seconds, index);
  }
}

const WorkItem& Load::ItemOf(size_t index) const {
  return items_[index].continues ? turns_.at(index) : items_[index];
}

// After the end of this one.
void Load::GoOn(size_t index) {
  const RequestRecord& record = result_.records[index];
  size_t next = index + 1;
  const bool goes_on = record.outcome == Outcome::kCompleted && !has_stopped_;
  if (goes_on && next < items_.size() && items_[next].continues) {
    turns_.emplace(next, Continue(ItemOf(index), record, items_[next]));
    result_.records[next].turn = record.turn + 1;
    later_turns_.emplace(record.ended + due_[next], next);
  }
  for (; !goes_on && next < items_.size() && items_[next].continues; ++next) stage_.Add(1);
  turns_.erase(index);
}

// Since when the place of the next request has been free.
double Load::TakePlace() {
  const auto num_started = static_cast<int64_t>(result_.effort.lag_ms.size());
  if (options_.max_concurrency == 0 || num_started < options_.max_concurrency) return 0;
  const double since = freed_places_.front();
  freed_places_.pop_front();
  return since;
}

void Load::Call::OnBody(std::string_view bytes) {
  const int64_t num_before = answer_.num_tokens;
  decoder_->Take(bytes, &answer_);
  if (answer_.num_tokens > num_before) {
    load_.TakeTokens(this, num_before);
  } else if (num_before == 0 && first_bytes_.size() < kMaxErrorBytes) {
    first_bytes_.append(bytes.substr(0, kMaxErrorBytes));
  }
}

void Load::TakeTokens(Call* call, int64_t num_before) {
  RequestRecord& record = result_.records[call->index_];
  const double now = Now();
  if (num_before == 0) {
    record.first_token = now;
  } else {
    record.itl_ms.push_back(static_cast<float>(1000 * (now - record.last_token)));
  }
  record.last_token = now;
  const int64_t limit = cancel_after_[call->index_];
  if (num_before < limit && call->answer_.num_tokens >= limit) to_abandon_.push_back(call->index_);
}

void Load::End(Call* call, const AnswerEnd& end) {
  RequestRecord& record = result_.records[call->index_];
  AnswerSoFar& answer = call->answer_;
  record.ended = Now();
  call->decoder_->End(&answer);
  if (options_.max_concurrency > 0) freed_places_.push_back(record.ended);
  record.num_tokens = answer.num_tokens;
  record.prompt_tokens = answer.prompt_tokens;
  if (record.prompt_tokens == 0) {
    record.prompt_tokens = static_cast<int64_t>(ItemOf(call->index_).prompt.size());
  }
  record.cached_tokens = answer.cached_tokens;
  const bool is_full = answer.finish_reason == "length";
  record.is_counted = answer.completion_tokens > 0 || is_full;
  record.has_stopped = answer.finish_reason == "stop";
  if (answer.completion_tokens > 0) {
    record.completion_tokens = answer.completion_tokens;
  } else {
    record.completion_tokens = is_full ? ItemOf(call->index_).output_len : answer.num_tokens;
  }
  record.text = std::move(answer.text);
  record.token_ids = std::move(answer.token_ids);
  record.logprobs = std::move(answer.logprobs);
  record.prompt_logprobs = std::move(answer.prompt_logprobs);
  if (record.outcome == Outcome::kUnsent) {  // else we have cancelled it
    record.problem = backend_.Problem(end, call->first_bytes_);
    if (record.problem.empty()) record.problem = answer.problem;
    if (record.problem.empty() && answer.num_tokens == 0) record.problem = "no token came";
    record.outcome = record.problem.empty() ? Outcome::kCompleted : Outcome::kFailed;
  }
  --num_in_flight_;
  stage_.Add(1);
  GoOn(call->index_);
  ended_.push_back(std::move(calls_[call->index_]));
}

// Does what sinks must not do.
void Load::Settle() {
  for (const size_t index : std::exchange(to_abandon_, {})) Cancel(index, Outcome::kAbandoned);
  for (const std::unique_ptr<Call>& call : std::exchange(ended_, {})) {
    connections_.EndCall(call->connection_);
  }
}

void Load::CancelDue() {
  const double now = deadlines_.empty() ? 0 : Now();
  while (!deadlines_.empty() && deadlines_.front().first <= now) {
    Cancel(deadlines_.front().second, Outcome::kTimedOut);
    deadlines_.pop_front();
  }
}

void Load::Cancel(size_t index, Outcome outcome) {
  if (calls_[index] == nullptr) return;
  result_.records[index].outcome = outcome;
  calls_[index]->connection_->client->Cancel(calls_[index].get());
}

void Load::Stop() {
  has_stopped_ = true;
  for (size_t i = 0; i < items_.size(); ++i) Cancel(i, Outcome::kInterrupted);
  Settle();
}

// Keeps a body.
class FetchSink final : public AnswerSink {
 public:
  void OnBody(std::string_view bytes) override { body.append(bytes); }
  void OnEnd(const AnswerEnd& its_end) override {
    end = its_end;
    has_ended = true;
  }

  std::string body;
  AnswerEnd end;
  bool has_ended = false;
};

}  // namespace

LoadResult RunLoad(const ServerAddress& server, const LoadBackend& backend,
                   const std::vector<WorkItem>& items, const std::vector<double>& due,
                   const LoadOptions& options, Progress* progress) {
  AllowManyConnections();
  return Load(server, backend, items, due, options, progress).Run();
}

absl::StatusOr<std::string> Fetch(const ServerAddress& server, const LoadBackend& backend,
                                  const ClientRequest& request) {
  constexpr auto kLongest = std::chrono::seconds(10);  // of a machine that does not answer
  IoLoop loop;
  FetchSink sink;
  const std::unique_ptr<ClientConnection> client =
      OpenConnection(&loop, server, backend.is_http2());
  if (client->is_lost()) return absl::UnavailableError("this machine allows no more connections");
  client->Start(request, &sink);
  const Clock::time_point give_up = Clock::now() + kLongest;
  while (!sink.has_ended && Clock::now() < give_up) loop.RunUntil(give_up);
  if (!sink.has_ended) return absl::UnavailableError("no answer within 10 s");
  if (sink.end.http_status == 0) return absl::UnavailableError(sink.end.problem);
  const std::string problem = backend.Problem(sink.end, sink.body);
  if (sink.end.http_status == 404) return absl::NotFoundError(problem);
  if (!problem.empty()) return absl::UnknownError(problem);
  return std::move(sink.body);
}

}  // namespace quire::bench
