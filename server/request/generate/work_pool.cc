#include "server/request/generate/work_pool.h"

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "kernels/base/clock.h"
#include "server/request/retry_pushback.h"

namespace quire {

namespace {

constexpr size_t kMostOverFree = 3;
// Tokenizing this much text, or parsing this much JSON, takes some milliseconds: with one of a time
// prompts still become tokens faster than any device computes them.
constexpr size_t kLargeBytes = 64 << 10;
// Accounts in debt are looked at so often: answers that are taken give time back.
constexpr absl::Duration kLookAgain = absl::Milliseconds(20);

const TimeAccount* AccountOf(const WorkPool::Work& work) {
  return work.cost == nullptr ? nullptr : &work.cost->account();
}

bool IsLarge(size_t num_bytes) { return num_bytes > kLargeBytes; }

void DoWork(WorkPool::Work work) {
  const double begin = ThreadSeconds();
  work.run(absl::OkStatus());
  work.run = nullptr;  // with what it holds
  if (work.cost != nullptr) work.cost->Charge(ThreadSeconds() - begin);
}

}  // namespace

WorkPool::WorkPool(int num_threads, size_t max_queued, size_t max_queued_bytes)
    : queue_(std::make_shared<Queue>(max_queued, max_queued_bytes)) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([queue = queue_.get()] {
      pthread_setname_np(pthread_self(), "quire-work");
      while (std::optional<Work> work = queue->Pop()) {
        const size_t num_bytes = work->num_bytes;
        DoWork(*std::move(work));
        queue->Done(num_bytes);
      }
    });
  }
}

WorkPool::~WorkPool() {
  Close();
  for (std::thread& thread : threads_) thread.join();
}

void WorkPool::Add(Work work) {
  const uint64_t id = ++num_added_;
  const std::shared_ptr<CancelToken> token = work.token;
  // Before it can start, which binds the token to what comes next.
  token->Bind([weak_queue = std::weak_ptr<Queue>(queue_), id] {
    if (const std::shared_ptr<Queue> queue = weak_queue.lock()) queue->Cancel(id);
  });
  if (const absl::Status pushed = queue_->Push(id, &work); !pushed.ok()) {
    work.run(pushed);
  } else if (token->cancelled()) {
    queue_->Cancel(id);  // the token may have looked before it was there
  }
}

void WorkPool::Close() { queue_->Close(); }

absl::Status WorkPool::Queue::Push(uint64_t id, Work* work) {
  absl::MutexLock lock(&mutex_);
  if (is_closed_) return absl::UnavailableError("the server is shutting down");
  if (!Fits(*work)) {
    return WithRetryPushback(absl::ResourceExhaustedError(
        "too many long prompts wait to be tokenized; try again later"));
  }
  num_bytes_ += work->num_bytes;
  Load& load = loads_[AccountOf(*work)];
  ++load.num_work;
  load.num_bytes += work->num_bytes;
  waiting_.emplace(id, std::move(*work));
  news_.Signal();
  return absl::OkStatus();
}

bool WorkPool::Queue::Fits(const Work& work) const {
  if (waiting_.empty()) return true;  // when no other work waits, any work may
  if (waiting_.size() >= max_work_ || num_bytes_ + work.num_bytes > max_bytes_) return false;
  const auto load = loads_.find(AccountOf(work));
  if (AccountOf(work) == nullptr || load == loads_.end()) return true;
  return load->second.num_work + 1 <= kMostOverFree * (max_work_ - waiting_.size() - 1) &&
         load->second.num_bytes + work.num_bytes <=
             kMostOverFree * (max_bytes_ - num_bytes_ - work.num_bytes);
}

std::map<uint64_t, WorkPool::Work>::iterator WorkPool::Queue::FindReady(absl::Time* look_again) {
  const absl::Time now = MonotonicNow();
  *look_again = absl::InfiniteFuture();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (is_large_under_way_ && IsLarge(it->second.num_bytes)) continue;
    if (it->second.cost == nullptr) return it;
    const absl::Time ready = it->second.cost->account().may_work_at();
    if (ready <= now) return it;
    *look_again = std::min({*look_again, ready, now + kLookAgain});
  }
  return waiting_.end();
}

std::optional<WorkPool::Work> WorkPool::Queue::Pop() {
  absl::MutexLock lock(&mutex_);
  while (!is_closed_) {
    absl::Time look_again;
    const auto ready = FindReady(&look_again);
    if (ready != waiting_.end()) {
      if (IsLarge(ready->second.num_bytes)) is_large_under_way_ = true;
      return Take(ready);
    }
    news_.WaitUntil(&mutex_, look_again);
  }
  return std::nullopt;
}

void WorkPool::Queue::Done(size_t num_bytes) {
  if (!IsLarge(num_bytes)) return;
  // The memory that this work took goes back to the system before the next large work begins.
  malloc_trim(0);
  absl::MutexLock lock(&mutex_);
  is_large_under_way_ = false;
  news_.Signal();
}

void WorkPool::Queue::Cancel(uint64_t id) {
  Work work;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = waiting_.find(id);
    if (place == waiting_.end()) return;
    work = Take(place);
  }
  work.run(absl::CancelledError("cancelled before it began"));
}

void WorkPool::Queue::Close() {
  std::map<uint64_t, Work> dropped;
  {
    absl::MutexLock lock(&mutex_);
    is_closed_ = true;
    news_.SignalAll();
    loads_.clear();
    dropped.swap(waiting_);
    num_bytes_ = 0;
  }
  for (auto& [id, work] : dropped) work.run(absl::UnavailableError("the server is shutting down"));
}

WorkPool::Work WorkPool::Queue::Take(std::map<uint64_t, Work>::iterator place) {
  Work work = std::move(place->second);
  waiting_.erase(place);
  num_bytes_ -= work.num_bytes;
  const auto load = loads_.find(AccountOf(work));
  load->second.num_bytes -= work.num_bytes;
  if (--load->second.num_work == 0) loads_.erase(load);
  return work;
}

}  // namespace quire
