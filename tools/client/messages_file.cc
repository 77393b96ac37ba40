#include "tools/client/messages_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/client/text_file.h"

namespace quire::client {

namespace {

using Json = nlohmann::ordered_json;

absl::Status Problem(const std::string& path, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

std::string SystemError() { return std::strerror(errno); }  // NOLINT(concurrency-mt-unsafe)

absl::Status AddMessage(const std::string& path, const Json& entry, v1::Messages* messages) {
  const std::string which = absl::StrCat("message ", messages->messages_size() + 1);
  if (!entry.is_object() || !entry.contains("role") || !entry["role"].is_string()) {
    return Problem(path, which + " has no \"role\"; write {\"role\": \"user\", \"content\": ...}");
  }
  v1::Message* message = messages->add_messages();
  Json extra = entry;
  message->set_role(entry["role"].get<std::string>());
  extra.erase("role");
  if (entry.contains("content") && entry["content"].is_string()) {
    message->set_content(entry["content"].get<std::string>());
    extra.erase("content");
  }
  if (!extra.empty()) message->set_extra_json(extra.dump());
  return absl::OkStatus();
}

Json ToJson(const v1::Messages& messages) {
  Json json = Json::array();
  for (const v1::Message& message : messages.messages()) {
    json.push_back({{"role", message.role()}, {"content", message.content()}});
  }
  return json;
}

std::string WithHome(const std::string& path) {
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  return absl::StartsWith(path, "~/") && home != nullptr ? home + path.substr(1) : path;
}

absl::Status WriteThenRename(const std::string& path, const std::string& text) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  errno = 0;
  std::ofstream file(temporary, std::ios::trunc);
  file << text;
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status failed = Problem(path, "cannot be written: " + SystemError());
    (void)std::remove(temporary.c_str());
    return failed;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Messages> ReadMessages(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "a JSON file"));
  const Json json = ParseJson<Json>(text);
  if (json.is_discarded()) return Problem(path, "is not JSON (in UTF-8)");
  if (!json.is_array()) return Problem(path, "must hold a JSON array of messages");
  if (json.empty()) return Problem(path, "holds no message");
  v1::Messages messages;
  for (const Json& entry : json) RETURN_IF_ERROR(AddMessage(path, entry, &messages));
  return messages;
}

absl::Status WriteMessages(const std::string& path, const v1::Messages& messages) {
  const std::string full_path = WithHome(path);
  struct stat info = {};
  if (stat(full_path.c_str(), &info) == 0 && !ReadMessages(full_path).ok()) {
    return Problem(path, "is there already and holds no messages; give another name");
  }
  const std::string text = ToJson(messages).dump(2, ' ', false, Json::error_handler_t::replace);
  return WriteThenRename(full_path, text + "\n");
}

}  // namespace quire::client
