#include "tools/bench/serve/request_file.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/json_values.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxTokens = int64_t{1} << 30;  // prompts of 4 GiB
constexpr int64_t kUsualOutput = 256;             // vLLM's

// A row of a file, before its prompt is made.
struct Row {
  std::optional<double> seconds = {};  // from any beginning
  double delay_seconds = 0;
  std::string session = {};  // empty: none
  int64_t input_len = 0;     // 0: the prompt is there
  std::vector<int64_t> hash_ids = {};
  WorkItem item = {};
};

// The sentence that says what is wrong with a line; empty: nothing.
using Problem = std::string;

Problem ReadLength(const Json& json, std::initializer_list<const char*> keys, int64_t* length) {
  for (const char* key : keys) {
    if (!json.contains(key)) continue;
    *length = IntegerAt(json, key).value_or(0);
    const bool is_right = *length >= 1 && *length <= kMaxLength;
    return is_right ? "" : absl::StrCat(key, " is no number from 1 to ", kMaxLength);
  }
  return "";
}

Problem ReadPrompt(const Json& prompt, WorkItem* item) {
  constexpr char kWrong[] = R"(expected {"prompt": "TEXT"} or a list of token ids)";
  if (prompt.is_string()) {
    item->text = prompt.get<std::string>();
    return item->text.empty() ? kWrong : "";
  }
  if (!prompt.is_array() || prompt.empty()) return kWrong;
  for (const Json& id : prompt) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) return kWrong;
    item->prompt.push_back(id.get<int32_t>());
  }
  return "";
}

Problem ReadMessages(const Json& messages, WorkItem* item) {
  constexpr char kWrong[] = R"(expected {"messages": [{"role": ROLE, "content": TEXT}, ...]})";
  if (!messages.is_array() || messages.empty()) return kWrong;
  for (const Json& one : messages) {
    const auto role = StringAt(one, "role"), content = StringAt(one, "content");
    if (!role.has_value() || !content.has_value()) return kWrong;
    item->messages.push_back({.role = *role, .content = *content});
  }
  return "";
}

Problem ReadHashIds(const Json& ids, const RequestFileOptions& options, Row* row) {
  for (const Json& id : ids) {
    if (!id.is_number_integer()) return "hash_ids is no list of numbers";
    row->hash_ids.push_back(id.get<int64_t>());
  }
  const auto most = static_cast<int64_t>(row->hash_ids.size()) * options.block_size;
  if (row->input_len == 0) row->input_len = most;
  return "";
}

Problem ReadJsonRow(const std::string& line, const RequestFileOptions& options, Row* row) {
  const Json json = ParseJson<Json>(line);
  if (!json.is_object()) return R"(expected a JSON object, as {"prompt": "TEXT"})";
  if (const auto time = NumberAt(json, "timestamp"))
    row->seconds = *time * options.seconds_per_unit;
  row->delay_seconds = NumberAt(json, "delay").value_or(0) / 1000;
  if (!(row->delay_seconds >= 0)) return "delay is less than 0";
  if (const auto session = json.find("session_id"); session != json.end()) {
    row->session = session->dump();
  }
  row->item.output_len = kUsualOutput;
  Problem problem = ReadLength(json, {"output_tokens", "output_length"}, &row->item.output_len);
  if (!problem.empty()) return problem;
  if (const auto prompt = json.find("prompt"); prompt != json.end()) {
    return ReadPrompt(*prompt, &row->item);
  }
  if (const auto messages = json.find("messages"); messages != json.end()) {
    return ReadMessages(*messages, &row->item);
  }
  problem = ReadLength(json, {"input_length"}, &row->input_len);
  if (!problem.empty()) return problem;
  if (const auto ids = json.find("hash_ids"); ids != json.end() && ids->is_array()) {
    problem = ReadHashIds(*ids, options, row);
  }
  if (problem.empty() && row->input_len == 0) {
    return R"(expected {"prompt": "TEXT"}, "messages", "input_length" or "hash_ids")";
  }
  return problem;
}

