#include "server/start/hub/downloader.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/base/check.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "server/start/hub/hub_name.h"

namespace quire {
namespace {

constexpr int kNumConnections = 8;
constexpr std::chrono::milliseconds kLockInterval(100);
// After this much progress since the last failure, the next one counts as the first.
constexpr int64_t kProgressBytes = int64_t{1} << 20;

std::string EncodePath(absl::string_view path) {
  return absl::StrJoin(
      absl::StrSplit(path, '/'), "/",
      [](std::string* out, absl::string_view part) { out->append(PercentEncode(part)); });
}

bool IsFileOfSize(const std::string& path, int64_t size) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == size;
}

}  // namespace

struct Downloader::Item {
  enum class Phase : uint8_t { kClosed, kOpen, kFinished };

  RepoFile file;
  std::string url;
  Phase phase = Phase::kClosed;
  Ranges ranges = Ranges::kUnknown;
  bool was_wrong = false;  // the bytes, once already
  FileLock lock;
  std::unique_ptr<IncompleteFile> data;
  std::vector<PartState> parts;
};

// The bytes of one answer on their way into the file.
class Downloader::PartTransfer {
 public:
  PartTransfer(Downloader* downloader, const Work& work)
      : downloader_(*downloader),
        item_(*work.item),
        data_(*work.item->data),
        range_(data_.Missing(work.part)) {}

  bool is_whole_file() const { return range_.begin == 0 && range_.end == data_.size(); }
  std::string range() const {
    return is_whole_file() ? "" : absl::StrCat(range_.begin, "-", range_.end - 1);
  }
  bool done() const { return position_ == range_.end; }
  const absl::Status& status() const { return status_; }
  const std::string& refusal() const { return refusal_; }

  bool Take(const HubResponse& response, absl::string_view bytes) {
    if (downloader_.stopping_) return Stop(absl::CancelledError("stopped"));
    if (position_ < 0 && !Begin(response)) return false;
    bytes = bytes.substr(0, range_.end - position_);
    const absl::StatusOr<int64_t> num_new = data_.Write(position_, bytes);
    if (!num_new.ok()) return Stop(num_new.status());
    position_ += static_cast<int64_t>(bytes.size());
    num_new_ += *num_new;
    downloader_.stage_->Add(*num_new);
    return position_ < range_.end;
  }

  int64_t num_new() const { return num_new_; }

 private:
  bool Begin(const HubResponse& response) {
    if (IsWebPage(response)) return Refuse("a web page");
    if (response.status == 206) {
      const std::string served = response.Header("content-range");
      if (!absl::StartsWith(served, absl::StrCat("bytes ", range_.begin, "-"))) {
        return Refuse("another range of bytes than was asked for");
      }
    } else if (!is_whole_file()) {
      // Ranges are ignored: only the first connection may take the whole file instead.
      absl::MutexLock lock(&downloader_.mutex_);
      if (item_.ranges == Ranges::kServed) return Refuse("the whole file instead of a range");
      item_.ranges = Ranges::kIgnored;
      range_ = {0, data_.size()};
    }
    position_ = range_.begin;
    absl::MutexLock lock(&downloader_.mutex_);
    if (response.status == 206 && item_.ranges == Ranges::kUnknown) {
      item_.ranges = Ranges::kServed;
      downloader_.changed_.SignalAll();
    }
    return true;
  }

