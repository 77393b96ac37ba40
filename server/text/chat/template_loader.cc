#include "server/text/chat/template_loader.h"

#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "engine/json/json_reader.h"
#include "engine/json/model_file.h"
#include "engine/json/small_file.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/chat/jinja/values/error.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using jinja::Error;
using Json = nlohmann::json;

// tokenizer_config.json lists added tokens too, which makes it the larger file.
constexpr int64_t kMaxConfigBytes = int64_t{64} << 20;

struct Source {
  std::string text;
  std::string origin;  // The file, for messages.
};
using Sources = std::map<std::string, Source>;  // By the template's name.

// Adds the template of a file, if there is one.
absl::Status AddFile(const fs::path& model_folder, const fs::path& file, const std::string& name,
                     Sources* sources) {
  absl::StatusOr<std::string> text =
      ReadModelFile(model_folder.string(), file.string(), ChatTemplate::kMaxSourceBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  sources->insert_or_assign(name, Source{*std::move(text), (model_folder / file).string()});
  return absl::OkStatus();
}

absl::Status AddTemplateFiles(const fs::path& model_folder, Sources* sources) {
  const fs::path more = "additional_chat_templates";
  const absl::StatusOr<std::string> real = RealModelPath(model_folder.string(), more.string());
  if (!real.ok() && !absl::IsNotFound(real.status())) return real.status();
  std::error_code error;
  for (fs::directory_iterator entry(real.value_or(""), error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path name = entry->path().filename();
    if (name.extension() != ".jinja") continue;
    RETURN_IF_ERROR(AddFile(model_folder, more / name, name.stem().string(), sources));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Error((model_folder / more).string(), ": ", error.message());
  }
  return AddFile(model_folder, "chat_template.jinja", "default", sources);
}

absl::Status AddFromConfig(const fs::path& model_folder, Sources* sources) {
  const fs::path path = model_folder / "tokenizer_config.json";
  const absl::StatusOr<std::string> content =
      ReadModelFile(model_folder.string(), "tokenizer_config.json", kMaxConfigBytes);
  if (absl::IsNotFound(content.status())) return absl::OkStatus();
  RETURN_IF_ERROR(content.status());
  ASSIGN_OR_RETURN(const Json config, ParseModelJson(*content, path.string()));
  const auto malformed = [&path](std::string_view problem) {
    return Error(path.string(), ": ", problem);
  };
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return absl::OkStatus();
  if (found->is_string()) {
    sources->emplace("default", Source{found->get<std::string>(), path.string()});
    return absl::OkStatus();
  }
  if (!found->is_array()) return malformed("\"chat_template\" must be a string or a list");
  for (const Json& entry : *found) {
    const bool is_named = entry.is_object() && entry.contains("name") &&
                          entry["name"].is_string() && entry.contains("template") &&
                          entry["template"].is_string();
    if (!is_named)
      return malformed("each entry of \"chat_template\" needs a \"name\" and a \"template\"");
    sources->emplace(entry["name"].get<std::string>(),
                     Source{entry["template"].get<std::string>(), path.string()});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ChatTemplate>> CompileNamed(const Sources& sources,
                                                         const std::string& name) {
  const auto found = sources.find(name);
  if (found == sources.end()) return std::nullopt;
  absl::StatusOr<ChatTemplate> compiled = ChatTemplate::Compile(found->second.text);
  if (compiled.ok()) return *std::move(compiled);
  return Prefixed(compiled.status(), found->second.origin, ": ");
}

}  // namespace

ChatTemplateSet::ChatTemplateSet(std::optional<ChatTemplate> without_tools,
                                 std::optional<ChatTemplate> with_tools) {
  if (without_tools) default_.emplace(*std::move(without_tools));
  if (with_tools) tool_use_.emplace(*std::move(with_tools));
}

absl::StatusOr<std::vector<PromptSegment>> ChatTemplateSet::Render(RenderInput input) const {
  const bool has_tools = input.tools.list() != nullptr && !input.tools.list()->items.empty();
  const std::optional<Known>& known = has_tools && tool_use_ ? tool_use_ : default_;
  if (!known) {
    return absl::FailedPreconditionError(
        "the model has a chat template for requests with tools only: send tools, or add "
        "chat_template.jinja");
  }
  ASSIGN_OR_RETURN(input.messages, known->forms.Adapt(input.messages, input.fuel));
  return known->chat_template.Render(input);
}

std::string ChatTemplateSet::Sources() const {
  std::string sources;
  for (const std::optional<Known>* one : {&default_, &tool_use_}) {
    if (one->has_value()) sources += (*one)->chat_template.source() + '\n';
  }
  return sources;
}

absl::StatusOr<ChatTemplateSet> LoadChatTemplate(const fs::path& model_folder) {
  Sources sources;
  RETURN_IF_ERROR(AddTemplateFiles(model_folder, &sources));
  if (sources.empty()) {
    RETURN_IF_ERROR(AddFromConfig(model_folder, &sources));
  }
  ASSIGN_OR_RETURN(std::optional<ChatTemplate> without_tools, CompileNamed(sources, "default"));
  ASSIGN_OR_RETURN(std::optional<ChatTemplate> with_tools, CompileNamed(sources, "tool_use"));
  if (!without_tools && !with_tools) {
    return absl::NotFoundError(
        Concat(model_folder.string(),
               ": the model has no chat template: add chat_template.jinja to the folder, or send a "
               "prompt instead of messages"));
  }
  return ChatTemplateSet(std::move(without_tools), std::move(with_tools));
}

absl::StatusOr<ChatTemplateSet> LoadChatTemplateFile(const std::string& path) {
  const auto refused = [](const auto&... pieces) {
    return absl::OutOfRangeError(Concat("--chat-template: ", pieces...));
  };
  const auto has_jinja = [](const std::string& text) {
    return text.find("{{") != std::string::npos || text.find("{%") != std::string::npos;
  };
  if (has_jinja(path)) {
    return refused("a template itself was given; give the path of a file that contains it");
  }
  const absl::StatusOr<std::string> source = ReadSmallFile(path, ChatTemplate::kMaxSourceBytes);
  if (!source.ok()) {
    return refused(source.status().message(), "; name a file that contains a template");
  }
  absl::StatusOr<ChatTemplate> compiled = ChatTemplate::Compile(*source);
  if (!compiled.ok()) return refused(path, ": ", compiled.status().message());
  // Every text is a template that renders itself: only what uses the messages was meant as one.
  if (!has_jinja(*source) || source->find("messages") == std::string::npos) {
    return refused("\"", path, "\" is not a chat template: it does not use \"messages\"");
  }
  return ChatTemplateSet(*std::move(compiled), /*with_tools=*/std::nullopt);
}

}  // namespace quire
