// Fills a snapshot of the cache over several connections, each with one part of one file at a time.
// A file is locked while it is made, so that only one of several processes downloads it and the
// others wait. A download that an ended process has left is continued.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/base/clock.h"
#include "kernels/base/progress.h"
#include "server/start/hub/http_client.h"
#include "server/start/hub/hub_cache.h"
#include "server/start/hub/hub_error.h"
#include "server/start/hub/hub_options.h"
#include "server/start/hub/incomplete_file.h"
#include "server/start/hub/repo_info.h"

namespace quire {

class Downloader {
 public:
  // All outlive it; `stage` counts bytes.
  Downloader(const HubOptions& options, const HubSubject& subject, const HubCache& cache,
             const std::string& commit, ProgressStage* stage);
  ~Downloader();

  // Puts the files, whose sizes and etags are known, into the snapshot; returns after the last one
  // or the first failure, whose sentence says what to do. Once.
  absl::Status Run(const std::vector<RepoFile>& files);

 private:
  enum class PartState : uint8_t { kIdle, kTaken, kWhole };
  enum class Ranges : uint8_t { kUnknown, kServed, kIgnored };
  struct Item;
  struct Work {
    Item* item;
    int part;
  };
  class PartTransfer;

  void RunWorker();
  // The next part to get; nothing when all is done or something failed. Waits for other workers and
  // for other processes.
  bool Next(Work* work);
  bool TakePart(Item* item, Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> Open(Item* item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Get(HttpClient* client, const Work& work);
  absl::Status EndPart(const Work& work);
  absl::Status Complete(Item* item);
  void Fail(const absl::Status& status);

  const HubOptions& options_;
  const HubSubject& subject_;
  const HubCache& cache_;
  const std::string& commit_;
  ProgressStage* const stage_;

  absl::Mutex mutex_;
  MonotonicCondVar changed_;
  std::vector<std::unique_ptr<Item>> items_;  // mutex_ guards their contents
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool said_waiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stopping_{false};
};

}  // namespace quire
