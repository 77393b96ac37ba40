// How a JSON value is written as a text, for tests: layouts of white space, orders of members.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "server/text/json_tree.h"
#include "tests/server/grammar/regex/matches.h"

namespace quire {

struct JsonLayout {
  std::string comma = ", ", colon = ": ";
  int indent = -1;  // spaces a level, each value on a line of its own; negative: all in one line
};

inline std::string WriteText(std::string_view text) {
  return absl::StrCat("\"", JsonSpelling(text), "\"");
}

// With the members in the order in which they stand. The default is Python's json.dumps with
// ensure_ascii=False.
inline std::string WriteJson(const JsonTree& tree, const JsonLayout& layout = {}, int depth = 0) {
  if (tree.is_text()) return WriteText(tree.text);
  const bool is_object = tree.is_object();
  if (!is_object && !tree.is_list() && tree.kind != JsonTree::Kind::kIds) return ToJson(tree);
  const auto line = [&](int level) {
    if (layout.indent < 0) return std::string();
    return absl::StrCat("\n", std::string(static_cast<size_t>(layout.indent * level), ' '));
  };
  std::string text = is_object ? "{" : "[";
  const size_t size = tree.kind == JsonTree::Kind::kIds ? tree.ids.size() : tree.items.size();
  for (size_t i = 0; i < size; ++i) {
    absl::StrAppend(&text, i > 0 ? layout.comma : "", line(depth + 1));
    if (tree.kind == JsonTree::Kind::kIds) {
      absl::StrAppend(&text, tree.ids[i]);
      continue;
    }
    if (is_object) absl::StrAppend(&text, WriteText(tree.keys[i]), layout.colon);
    absl::StrAppend(&text, WriteJson(tree.items[i], layout, depth + 1));
  }
  return absl::StrCat(text, size > 0 ? line(depth) : "", is_object ? "}" : "]");
}

}  // namespace quire
