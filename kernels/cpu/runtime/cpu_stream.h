// CpuStream: one thread that runs tasks in order from a fixed ring. Enqueueing allocates nothing
// and blocks while the ring is full. A task is a trivially copyable callable of at most
// kMaxTaskBytes, so that a captured graph is a list of them that can be run again. One thread (the
// engine's) enqueues; events may be asked from another.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/device.h"

namespace quire::cpu {

// A callable by value in inline storage.
class Task {
 public:
  static constexpr size_t kMaxTaskBytes = 704;

  Task() = default;
  template <typename F>
  explicit Task(const F& fn) : run_([](const void* data) { (*static_cast<const F*>(data))(); }) {
    static_assert(std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F>,
                  "capture values and raw pointers only");
    static_assert(sizeof(F) <= kMaxTaskBytes && alignof(F) <= 16);
    std::memcpy(data_, &fn, sizeof(F));
  }
  void Run() const { run_(data_); }

 private:
  void (*run_)(const void*) = nullptr;
  alignas(16) std::byte data_[kMaxTaskBytes];
};

class CpuGraph : public ExecGraph {
 public:
  explicit CpuGraph(std::vector<Task> tasks) : tasks_(std::move(tasks)) {}
  void Run() const {
    for (const Task& task : tasks_) task.Run();
  }

 private:
  std::vector<Task> tasks_;
};

// How far a stream has come; shared with the events recorded on it, which may outlive it.
class StreamProgress {
 public:
  uint64_t num_finished() const;
  void WaitFor(uint64_t num_tasks) const;
  void FinishOne();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable reached_;
  uint64_t num_finished_ = 0;
  // The least that anybody waits for: a step is hundreds of tasks, and a thread that woke for each
  // would take the processor from those that compute.
  mutable uint64_t next_wanted_ = std::numeric_limits<uint64_t>::max();
};

class CpuEvent : public Event {
 public:
  explicit CpuEvent(bool timed = false) : timed_(timed) {}
  bool Done() const override;
  absl::Status Wait() override;
  double MicrosecondsSince(const Event& earlier) const override;

 private:
  friend class CpuStream;
  const bool timed_;
  std::atomic<int64_t> reached_ns_{0};  // when the stream came here, if timed; steady clock
  mutable std::mutex mutex_;            // Record against Done and Wait
  std::shared_ptr<const StreamProgress> progress_;
  uint64_t num_tasks_ = 0;  // done when the stream has finished this many
};

class CpuStream : public Stream {
 public:
  static constexpr size_t kDefaultCapacity = 1024;

  explicit CpuStream(size_t capacity_tasks = kDefaultCapacity);
  ~CpuStream() override;  // runs what is queued first
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  // Every stream that reaches the CPU backend was made by it.
  static CpuStream& From(Stream& stream) { return static_cast<CpuStream&>(stream); }

  // Runs fn() on the stream's thread after everything enqueued before; or records it.
  template <typename F>
  void Enqueue(const F& fn) {
    Push(Task(fn));
  }

  void CopyToDevice(void* device_dst, const void* pinned_src, int64_t bytes) override;
  void CopyToHost(void* pinned_dst, const void* device_src, int64_t bytes) override;
  void FillZero(void* device_dst, int64_t bytes) override;
  // Not while capturing.
  void Record(Event& event) override;
  void BeginCapture() override;
  absl::StatusOr<std::unique_ptr<ExecGraph>> EndCapture() override;
  // The graph must stay alive until the launch has run.
  void Launch(const ExecGraph& graph) override;
  absl::Status Synchronize() override;

 private:
  void Push(const Task& task);
  void ThreadLoop();

  std::vector<Task> ring_;
  const std::shared_ptr<StreamProgress> progress_;
  bool capturing_ = false;
  std::vector<Task> captured_;

  std::mutex mutex_;
  std::condition_variable submitted_changed_;
  uint64_t num_submitted_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace quire::cpu