  bool Stop(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Refuse(std::string what) {
    refusal_ = std::move(what);
    return false;
  }

  Downloader& downloader_;
  Item& item_;
  IncompleteFile& data_;
  IncompleteFile::Range range_;
  int64_t position_ = -1;
  int64_t num_new_ = 0;
  absl::Status status_;
  std::string refusal_;  // what the hub sent in place of the bytes
};

Downloader::Downloader(const HubOptions& options, const HubSubject& subject, const HubCache& cache,
                       const std::string& commit, ProgressStage* stage)
    : options_(options), subject_(subject), cache_(cache), commit_(commit), stage_(stage) {}

Downloader::~Downloader() = default;

absl::Status Downloader::Run(const std::vector<RepoFile>& files) {
  for (const RepoFile& file : files) {
    items_.push_back(std::make_unique<Item>());
    items_.back()->file = file;
    items_.back()->url = absl::StrCat(options_.endpoint, "/", subject_.name, "/resolve/", commit_,
                                      "/", EncodePath(file.name));
  }
  std::vector<std::thread> workers;
  workers.reserve(kNumConnections);
  for (int i = 0; i < kNumConnections; ++i) workers.emplace_back([this] { RunWorker(); });
  for (std::thread& worker : workers) worker.join();
  absl::MutexLock lock(&mutex_);
  return status_;
}

void Downloader::RunWorker() {
  HttpClient client(options_);
  Work work;
  while (Next(&work)) {
    absl::Status status = Get(&client, work);
    if (status.ok()) status = EndPart(work);
    if (!status.ok()) Fail(status);
  }
}

void Downloader::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) status_ = status;
  stopping_ = true;
  changed_.SignalAll();
}

bool Downloader::Next(Work* work) {
  absl::MutexLock lock(&mutex_);
  while (true) {
    bool all_finished = true;
    bool waits_for_process = false;
    for (const auto& item : items_) {
      if (stopping_) return false;
      if (item->phase == Item::Phase::kClosed) {
        const absl::StatusOr<bool> opened = Open(item.get());
        if (!opened.ok()) {
          if (status_.ok()) status_ = opened.status();
          stopping_ = true;
          changed_.SignalAll();
          return false;
        }
        waits_for_process |= !*opened;
      }
      if (item->phase != Item::Phase::kFinished) all_finished = false;
      if (item->phase == Item::Phase::kOpen && TakePart(item.get(), work)) return true;
    }
    if (all_finished) return false;
    if (!waits_for_process) {
      changed_.Wait(&mutex_);
    } else {
      if (!std::exchange(said_waiting_, true)) {
        spdlog::info("another process is downloading {}: waiting for it", subject_.name);
      }
      changed_.WaitUntil(&mutex_, MonotonicNow() + absl::FromChrono(kLockInterval));
    }
  }
}

bool Downloader::TakePart(Item* item, Work* work) {
  // Until the first connection has shown whether ranges are served, and if they are not, the file
  // belongs to that connection only.
  const bool one_only = item->ranges != Ranges::kServed;
  const auto is = [](PartState state) { return [state](PartState s) { return s == state; }; };
  if (one_only && std::any_of(item->parts.begin(), item->parts.end(), is(PartState::kTaken))) {
    return false;
  }
  const auto idle = std::find_if(item->parts.begin(), item->parts.end(), is(PartState::kIdle));
  if (idle == item->parts.end()) return false;
  *idle = PartState::kTaken;
  *work = {item, static_cast<int>(idle - item->parts.begin())};
  return true;
}

// False: another process has the lock.
absl::StatusOr<bool> Downloader::Open(Item* item) {
  const RepoFile& file = item->file;
  ASSIGN_OR_RETURN(const bool locked, item->lock.TryLock(cache_.LockPath(file.etag)));
  if (!locked) return false;
  const bool in_snapshot = cache_.HasFile(commit_, file.name, file.size);
  if (in_snapshot || IsFileOfSize(cache_.BlobPath(file.etag), file.size)) {
    if (!in_snapshot) RETURN_IF_ERROR(cache_.AddToSnapshot(commit_, file));
    stage_->Add(file.size);
    item->lock.Unlock();
    item->phase = Item::Phase::kFinished;
    changed_.SignalAll();
    return true;
  }
  ASSIGN_OR_RETURN(item->data, IncompleteFile::Open(cache_.IncompletePath(file.etag), file));
  stage_->Add(item->data->NumDone());
  // A file without bytes has one part too, so that somebody completes it.
  item->parts.assign(std::max(item->data->num_parts(), 1), PartState::kIdle);
  item->phase = Item::Phase::kOpen;
  return true;
}

