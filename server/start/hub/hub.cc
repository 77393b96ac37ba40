#include "server/start/hub/hub.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/json/json_reader.h"
#include "engine/json/model_file.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "server/start/hub/downloader.h"
#include "server/start/hub/http_client.h"
#include "server/start/hub/hub_cache.h"
#include "server/start/hub/hub_name.h"

namespace quire {
namespace {

constexpr int64_t kMaxAnswerBytes = 32 << 20;
constexpr absl::Duration kMaxAnswerTime = absl::Minutes(2);
constexpr int kMaxLocalRedirects = 5;
// A file of fewer bytes is not announced by itself.
constexpr int64_t kWorthALine = 32 << 20;
// Left free on the disk for other programs that write there.
constexpr int64_t kReservedBytes = int64_t{64} << 20;

std::string Gigabytes(int64_t bytes) {
  return bytes < 1000000000 ? absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6)
                            : absl::StrFormat("%.2f GB", static_cast<double>(bytes) / 1e9);
}

class Fetch {
 public:
  Fetch(const HubSubject& subject, const ModelNeeds& needs, const HubOptions& options,
        Progress* progress)
      : subject_(subject),
        needs_(needs),
        options_(options),
        progress_(progress),
        cache_(options.cache_folder, subject.name, options.use_symlinks),
        client_(options) {}

  absl::StatusOr<std::string> Run() {
    const std::string cached = cache_.CachedCommit(subject_.revision);
    const bool is_cached = !cached.empty() && !cache_.MissingFile(cached, needs_);
    if (is_cached && (options_.offline || IsCommit(subject_.revision))) return Found(cached);
    if (options_.offline) return NotCached(cached);
    const absl::StatusOr<RepoInfo> info = AskHub(/*may_retry=*/!is_cached);
    if (!info.ok()) {
      // A revision that does not exist is a mistake of who named it, whatever the cache has.
      if (!is_cached || revision_unknown_) return info.status();
      spdlog::warn("{} is served as it was last downloaded: {}", subject_.name,
                   std::string(info.status().message()));
      return Found(cached);
    }
    RETURN_IF_ERROR(Download(*info));
    const absl::Status remembered = cache_.WriteRef(subject_.revision, info->commit);
    if (!remembered.ok()) spdlog::warn("{}", std::string(remembered.message()));
    return Found(info->commit);
  }

 private:
  std::string Found(const std::string& commit) const { return cache_.SnapshotFolder(commit); }

  absl::Status NotCached(const std::string& commit) const {
    std::string what = "is not";
    if (!commit.empty()) {
      what = absl::StrCat("is without ", cache_.MissingFile(commit, needs_).value_or("a file"));
    }
    return absl::UnavailableError(absl::StrCat(subject_.name, " (", subject_.revision, ") ", what,
                                               " in ", options_.cache_folder,
                                               ", and HF_HUB_OFFLINE forbids to download it: unset "
                                               "that, set HF_HOME to the cache that has "
                                               "it, or pass a folder"));
  }

  absl::StatusOr<RepoInfo> AskHub(bool may_retry) {
    HubRequest request = {absl::StrCat(options_.endpoint, "/api/models/", subject_.name,
                                       "/revision/", PercentEncode(subject_.revision),
                                       "?blobs=true")};
    request.max_body_bytes = kMaxAnswerBytes;
    request.stall_timeout = options_.answer_timeout;
    request.total_timeout = kMaxAnswerTime;
    const HubResponse response = PerformWithRetries(request, may_retry);
    revision_unknown_ =
        response.status == 404 && response.Header("x-error-code") == "RevisionNotFound";
    if (response.too_large) {
      return absl::UnavailableError(absl::StrCat(request.url, " answers with more than ",
                                                 WithCommas(kMaxAnswerBytes),
                                                 " bytes: HF_ENDPOINT is not a hub"));
    }
    if (!response.error.empty() || response.status != 200) {
      return ExplainResponse(response, subject_, options_);
    }
    absl::StatusOr<RepoInfo> info = ParseRepoInfo(response.body);
    if (info.ok()) return info;
    if (IsWebPage(response) || absl::StartsWith(response.body, "<")) {
      return absl::UnavailableError(absl::StrCat(
          request.url,
          " answers with a web page instead of JSON: a proxy or a log-in page is in the "
          "way, or HF_ENDPOINT is not a hub"));
    }
    return absl::UnavailableError(
        absl::StrCat(request.url, ": ", info.status().message(), "; is HF_ENDPOINT a hub?"));
  }

  HubResponse PerformWithRetries(const HubRequest& request, bool may_retry) {
    Retries retries;
    while (true) {
      HubResponse response = client_.Perform(request);
      const bool failed = !response.error.empty() || response.status == 0 || response.status >= 400;
      if (!failed || !may_retry) return response;
      const std::optional<absl::Duration> wait = retries.NextWait(response);
      if (!wait) return response;
      if (!std::exchange(said_retrying_, true)) {
        spdlog::info(
            "{} does not answer as it should ({}): trying again for some seconds",
            options_.endpoint,
            response.error.empty() ? absl::StrCat("HTTP ", response.status) : response.error);
      }
      absl::SleepFor(*wait);
    }
  }

