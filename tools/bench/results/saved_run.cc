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
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

absl::Status BadFile(const std::string& path, const std::string& what) {
  return WithExitCode(kNoInput, absl::InvalidArgumentError(absl::StrCat(path, ": ", what)));
}

bool IsFinite(const Json& value) { return value.is_number() && std::isfinite(value.get<double>()); }

// Whether code that walks through the text would need too deep a stack.
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

// The lists that --save-detailed adds, each as long as the others; null where there is none.
struct Columns {
  const Json *ttfts, *itls, *latencies, *start_times, *queue_times, *input_lens, *output_lens,
      *errors, *outcomes;
};

// An error where one of them is none.
absl::StatusOr<Columns> FindColumns(const std::string& path, const Json& json) {
  const size_t size = json["ttfts"].size();
  for (const char* key : kDetailKeys) {
    if (json.contains(key) && (!json[key].is_array() || json[key].size() != size)) {
      return BadFile(
          path, absl::StrCat("\"", key, "\" is no list of ", size, " values, as \"ttfts\" is"));
    }
  }
  const auto find = [&](const char* key) { return json.contains(key) ? &json[key] : nullptr; };
  return Columns{find("ttfts"),       find("itls"),        find("latencies"),
                 find("start_times"), find("queue_times"), find("input_lens"),
                 find("output_lens"), find("errors"),      find("outcomes")};
}

double NumberOf(const Json* column, size_t i, double missing) {
  return column != nullptr && IsFinite((*column)[i]) ? (*column)[i].get<double>() : missing;
}

std::string TextOf(const Json* column, size_t i) {
  return column != nullptr && (*column)[i].is_string() ? (*column)[i].get<std::string>() : "";
}

std::vector<float> MsOf(const Json* column, size_t i) {
  std::vector<float> numbers;
  if (column == nullptr || !(*column)[i].is_array()) return numbers;
  for (const Json& value : (*column)[i]) {
    if (IsFinite(value)) numbers.push_back(static_cast<float>(1000 * value.get<double>()));
  }
  return numbers;
}

// `from_due`: the run's latencies count from when a request was due.
SavedRequest MakeRequest(const Columns& columns, size_t i, bool from_due) {
  SavedRequest request;
  const double ttft = NumberOf(columns.ttfts, i, 0);
  request.itl_ms = MsOf(columns.itls, i);
  double decode_ms = 0;
  for (const float gap_ms : request.itl_ms) decode_ms += gap_ms;
  const double latency = NumberOf(columns.latencies, i, ttft + decode_ms / 1000);
  request.queue_ms = 1000 * NumberOf(columns.queue_times, i, 0);
  const double waited_ms = from_due ? request.queue_ms : 0;
  request.start = NumberOf(columns.start_times, i, 0);
  request.first_token = request.start + ttft;
  request.end = request.start + latency;
  request.ttft_ms = 1000 * ttft + waited_ms;
  request.input_tokens = NumberOf(columns.input_lens, i, 0);
  request.output_tokens = NumberOf(columns.output_lens, i, 0);
  request.got_tokens = ttft > 0;
  const bool completed = columns.outcomes != nullptr
                             ? TextOf(columns.outcomes, i) == "completed"
                             : request.got_tokens && TextOf(columns.errors, i).empty();
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

std::string KindOf(const Json& json) {
  const std::string command = TextAt(json, "command");
  if (json.contains("points")) return "sweep";
  for (const char* kind : {"sweep", "startup", "kernels", "timeline", "quality"}) {
    if (command == kind) return kind;
  }
  return "run";
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
  ASSIGN_OR_RETURN(const Columns columns, FindColumns(path, json));
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
  for (const char* key : kDetailKeys) json.erase(key);
  run.document = std::make_shared<const Json>(std::move(json));
  return run;
}

absl::StatusOr<std::vector<SavedRun>> ReadSavedRuns(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<Json> documents, ReadJsonFile(path));
  std::vector<SavedRun> runs;
  for (Json& json : documents) {
    if (const std::string kind = KindOf(json); kind != "run") {
      return BadFile(path, absl::StrCat("this is a result of ", kind,
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
