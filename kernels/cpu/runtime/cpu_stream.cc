#include "kernels/cpu/runtime/cpu_stream.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/base/check.h"

namespace quire::cpu {

uint64_t StreamProgress::num_finished() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return num_finished_;
}

void StreamProgress::WaitFor(uint64_t num_tasks) const {
  std::unique_lock<std::mutex> lock(mutex_);
  while (num_finished_ < num_tasks) {
    next_wanted_ = std::min(next_wanted_, num_tasks);
    reached_.wait(lock);
  }
}

void StreamProgress::FinishOne() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (++num_finished_ < next_wanted_) return;
    next_wanted_ = std::numeric_limits<uint64_t>::max();  // those who wait for more say so again
  }
  reached_.notify_all();
}

bool CpuEvent::Done() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return progress_ == nullptr || progress_->num_finished() >= num_tasks_;
}

absl::Status CpuEvent::Wait() {
  std::shared_ptr<const StreamProgress> progress;
  uint64_t num_tasks;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    progress = progress_;
    num_tasks = num_tasks_;
  }
  if (progress != nullptr) progress->WaitFor(num_tasks);
  return absl::OkStatus();
}

double CpuEvent::MicrosecondsSince(const Event& earlier) const {
  const CpuEvent& begin = static_cast<const CpuEvent&>(earlier);
  CHECK(timed_ && begin.timed_) << "events that were not created as timed";
  return 1e-3 * static_cast<double>(reached_ns_ - begin.reached_ns_);
}

CpuStream::CpuStream(size_t capacity_tasks)
    : ring_(capacity_tasks), progress_(std::make_shared<StreamProgress>()) {
  CHECK_GE(capacity_tasks, size_t{1});
  thread_ = std::thread([this] { ThreadLoop(); });
}

CpuStream::~CpuStream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  submitted_changed_.notify_one();
  thread_.join();
}

void CpuStream::Push(const Task& task) {
  if (capturing_) {
    captured_.push_back(task);
    return;
  }
  // Only this thread writes num_submitted_, so it may read it without the lock.
  const uint64_t index = num_submitted_;
  if (index >= ring_.size()) progress_->WaitFor(index - ring_.size() + 1);
  ring_[index % ring_.size()] = task;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    num_submitted_ = index + 1;
  }
  submitted_changed_.notify_one();
}

void CpuStream::ThreadLoop() {
  pthread_setname_np(pthread_self(), "quire-compute");
  for (uint64_t index = 0;; ++index) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      submitted_changed_.wait(lock, [&] { return num_submitted_ > index || closing_; });
      if (num_submitted_ == index) return;
    }
    ring_[index % ring_.size()].Run();
    progress_->FinishOne();
  }
}

void CpuStream::CopyToDevice(void* device_dst, const void* pinned_src, int64_t bytes) {
  Enqueue([=] { std::memcpy(device_dst, pinned_src, static_cast<size_t>(bytes)); });
}

void CpuStream::CopyToHost(void* pinned_dst, const void* device_src, int64_t bytes) {
  Enqueue([=] { std::memcpy(pinned_dst, device_src, static_cast<size_t>(bytes)); });
}

void CpuStream::FillZero(void* device_dst, int64_t bytes) {
  Enqueue([=] { std::memset(device_dst, 0, static_cast<size_t>(bytes)); });
}

void CpuStream::Record(Event& event) {
  CHECK(!capturing_) << "an event cannot be recorded in a captured graph";
  CpuEvent& cpu_event = static_cast<CpuEvent&>(event);
  if (cpu_event.timed_) {
    Enqueue([reached_ns = &cpu_event.reached_ns_] {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      *reached_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    });
  }
  std::lock_guard<std::mutex> lock(cpu_event.mutex_);
  cpu_event.progress_ = progress_;
  cpu_event.num_tasks_ = num_submitted_;
}

void CpuStream::BeginCapture() {
  CHECK(!capturing_) << "BeginCapture twice";
  capturing_ = true;
  captured_.clear();
}

absl::StatusOr<std::unique_ptr<ExecGraph>> CpuStream::EndCapture() {
  CHECK(capturing_) << "EndCapture without BeginCapture";
  capturing_ = false;
  return std::make_unique<CpuGraph>(std::exchange(captured_, {}));
}

void CpuStream::Launch(const ExecGraph& graph) {
  const CpuGraph* cpu_graph = static_cast<const CpuGraph*>(&graph);
  Enqueue([cpu_graph] { cpu_graph->Run(); });
}

absl::Status CpuStream::Synchronize() {
  CHECK(!capturing_) << "Synchronize while capturing";
  progress_->WaitFor(num_submitted_);
  return absl::OkStatus();
}

}  // namespace quire::cpu
