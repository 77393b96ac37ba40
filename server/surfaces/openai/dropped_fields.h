// DroppedFields: writes into the log which members of requests nobody has read, so that a
// misspelled field can be found there. Each name comes once, and their number is bounded, so that
// no client can fill the log. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

class DroppedFields {
 public:
  static constexpr size_t kMaxNames = 64;

  // The only one in the process.
  static DroppedFields& Log();

  // The line for an object that has been read, with its new names; empty if there are none.
  std::string LineFor(const FieldReader& fields);
  // The same line, into the log.
  void Tell(const FieldReader& fields);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
