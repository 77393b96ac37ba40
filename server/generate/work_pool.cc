#include "server/generate/work_pool.h"

#include <utility>

#include "server/request/retry_pushback.h"

namespace quire {

WorkPool::WorkPool(int num_threads, size_t max_queued, size_t max_queued_bytes)
    : queue_(std::make_shared<Queue>(max_queued, max_queued_bytes)) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([queue = queue_.get()] {
      while (std::optional<Work> work = queue->Pop()) work->run(absl::OkStatus());
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
  // Alone, any work may wait.
  const bool fits = waiting_.empty() ||
                    (waiting_.size() < max_work_ && num_bytes_ + work->num_bytes <= max_bytes_);
  if (!fits) {
    return WithRetryPushback(absl::ResourceExhaustedError(
        "too many long prompts wait to be tokenized; try again later"));
  }
  num_bytes_ += work->num_bytes;
  waiting_.emplace(id, std::move(*work));
  return absl::OkStatus();
}

std::optional<WorkPool::Work> WorkPool::Queue::Pop() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Queue::HasNews));
  if (is_closed_) return std::nullopt;
  return Take(waiting_.begin());
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
    dropped.swap(waiting_);
    num_bytes_ = 0;
  }
  for (auto& [id, work] : dropped) work.run(absl::UnavailableError("the server is shutting down"));
}

WorkPool::Work WorkPool::Queue::Take(std::map<uint64_t, Work>::iterator place) {
  Work work = std::move(place->second);
  waiting_.erase(place);
  num_bytes_ -= work.num_bytes;
  return work;
}

}  // namespace quire
