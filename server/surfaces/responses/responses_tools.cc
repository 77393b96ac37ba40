#include "server/surfaces/responses/responses_tools.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "server/text/json_text.h"
#include "spdlog/spdlog.h"

namespace quire {

namespace {

// Codex and others list these unasked: a model that has none answers without.
constexpr absl::string_view kLeftOut[] = {"web_search", "web_search_preview", "image_generation",
                                          "tool_search"};

class ToolsReader {
 public:
  explicit ToolsReader(FieldReader* fields) : fields_(*fields) {}

  void Add(const JsonTree& tool, const std::string& field) {
    const JsonTree* type = tool.Find("type");
    const std::string kind = type != nullptr ? type->text : "";
    if (std::find(std::begin(kLeftOut), std::end(kLeftOut), kind) != std::end(kLeftOut)) {
      static absl::once_flag told;
      absl::call_once(told, [&kind] {
        spdlog::info(
            "a client lists a tool of type {}, which this server has not; it and its like are left "
            "out",
            kind);
      });
      return;
    }
    if (kind == "function") {
      AddFunction(tool, field, "");
    } else if (kind == "namespace") {
      AddNamespace(tool, field);
    } else {
      fields_.Fail(field + ".type",
                   absl::StrCat("this server has tools of type function, not ",
                                kind.empty() ? "without a type" : JsonString(kind)));
    }
    absl::StrAppend(&json_, json_.empty() ? "" : ", ", ToJson(tool));
  }

  ResponsesTools Take() {
    ResponsesTools tools;
    tools.json = absl::StrCat("[", json_, "]");
    tools.namespaced = std::move(namespaced_);
    tools.chat = ReadToolUse(fields_);
    tools.chat.list = std::move(chat_);
    return tools;
  }

 private:
  void AddNamespace(const JsonTree& tool, const std::string& field) {
    const JsonTree* name = tool.Find("name");
    const JsonTree* tools = tool.Find("tools");
    if (name == nullptr || name->text.empty() || tools == nullptr || !tools->is_list()) {
      fields_.Fail(field, "has no name, or no list of tools");
      return;
    }
    for (size_t i = 0; i < tools->items.size(); ++i) {
      const std::string inner = absl::StrCat(field, ".tools[", i, "]");
      const JsonTree* type = tools->items[i].Find("type");
      if (type == nullptr || type->text != "function") {
        fields_.Fail(inner + ".type", "this server has tools of type function alone");
      } else {
        AddFunction(tools->items[i], inner, name->text);
      }
    }
  }

  // A chat has within `function` what stands here beside the type.
  void AddFunction(const JsonTree& tool, const std::string& field, const std::string& name_space) {
    JsonTree function = NewObject();
    for (size_t i = 0; i < tool.items.size(); ++i) {
      if (tool.keys[i] != "type") AddMember(&function, tool.keys[i], tool.items[i]);
    }
    const JsonTree* name = function.Find("name");
    if (name == nullptr || name->text.empty()) {
      fields_.Fail(field + ".name", "is missing");
      return;
    }
    CheckFunction(fields_, tool, field + ".", "parameters");
    if (!name_space.empty()) {
      const std::string both = absl::StrCat(name_space, "__", name->text);
      namespaced_[both] = {name_space, name->text};
      AddMember(&function, "name", TextTree(both));
    }
    chat_.items.push_back(NewTool(std::move(function)));
  }

  FieldReader& fields_;
  JsonTree chat_ = NewList();
  std::string json_;
  absl::flat_hash_map<std::string, NamespacedFunction> namespaced_;
};

}  // namespace

ResponsesTools ReadTools(FieldReader& fields) {
  ToolsReader reader(&fields);
  const JsonTree* tools = fields.Find("tools");
  if (tools != nullptr && !tools->is_list()) fields.Fail("tools", "is not a list");
  if (tools != nullptr && tools->is_list()) {
    for (size_t i = 0; i < tools->items.size(); ++i) {
      reader.Add(tools->items[i], absl::StrCat("tools[", i, "]"));
    }
  }
  return reader.Take();
}

}  // namespace quire
