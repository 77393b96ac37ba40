// TokenMasks: the masks of a step's constrained rows, made on the host while the device runs the
// forward pass. A few threads share the rows, so that many of them are ready before the pass is.
// Engine thread; its own threads only fill masks.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "scheduler/token_constraint.h"

namespace quire {

class TokenMasks {
 public:
  // `num_threads` beside the caller's.
  explicit TokenMasks(int num_threads);
  ~TokenMasks();
  TokenMasks(const TokenMasks&) = delete;
  TokenMasks& operator=(const TokenMasks&) = delete;

  // How many threads pay on this machine, where as many compute on its cores.
  static int UsefulThreads(int num_computing);

  // masks[i * num_words ...]: the mask of constraints[i].
  void Fill(absl::Span<TokenConstraint* const> constraints, uint32_t* masks, int64_t num_words);

 private:
  void Run();
  void FillSome();

  std::vector<std::thread> threads_;
  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 0;    // calls of Fill so far
  int num_filling_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that take part in it
  // Of the call that is under way: written while no thread takes part.
  absl::Span<TokenConstraint* const> constraints_;
  uint32_t* masks_ = nullptr;
  int64_t num_words_ = 0;
  std::atomic<size_t> next_ = 0;
};

}  // namespace quire
