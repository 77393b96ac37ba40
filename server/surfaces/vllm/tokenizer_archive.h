// TokenizerArchive: the files that make a model's tokenizer, as one zip, for routers that tokenize
// themselves. Made when it is first asked for, once. Any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace quire {

struct ZipFile {
  std::string bytes;
  std::string sha256;  // digest of the bytes, in hexadecimal
};

class TokenizerArchive {
 public:
  explicit TokenizerArchive(std::string folder) : folder_(std::move(folder)) {}

  // Takes some 0.1 s for each MB the first time. FAILED_PRECONDITION if the folder has no such file
  // or cannot be read.
  absl::StatusOr<std::shared_ptr<const ZipFile>> Get();
  // Null until it is made. Does not wait.
  std::shared_ptr<const ZipFile> made() const;

 private:
  const std::string folder_;
  absl::Mutex making_;  // before the other
  bool told_ ABSL_GUARDED_BY(making_) = false;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const ZipFile> zip_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
