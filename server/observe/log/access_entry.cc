#include "server/observe/log/access_entry.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

constexpr size_t kMaxShownBytes = 160;  // a path may be as long as a header

bool IsWord(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) ||
           absl::string_view("._-:/@+").find(c) != absl::string_view::npos;
  });
}

// Gives every field that there is to `fields`, in order.
template <typename Fields>
void ForEachField(const AccessEntry& entry, Fields& fields) {
  if (!entry.request_id.empty()) fields.Text("request_id", entry.request_id);
  if (!entry.trace_id.empty()) fields.Text("trace_id", entry.trace_id);
  fields.Text("principal", entry.principal);
  fields.Text("peer", entry.peer);
  fields.Text("method", entry.method);
  if (!entry.model.empty()) fields.Text("model", entry.model);
  fields.Text("status", absl::StatusCodeToString(entry.status));
  fields.Count("prompt_tokens", entry.prompt_tokens);
  fields.Count("cached_tokens", entry.cached_tokens);
  fields.Count("generated_tokens", entry.generated_tokens);
  if (!entry.finish_reason.empty()) fields.Text("finish_reason", entry.finish_reason);
  fields.Time("queue_ms", entry.queue_ms);
  fields.Time("prefill_ms", entry.prefill_ms);
  fields.Time("decode_ms", entry.decode_ms);
  fields.Time("total_ms", entry.total_ms);
  fields.Count("received_bytes", entry.received_bytes);
  fields.Count("sent_bytes", entry.sent_bytes);
}

class TextFields {
 public:
  void Text(absl::string_view name, absl::string_view value) {
    value = value.substr(0, kMaxShownBytes);
    absl::StrAppend(&line_, " ", name, "=", IsWord(value) ? std::string(value) : JsonString(value));
  }
  void Count(absl::string_view name, std::optional<int64_t> value) {
    if (value.has_value()) absl::StrAppend(&line_, " ", name, "=", *value);
  }
  void Time(absl::string_view name, std::optional<double> value) {
    if (value.has_value()) absl::StrAppendFormat(&line_, " %s=%.2f", name, *value);
  }
  std::string Take() { return std::move(line_); }

 private:
  std::string line_ = "access";
};

class JsonFields {
 public:
  void Text(absl::string_view name, absl::string_view value) {
    Add(name, JsonString(value.substr(0, kMaxShownBytes)));
  }
  void Count(absl::string_view name, std::optional<int64_t> value) {
    if (value.has_value()) Add(name, absl::StrCat(*value));
  }
  void Time(absl::string_view name, std::optional<double> value) {
    if (value.has_value()) Add(name, absl::StrFormat("%.2f", *value));
  }
  std::string Take() { return std::move(members_); }

 private:
  void Add(absl::string_view name, absl::string_view value) {
    absl::StrAppend(&members_, members_.empty() ? "" : ",", "\"", name, "\":", value);
  }

  std::string members_;
};

}  // namespace

std::string AccessText(const AccessEntry& entry) {
  TextFields fields;
  ForEachField(entry, fields);
  return fields.Take();
}

std::string AccessJson(const AccessEntry& entry) {
  JsonFields fields;
  ForEachField(entry, fields);
  return fields.Take();
}

}  // namespace quire