absl::Status Downloader::Get(HttpClient* client, const Work& work) {
  IncompleteFile& data = *work.item->data;
  if (data.num_parts() == 0) return absl::OkStatus();
  Retries retries;
  int64_t num_since_failure = 0;
  while (data.Missing(work.part).begin < data.Missing(work.part).end) {
    PartTransfer transfer(this, work);
    HubRequest request = {work.item->url};
    request.range = transfer.range();
    request.stall_timeout = options_.stall_timeout;
    request.stop = &stopping_;
    const HubResponse response =
        client->Perform(request, [&](const HubResponse& answer, absl::string_view bytes) {
          return transfer.Take(answer, bytes);
        });
    RETURN_IF_ERROR(transfer.status());
    if (stopping_) return absl::CancelledError("stopped");
    if (transfer.done()) break;
    num_since_failure += transfer.num_new();
    if (std::exchange(num_since_failure, num_since_failure % kProgressBytes) >= kProgressBytes) {
      retries.Reset();
    }
    if (const std::optional<absl::Duration> wait = retries.NextWait(response)) {
      absl::MutexLock lock(&mutex_);
      const absl::Time until = MonotonicNow() + *wait;
      changed_.Await(&mutex_, until, [this] { return stopping_.load(); });
      continue;
    }
    if (!transfer.refusal().empty()) {
      return absl::UnavailableError(absl::StrCat(
          options_.endpoint, " answers with ", transfer.refusal(), " where ", work.item->file.name,
          " of ", subject_.name,
          " should be: a proxy or a log-in page is in the way, or HF_ENDPOINT is not a hub"));
    }
    HubResponse failed = response;
    if (failed.status < 300 && failed.error.empty()) failed.error = "the connection was cut";
    return ExplainResponse(failed, subject_, options_);
  }
  return absl::OkStatus();
}

absl::Status Downloader::EndPart(const Work& work) {
  Item* const item = work.item;
  RETURN_IF_ERROR(item->data->CheckAhead());
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    item->parts[work.part] = PartState::kWhole;
    if (item->data->NumDone() == item->data->size()) {
      // Either this part was the last one, or this connection has had the whole file.
      last = std::none_of(item->parts.begin(), item->parts.end(),
                          [](PartState state) { return state == PartState::kTaken; });
      if (last) std::fill(item->parts.begin(), item->parts.end(), PartState::kWhole);
    }
    changed_.SignalAll();
  }
  return last ? Complete(item) : absl::OkStatus();
}

absl::Status Downloader::Complete(Item* item) {
  const RepoFile& file = item->file;
  ASSIGN_OR_RETURN(const bool good, item->data->IsGood());
  if (good) {
    RETURN_IF_ERROR(item->data->MoveTo(cache_.BlobPath(file.etag)));
    RETURN_IF_ERROR(cache_.AddToSnapshot(commit_, file));
  } else {
    stage_->Add(-item->data->NumDone());
    RETURN_IF_ERROR(item->data->Restart());
    if (item->was_wrong) {
      return absl::UnavailableError(absl::StrCat(
          options_.endpoint, " has sent ", file.name, " of ", subject_.name,
          " with wrong bytes twice (the checksum differs), which were removed: try again later, or "
          "without the proxy or mirror in between"));
    }
    spdlog::warn("{} of {} arrived with wrong bytes: downloading it again", file.name,
                 subject_.name);
  }
  absl::MutexLock lock(&mutex_);
  if (good) {
    item->phase = Item::Phase::kFinished;
    item->data.reset();
    item->lock.Unlock();
  } else {
    item->was_wrong = true;
    std::fill(item->parts.begin(), item->parts.end(), PartState::kIdle);
  }
  changed_.SignalAll();
  return absl::OkStatus();
}

}  // namespace quire