// Which columns of a CSV file have what.
struct Columns {
  size_t time = 0, input = 0, output = 0, count = 0;

  static std::optional<Columns> Of(absl::string_view header) {
    const std::vector<std::string> names =
        absl::StrSplit(absl::AsciiStrToLower(absl::StripAsciiWhitespace(header)), ',');
    Columns columns = {.count = names.size()};
    int found = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      size_t* column =
          names[i] == "timestamp"                                          ? &columns.time
          : names[i] == "contexttokens" || names[i] == "request tokens"    ? &columns.input
          : names[i] == "generatedtokens" || names[i] == "response tokens" ? &columns.output
                                                                           : nullptr;
      if (column == nullptr) continue;
      *column = i;
      ++found;
    }
    return found == 3 ? std::optional(columns) : std::nullopt;
  }
};

// BurstGPT counts seconds; Azure has dates, in UTC.
std::optional<double> ReadTime(absl::string_view text) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) return seconds;
  absl::Time time;
  for (const char* format : {"%Y-%m-%d %H:%M:%E*S%Ez", "%Y-%m-%d %H:%M:%E*S"}) {
    if (absl::ParseTime(format, text, &time, nullptr)) {
      return absl::ToDoubleSeconds(time - absl::UnixEpoch());
    }
  }
  return std::nullopt;
}

Problem ReadCsvRow(const std::string& line, const Columns& columns, Row* row) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::StripAsciiWhitespace(line), ',');
  if (fields.size() != columns.count) {
    return absl::StrCat("expected ", columns.count, " fields, as the first line has");
  }
  row->seconds = ReadTime(fields[columns.time]);
  if (!row->seconds.has_value()) return "the timestamp is neither seconds nor a date";
  if (!absl::SimpleAtoi(fields[columns.input], &row->input_len) ||
      !absl::SimpleAtoi(fields[columns.output], &row->item.output_len) ||
      std::max(row->input_len, row->item.output_len) > kMaxLength) {
    return absl::StrCat("its numbers of tokens are no numbers up to ", kMaxLength);
  }
  return "";
}

class RequestFile {
 public:
  explicit RequestFile(const RequestFileOptions& options) : options_(options) {}

  absl::StatusOr<std::vector<Conversation>> Read() {
    RETURN_IF_ERROR(ReadLines("--dataset-path", options_.path,
                              [this](const std::string& line, int64_t) { return TakeLine(line); }));
    if (rows_.empty()) {
      return UsageError(absl::StrCat("--dataset-path: ", options_.path, " has no requests"));
    }
    return Finish();
  }

 private:
  Problem TakeLine(const std::string& line) {
    if (rows_.empty() && !columns_.has_value()) {
      columns_ = Columns::Of(line);
      if (columns_.has_value()) return "";
    }
    Row row;
    Problem problem = columns_.has_value() ? ReadCsvRow(line, *columns_, &row)
                                           : ReadJsonRow(line, options_, &row);
    if (problem.empty()) problem = Check(row);
    if (!problem.empty()) return problem;
    // Without tokens, a row of BurstGPT's is a request that failed.
    const bool has_tokens = row.item.output_len > 0 && (row.input_len > 0 || !columns_.has_value());
    if (has_tokens) Take(std::move(row));
    return "";
  }

  Problem Check(const Row& row) {
    num_tokens_ += row.input_len;
    if (num_tokens_ > kMaxTokens) {
      return absl::StrCat("the prompts have more than ", kMaxTokens, " tokens together");
    }
    const auto session = sessions_.find(row.session);
    if (row.session.empty() || session == sessions_.end()) {
      return options_.is_timed && !row.seconds.has_value() ? "has no \"timestamp\"" : "";
    }
    const Row& first = rows_[session->second].front();
    const auto kind = [](const Row& one) {
      return !one.item.messages.empty() ? 0 : !one.item.text.empty() ? 1 : 2;
    };
    return kind(first) == kind(row) ? "" : "its prompt is of another kind than its session's first";
  }

