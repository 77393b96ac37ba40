#include "tools/bench/results/saved_run.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

absl::Status BadFile(const std::string& path, const std::string& what) {
  return WithExitCode(kNoInput, absl::InvalidArgumentError(absl::StrCat(path, ": ", what)));
}

// Of those that are no runs.
constexpr std::pair<const char*, ResultKind> kCommands[] = {{"sweep", ResultKind::kSweep},
                                                            {"startup", ResultKind::kStartup},
                                                            {"kernels", ResultKind::kKernels},
                                                            {"timeline", ResultKind::kTimeline},
                                                            {"quality", ResultKind::kQuality}};

bool IsFinite(const Json& value) { return value.is_number() && std::isfinite(value.get<double>()); }

// Who walks through what is deeper would need as much stack.
bool NestsTooDeep(const std::string& text) {
  constexpr int64_t kMostDeep = 64;
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMostDeep) return true;
  }
  return false;
}

// One of the lists that --save-detailed adds, each as long as the others; none: all are `missing`.
class Column {
 public:
  static absl::StatusOr<Column> Find(const std::string& path, const Json& json,
                                     const std::string& key, size_t size) {
    if (!json.contains(key)) return Column(nullptr);
    const Json& list = json[key];
    if (!list.is_array() || list.size() != size) {
      return BadFile(
          path, absl::StrCat("\"", key, "\" is no list of ", size, " values, as \"ttfts\" is"));
    }
    return Column(&list);
  }

  bool exists() const { return list_ != nullptr; }
  double Number(size_t i, double missing) const {
    return exists() && IsFinite((*list_)[i]) ? (*list_)[i].get<double>() : missing;
  }
  std::string Text(size_t i) const {
    return exists() && (*list_)[i].is_string() ? (*list_)[i].get<std::string>() : "";
  }
  std::vector<float> NumbersMs(size_t i) const {
    std::vector<float> numbers;
    if (!exists() || !(*list_)[i].is_array()) return numbers;
    for (const Json& value : (*list_)[i]) {
      if (IsFinite(value)) numbers.push_back(static_cast<float>(1000 * value.get<double>()));
    }
    return numbers;
  }

 private:
  explicit Column(const Json* list) : list_(list) {}
  const Json* list_;
};

struct Columns {
  Column ttfts, itls, latencies, start_times, queue_times, input_lens, output_lens, errors,
      outcomes;
};

absl::StatusOr<Columns> FindColumns(const std::string& path, const Json& json, size_t size) {
  const auto find = [&](const char* key) { return Column::Find(path, json, key, size); };
  ASSIGN_OR_RETURN(const Column ttfts, find("ttfts"));
  ASSIGN_OR_RETURN(const Column itls, find("itls"));
  ASSIGN_OR_RETURN(const Column latencies, find("latencies"));
  ASSIGN_OR_RETURN(const Column start_times, find("start_times"));
  ASSIGN_OR_RETURN(const Column queue_times, find("queue_times"));
  ASSIGN_OR_RETURN(const Column input_lens, find("input_lens"));
  ASSIGN_OR_RETURN(const Column output_lens, find("output_lens"));
  ASSIGN_OR_RETURN(const Column errors, find("errors"));
  ASSIGN_OR_RETURN(const Column outcomes, find("outcomes"));
  return Columns{ttfts,      itls,        latencies, start_times, queue_times,
                 input_lens, output_lens, errors,    outcomes};
}

// `from_due`: the run's latencies count from when a request was due.
SavedRequest MakeRequest(const Columns& columns, size_t i, bool from_due) {
  SavedRequest request;
  const double ttft = columns.ttfts.Number(i, 0);
  request.itl_ms = columns.itls.NumbersMs(i);
  double decode_ms = 0;
  for (const float gap_ms : request.itl_ms) decode_ms += gap_ms;
  const double latency = columns.latencies.Number(i, ttft + decode_ms / 1000);
  request.queue_ms = 1000 * columns.queue_times.Number(i, 0);
  const double waited_ms = from_due ? request.queue_ms : 0;
  request.start = columns.start_times.Number(i, 0);
  request.first_token = request.start + ttft;
  request.end = request.start + latency;
  request.ttft_ms = 1000 * ttft + waited_ms;
  request.input_tokens = columns.input_lens.Number(i, 0);
  request.output_tokens = columns.output_lens.Number(i, 0);
  request.error = columns.errors.Text(i);
  request.got_tokens = ttft > 0;
  const bool completed = columns.outcomes.exists() ? columns.outcomes.Text(i) == "completed"
                                                   : request.got_tokens && request.error.empty();
  if (!completed) return request;
  request.e2el_ms = 1000 * latency + waited_ms;
  if (request.output_tokens > 1 && !request.itl_ms.empty())
    request.tpot_ms = decode_ms / (request.output_tokens - 1);
  return request;
}

}  // namespace

