#include "tools/bench/constraints/schema_sample.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/json_tree.h"
#include "tools/bench/json_values.h"

namespace quire::bench {

namespace {

constexpr size_t kMaxDepth = 500;

std::string Quoted(const std::string& text) { return LineOf(nlohmann::ordered_json(text)); }

// As Python's json.dumps with ensure_ascii=False; numbers as they stand.
std::string TextOf(const JsonTree& value) {
  if (value.is_text()) return Quoted(value.text);
  if (!value.is_object() && !value.is_list()) return ToJson(value);
  std::string text = value.is_object() ? "{" : "[";
  for (size_t i = 0; i < value.items.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "");
    if (value.is_object()) absl::StrAppend(&text, Quoted(value.keys[i]), ": ");
    absl::StrAppend(&text, TextOf(value.items[i]));
  }
  return absl::StrCat(text, value.is_object() ? "}" : "]");
}

std::vector<std::string> TextsOf(const JsonTree* list) {
  std::vector<std::string> texts;
  if (list == nullptr) return texts;
  if (list->kind == JsonTree::Kind::kIds) {
    for (const uint32_t id : list->ids) texts.push_back(absl::StrCat(id));
  }
  for (const JsonTree& value : list->items) texts.push_back(TextOf(value));
  return texts;
}

}  // namespace

absl::StatusOr<std::vector<SampledSchema>> ReadSchemaSample(const std::string& flag,
                                                            const std::string& path,
                                                            int64_t limit) {
  std::vector<SampledSchema> sample;
  const auto take = [&](const std::string& line, int64_t number) -> std::string {
    if (static_cast<int64_t>(sample.size()) >= limit) return "";
    size_t num_values_left = size_t{1} << 22;
    const absl::StatusOr<JsonTree> row = ParseJsonTree(line, &num_values_left, kMaxDepth);
    if (!row.ok()) return std::string(row.status().message());
    const JsonTree* const schema = row->Find("schema");
    if (schema == nullptr) return "there is no \"schema\"";
    const JsonTree* const id = row->Find("id");
    sample.push_back({id != nullptr && id->is_text() ? id->text : absl::StrCat("line ", number),
                      TextOf(*schema), TextsOf(row->Find("valid")), TextsOf(row->Find("invalid"))});
    return "";
  };
  RETURN_IF_ERROR(ReadLines(flag, path, take));
  return sample;
}

}  // namespace quire::bench
