#include "engine/runner/token_masks.h"

#include <pthread.h>

#include <algorithm>

namespace quire {

namespace {

// Fewer rows are filled sooner than a thread wakes up.
constexpr size_t kMinRows = 3;
constexpr int kMostThreads = 7;

}  // namespace

int TokenMasks::UsefulThreads(int num_computing) {
  const int num_idle = static_cast<int>(std::thread::hardware_concurrency()) - num_computing - 2;
  return std::clamp(num_idle / 2, 0, kMostThreads);
}

TokenMasks::TokenMasks(int num_threads) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

TokenMasks::~TokenMasks() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void TokenMasks::Run() {
  pthread_setname_np(pthread_self(), "quire-masks");
  int64_t seen = 0;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this, &seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || round_ != seen;
      };
      mutex_.Await(absl::Condition(&has_work));
      if (closing_) return;
      seen = round_;
      if (next_.load() >= constraints_.size()) continue;  // the others have done everything
      ++num_filling_;
    }
    FillSome();
    absl::MutexLock lock(&mutex_);
    --num_filling_;
  }
}

void TokenMasks::FillSome() {
  for (size_t i = next_++; i < constraints_.size(); i = next_++) {
    constraints_[i]->FillMask(absl::MakeSpan(masks_ + static_cast<int64_t>(i) * num_words_,
                                             static_cast<size_t>(num_words_)));
  }
}

void TokenMasks::Fill(absl::Span<TokenConstraint* const> constraints, uint32_t* masks,
                      int64_t num_words) {
  {
    absl::MutexLock lock(&mutex_);
    constraints_ = constraints;
    masks_ = masks;
    num_words_ = num_words;
    next_ = 0;
    if (constraints.size() >= kMinRows) ++round_;
  }
  FillSome();
  absl::MutexLock lock(&mutex_);
  const auto is_done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return num_filling_ == 0; };
  mutex_.Await(absl::Condition(&is_done));
  constraints_ = {};
}

}  // namespace quire