absl::StatusOr<std::vector<Json>> ReadJsonFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file.is_open() || file.bad()) {
    return BadFile(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  if (NestsTooDeep(text)) return BadFile(path, "is nested more than 64 deep: no result is");
  std::vector<Json> documents;
  Json whole = ParseJson<Json>(text);
  if (whole.is_object()) {
    documents.push_back(std::move(whole));
    return documents;
  }
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == absl::string_view::npos) continue;
    Json json = ParseJson<Json>(line);
    if (!json.is_object()) {
      return BadFile(path, documents.empty()
                               ? "is no JSON object, as quire-bench COMMAND --json writes it"
                               : absl::StrCat("line ", number, " is no JSON object"));
    }
    documents.push_back(std::move(json));
  }
  return documents;
}

ResultKind KindOf(const Json& json) {
  const std::string command = TextAt(json, "command");
  if (json.contains("points")) return ResultKind::kSweep;
  for (const auto& [name, kind] : kCommands) {
    if (command == name) return kind;
  }
  return ResultKind::kRun;
}

absl::StatusOr<SavedRun> MakeSavedRun(const std::string& path, Json json) {
  SavedRun run = {
      .path = path, .document = {}, .requests = {}, .why_no_requests = "", .goodput = {}};
  if (const Json& goodput = MemberOf(json, "goodput"); goodput.is_object()) {
    for (const auto& [metric, bound] : goodput.items()) {
      if (IsFinite(bound)) run.goodput.emplace_back(metric, bound.get<double>());
    }
  }
  if (!json.contains("ttfts")) {
    run.why_no_requests =
        absl::StrCat(path, " has no requests of its own (save it with --save-detailed)");
    run.document = std::make_shared<const Json>(std::move(json));
    return run;
  }
  if (!json["ttfts"].is_array()) return BadFile(path, "\"ttfts\" is no list");
  const size_t size = json["ttfts"].size();
  ASSIGN_OR_RETURN(const Columns columns, FindColumns(path, json, size));
  const bool from_due = TextAt(json, "latencies_from") == "due";
  run.requests.reserve(size);
  for (size_t i = 0; i < size; ++i) run.requests.push_back(MakeRequest(columns, i, from_due));
  if (size == 0) run.why_no_requests = absl::StrCat(path, " has no request in it");
  double first = INFINITY;
  for (const SavedRequest& request : run.requests) first = std::min(first, request.start);
  for (SavedRequest& request : run.requests) {
    request.start -= first;
    request.first_token -= first;
    request.end -= first;
  }
  // They are in `requests` now, and may be most of the file.
  for (const char* key : {"ttfts", "itls", "latencies", "start_times", "queue_times", "input_lens",
                          "output_lens", "generated_texts", "errors", "outcomes"}) {
    json.erase(key);
  }
  run.document = std::make_shared<const Json>(std::move(json));
  return run;
}

absl::StatusOr<std::vector<SavedRun>> ReadSavedRuns(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<Json> documents, ReadJsonFile(path));
  std::vector<SavedRun> runs;
  for (Json& json : documents) {
    const ResultKind kind = KindOf(json);
    for (const auto& [name, its_kind] : kCommands) {
      if (kind != its_kind) continue;
      return BadFile(path, absl::StrCat("this is a result of ", name,
                                        ", which has no requests to compare; quire-bench report "
                                        "shows several side by side"));
    }
    ASSIGN_OR_RETURN(SavedRun run, MakeSavedRun(path, std::move(json)));
    runs.push_back(std::move(run));
  }
  if (runs.empty()) return BadFile(path, "is empty");
  return runs;
}

}  // namespace quire::bench
