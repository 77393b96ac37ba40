#include "server/chat/template_loader.h"

#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/chat/jinja/values/error.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using jinja::Error;
using Json = nlohmann::json;

// tokenizer_config.json lists added tokens too, which makes it the larger file.
constexpr size_t kMaxConfigBytes = size_t{64} << 20;

struct Source {
  std::string text;
  std::string origin;  // The file, for messages.
};
using Sources = std::map<std::string, Source>;  // By the template's name.

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

absl::StatusOr<std::string> ReadFile(const fs::path& path, size_t max_bytes) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return Error(path.string(), ": cannot be read");
  if (size > max_bytes) return Error(path.string(), ": larger than ", max_bytes, " bytes");
  std::string content(size, '\0');
  file.read(content.data(), static_cast<std::streamsize>(size));
  if (static_cast<uintmax_t>(file.gcount()) != size)
    return Error(path.string(), ": cannot be read");
  return content;
}

absl::Status AddFile(const fs::path& path, const std::string& name, Sources* sources) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, ChatTemplate::kMaxSourceBytes));
  sources->insert_or_assign(name, Source{std::move(text), path.string()});
  return absl::OkStatus();
}

absl::Status AddTemplateFiles(const fs::path& model_folder, Sources* sources) {
  std::error_code error;
  for (fs::directory_iterator entry(model_folder / "additional_chat_templates", error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".jinja") continue;
    RETURN_IF_ERROR(AddFile(entry->path(), entry->path().stem().string(), sources));
  }
  const fs::path file = model_folder / "chat_template.jinja";
  return Exists(file) ? AddFile(file, "default", sources) : absl::OkStatus();
}

absl::Status AddFromConfig(const fs::path& path, Sources* sources) {
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxConfigBytes));
  const Json config = Json::parse(content, nullptr, /*allow_exceptions=*/false);
  const auto malformed = [&path](std::string_view problem) {
    return Error(path.string(), ": ", problem);
  };
  if (!config.is_object()) return malformed("not a JSON object");
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
                                 std::optional<ChatTemplate> with_tools)
    : default_(std::move(without_tools)), tool_use_(std::move(with_tools)) {}

absl::StatusOr<ChatTemplate> ChatTemplateSet::Select(bool has_tools) const {
  if (has_tools && tool_use_) return *tool_use_;
  if (default_) return *default_;
  return absl::FailedPreconditionError(
      "the model has a chat template for requests with tools only: send tools, or add "
      "chat_template.jinja");
}

absl::StatusOr<ChatTemplateSet> LoadChatTemplate(const fs::path& model_folder) {
  Sources sources;
  RETURN_IF_ERROR(AddTemplateFiles(model_folder, &sources));
  const fs::path config = model_folder / "tokenizer_config.json";
  if (sources.empty() && Exists(config)) RETURN_IF_ERROR(AddFromConfig(config, &sources));
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
  std::error_code error;
  if (fs::is_directory(path, error)) return refused("\"", path, "\" is a folder; name a file");
  if (!fs::exists(path, error)) return refused("there is no file \"", path, "\"");
  const absl::StatusOr<std::string> source = ReadFile(path, ChatTemplate::kMaxSourceBytes);
  if (!source.ok()) return refused(source.status().message());
  absl::StatusOr<ChatTemplate> compiled = ChatTemplate::Compile(*source);
  if (!compiled.ok()) return refused(path, ": ", compiled.status().message());
  // Every text is a template that renders itself: only what uses the messages was meant as one.
  if (!has_jinja(*source) || source->find("messages") == std::string::npos) {
    return refused("\"", path, "\" is not a chat template: it does not use \"messages\"");
  }
  return ChatTemplateSet(*std::move(compiled), /*with_tools=*/std::nullopt);
}

}  // namespace quire