  void Take(Row row) {
    if (!row.session.empty()) {
      const auto [session, is_new] = sessions_.emplace(row.session, rows_.size());
      if (!is_new) {
        rows_[session->second].push_back(std::move(row));
        return;
      }
    }
    rows_.emplace_back();
    rows_.back().push_back(std::move(row));
  }

  absl::StatusOr<std::vector<Conversation>> Finish() {
    if (options_.is_timed) {
      std::stable_sort(rows_.begin(), rows_.end(), [](const auto& one, const auto& other) {
        return *one.front().seconds < *other.front().seconds;
      });
    }
    const double begin = rows_.front().front().seconds.value_or(0);
    std::mt19937_64 random(options_.seed);
    std::vector<Conversation> conversations;
    for (std::vector<Row>& rows : rows_) {
      Conversation conversation;
      for (Row& row : rows) {
        WorkItem& item = row.item;
        if (row.input_len > 0) RETURN_IF_ERROR(Draw(row, random));
        if (options_.output_len > 0) item.output_len = options_.output_len;
        item.continues = !conversation.empty();
        const double seconds = item.continues ? row.delay_seconds : row.seconds.value_or(0) - begin;
        item.due_seconds = seconds / options_.speedup;
        conversation.push_back(std::move(item));
      }
      conversations.push_back(std::move(conversation));
    }
    return conversations;
  }

  // Equal hash_ids are equal blocks; what they do not cover is like no other.
  absl::Status Draw(Row& row, std::mt19937_64& random) const {
    const auto vocab_size = static_cast<uint64_t>(options_.vocab_size);
    std::vector<int32_t> ids;
    ids.reserve(row.input_len);
    const auto draw = [&](std::mt19937_64& source, int64_t count) {
      for (int64_t i = 0; i < count && std::ssize(ids) < row.input_len; ++i) {
        ids.push_back(static_cast<int32_t>(source() % vocab_size));
      }
    };
    for (const int64_t hash : row.hash_ids) {
      std::seed_seq seed = {options_.seed, static_cast<uint64_t>(hash),
                            static_cast<uint64_t>(hash) >> 32};
      std::mt19937_64 block(seed);
      draw(block, options_.block_size);
    }
    draw(random, row.input_len);
    if (options_.words == nullptr) {
      row.item.prompt = std::move(ids);
    } else {
      ASSIGN_OR_RETURN(row.item.text, options_.words->Text(ids));
    }
    return absl::OkStatus();
  }

  const RequestFileOptions& options_;
  std::optional<Columns> columns_;                    // of a CSV file
  std::vector<std::vector<Row>> rows_;                // of each conversation
  std::unordered_map<std::string, size_t> sessions_;  // to rows_
  int64_t num_tokens_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<Conversation>> ReadRequestFile(const RequestFileOptions& options) {
  return RequestFile(options).Read();
}

std::string RequestFileText(const std::vector<WorkItem>& items, const std::vector<double>& due) {
  std::string text;
  int64_t session = -1;
  for (size_t i = 0; i < items.size(); ++i) {
    const WorkItem& item = items[i];
    Json json;
    if (!item.continues) {
      ++session;
      json["timestamp"] = 1000 * due[i];
    }
    const bool goes_on = i + 1 < items.size() && items[i + 1].continues;
    if (item.continues || goes_on) json["session_id"] = session;
    if (item.continues) json["delay"] = 1000 * due[i];
    if (!item.messages.empty()) {
      for (const auto& [role, content] : item.messages) {
        json["messages"].push_back({{"role", role}, {"content", content}});
      }
    } else if (item.prompt.empty()) {
      json["prompt"] = item.text;
    } else {
      json["prompt"] = item.prompt;
    }
    json["output_tokens"] = item.output_len;
    absl::StrAppend(&text, LineOf(json), "\n");
  }
  return text;
}

}  // namespace quire::bench
