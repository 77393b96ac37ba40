#include "server/base/start_thread.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {

absl::StatusOr<std::thread> StartThread(std::function<void()> run) {
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot start a thread: ", error.what(), "; raise `ulimit -u` or pids.max"));
  }
}

}  // namespace quire