  absl::Status Download(const RepoInfo& info) {
    const absl::Time begun = MonotonicNow();
    ASSIGN_OR_RETURN(std::vector<RepoFile> files, SelectSmallFiles(subject_.name, info, needs_));
    if (needs_.weights) {
      std::string index;
      if (info.Find(kSingleWeightsFile) == nullptr) {
        RETURN_IF_ERROR(DownloadFiles(info, {*info.Find(kWeightsIndexFile)}, nullptr));
        ASSIGN_OR_RETURN(index, ReadModelFile(cache_.SnapshotFolder(info.commit), kWeightsIndexFile,
                                              kMaxIndexBytes));
      }
      ASSIGN_OR_RETURN(const std::vector<RepoFile> weights,
                       SelectWeights(subject_.name, info, index));
      files.insert(files.begin(), weights.begin(), weights.end());
    }
    // Without config.json a snapshot does not count as whole, so that one comes when all is there.
    const auto config = std::find_if(files.begin(), files.end(), [](const RepoFile& file) {
      return file.name == "config.json";
    });
    std::vector<RepoFile> last = {*config};
    files.erase(config);
    RETURN_IF_ERROR(DownloadFiles(info, std::move(files), progress_));
    RETURN_IF_ERROR(DownloadFiles(info, std::move(last), nullptr));
    if (has_downloaded_) {
      spdlog::info("{} is complete in {} after {:.1f} s", subject_.name,
                   cache_.SnapshotFolder(info.commit),
                   absl::ToDoubleSeconds(MonotonicNow() - begun));
    }
    return absl::OkStatus();
  }

  // Downloads those of the files that the snapshot lacks. Without `progress` nothing is said about
  // it.
  absl::Status DownloadFiles(const RepoInfo& info, std::vector<RepoFile> files,
                             Progress* progress) {
    files.erase(std::remove_if(files.begin(), files.end(),
                               [&](const RepoFile& file) {
                                 return cache_.HasFile(info.commit, file.name, file.size);
                               }),
                files.end());
    if (files.empty()) return absl::OkStatus();
    for (RepoFile& file : files) RETURN_IF_ERROR(CompleteFacts(info.commit, &file));
    RETURN_IF_ERROR(cache_.MakeFolders());
    RETURN_IF_ERROR(CheckDisk(files));
    int64_t num_bytes = 0;
    for (const RepoFile& file : files) num_bytes += file.size;
    if (files.size() > 1 || num_bytes > kWorthALine) {
      has_downloaded_ = true;
      spdlog::info("downloading {} ({}, commit {}) from {} to {}: {} file{}, {}", subject_.name,
                   subject_.revision, info.commit.substr(0, 8), options_.endpoint,
                   options_.cache_folder, files.size(), files.size() == 1 ? "" : "s",
                   Gigabytes(num_bytes));
    }
    ProgressStage stage(progress, absl::StrCat("downloading ", subject_.name), num_bytes,
                        ProgressUnit::kBytes);
    return Downloader(options_, subject_, cache_, info.commit, &stage).Run(files);
  }

  // Asks for size and etag where the list of files lacks them, as mirrors' lists do.
  absl::Status CompleteFacts(const std::string& commit, RepoFile* file) {
    if (file->size >= 0 && !file->etag.empty()) return absl::OkStatus();
    const std::string begin = options_.endpoint.substr(0, options_.endpoint.find('/', 8));
    HubRequest request = {
        absl::StrCat(options_.endpoint, "/", subject_.name, "/resolve/", commit, "/", file->name)};
    request.head = true;
    request.follow_redirects = false;  // elsewhere, the etag may be that of another system
    request.stall_timeout = options_.answer_timeout;
    request.total_timeout = kMaxAnswerTime;
    HubResponse response;
    for (int i = 0; i < kMaxLocalRedirects; ++i) {
      response = PerformWithRetries(request, /*may_retry=*/true);
      const std::string location = response.Header("location");
      if (response.status < 300 || response.status >= 400 ||
          !response.Header("x-linked-etag").empty() || !absl::StartsWith(location, "/")) {
        break;
      }
      request.url = absl::StrCat(begin, location);
    }
    if (!response.error.empty() || response.status == 0 || response.status >= 400) {
      return ExplainResponse(response, subject_, options_);
    }
    const std::string linked = response.Header("x-linked-etag");
    const std::string size = response.Header(linked.empty() ? "content-length" : "x-linked-size");
    file->etag = NormalizeEtag(linked.empty() ? response.Header("etag") : linked);
    if (file->etag.empty() || !absl::SimpleAtoi(size, &file->size) || file->size < 0) {
      return absl::UnavailableError(
          absl::StrCat(options_.endpoint, " does not say which version of ", file->name, " of ",
                       subject_.name, " it has (ETag) or how large it is: is HF_ENDPOINT a hub?"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckDisk(const std::vector<RepoFile>& files) const {
    int64_t needed = 0;
    for (const RepoFile& file : files) {
      struct stat info;
      if (stat(cache_.BlobPath(file.etag).c_str(), &info) == 0 && info.st_size == file.size)
        continue;
      needed += file.size;
      if (stat(cache_.IncompletePath(file.etag).c_str(), &info) == 0) {
        needed -= std::min<int64_t>(file.size, info.st_blocks * 512);
      }
    }
    const std::optional<int64_t> free = cache_.FreeBytes();
    if (needed == 0 || !free || *free >= needed + kReservedBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        subject_.name, " takes ", Gigabytes(needed), " on disk, and ", options_.cache_folder,
        " has ", Gigabytes(*free),
        " free: free some space, or set HF_HOME or pass --download-dir with a folder on "
        "a larger disk; nothing was downloaded"));
  }

  const HubSubject& subject_;
  const ModelNeeds needs_;
  const HubOptions& options_;
  Progress* const progress_;
  const HubCache cache_;
  HttpClient client_;
  bool revision_unknown_ = false;
  bool has_downloaded_ = false;
  bool said_retrying_ = false;
};

}  // namespace

absl::StatusOr<std::string> FetchHubModel(const HubSubject& subject, const ModelNeeds& needs,
                                          const HubOptions& options, Progress* progress) {
  return Fetch(subject, needs, options, progress).Run();
}

}  // namespace quire
