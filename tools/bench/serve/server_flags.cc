#include "tools/bench/serve/server_flags.h"

#include <iterator>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/json/parse_json.h"
#include "engine/json/small_file.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/base/environment.h"
#include "tools/bench/command_line.h"
#include "tools/bench/failure.h"
#include "tools/bench/load/find_server.h"
#include "tools/bench/load/load.h"
#include "tools/client/credentials.h"
#include "tools/client/target.h"

namespace quire::bench {

namespace {

constexpr int64_t kDefaultPort = 8000;

absl::Status CheckAddress(ServerFlags* flags) {
  const char* flag = "--base-url";
  std::string url = flags->base_url;
  if (url.empty() && (!flags->host.empty() || flags->port > 0)) {
    flag = "--host";
    const std::string host = flags->host.empty() ? "127.0.0.1" : flags->host;
    const bool lacks_brackets = absl::StrContains(host, ':') && !absl::StartsWith(host, "[");
    url = absl::StrCat(lacks_brackets ? "[" : "", host, lacks_brackets ? "]" : "", ":",
                       flags->port > 0 ? flags->port : kDefaultPort);
  }
  if (url.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> target = client::ParseTarget(url);
  if (!target.ok()) return UsageError(absl::StrCat(flag, ": ", target.status().message()));
  flags->target = *target;
  return absl::OkStatus();
}

absl::Status CheckHeaders(ServerFlags* flags) {
  RETURN_IF_ERROR(SplitPairs("--header", flags->headers, &flags->server.headers));
  for (auto& [name, value] : flags->server.headers) {
    absl::AsciiStrToLower(&name);
    for (const char c : absl::StrCat(name, value)) {
      if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
        return UsageError(
            absl::StrCat("--header: \"", name, "\" has characters that no header has"));
      }
    }
  }
  std::string key = ReadEnvironment(client::kKeyVariable);
  if (key.empty()) key = ReadEnvironment("OPENAI_API_KEY");
  absl::StripAsciiWhitespace(&key);
  if (!key.empty()) flags->server.authorization = absl::StrCat("Bearer ", key);
  return absl::OkStatus();
}

absl::Status ReadSchema(ServerFlags* flags) {
  constexpr int64_t kMaxSchemaBytes = int64_t{16} << 20;
  if (flags->json_schema_file.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> schema = ReadSmallFile(flags->json_schema_file, kMaxSchemaBytes);
  if (!schema.ok()) {
    return UsageError(absl::StrCat("--json-schema: ", schema.status().message()));
  }
  if (!IsJson(*schema)) {
    return UsageError(absl::StrCat("--json-schema: ", flags->json_schema_file, " is not JSON"));
  }
  flags->server.json_schema = *std::move(schema);
  return absl::OkStatus();
}

absl::StatusOr<ServedModel> AskForModel(const ServerFlags& flags, const ServerAddress& server,
                                        LoadBackend& backend) {
  absl::StatusOr<std::string> body = Fetch(server, backend, backend.ModelRequest());
  if (absl::IsUnavailable(body.status())) {
    return WithExitCode(
        kUnavailable, absl::UnavailableError(absl::StrCat(
                          "no server answers at ", server.authority, ": ", body.status().message(),
                          "; start one with quire-server, or give another address with --target")));
  }
  absl::Status status = body.status();
  // Some of OpenAI's interface is all that some servers have.
  if (absl::IsNotFound(status) && absl::StartsWith(flags.backend, "openai")) {
    if (!flags.server.model.empty()) {
      return ServedModel{.name = flags.server.model, .lines = {{"model", flags.server.model}}};
    }
    status = absl::NotFoundError(absl::StrCat("it does not say what it serves (/v1/models: ",
                                              status.message(), "); name the model by --model"));
  }
  if (status.ok()) {
    absl::StatusOr<ServedModel> model = backend.ReadModel(*body);
    if (model.ok()) return model;
    status = model.status();
  }
  return WithExitCode(kFailed,
                      absl::UnknownError(absl::StrCat(server.authority, ": ", status.message())));
}

}  // namespace

void AddServerFlags(CLI::App& command, ServerFlags* flags) {
  const std::string group = "Server";
  FlagGroup add(command, group);
  add.OneOf("--backend", &flags->backend, {std::begin(kBackendNames), std::end(kBackendNames)},
            "What the server speaks: quire and vllm-grpc over gRPC, openai (completions) and "
            "openai-chat over HTTP")
      ->type_name("NAME")
      ->capture_default_str();
  client::AddTargetFlag(command, &flags->target);
  command.get_option("--target")->group(group);
  add.Text("--base-url", &flags->base_url, "URL",
           "The same, as vLLM's benchmark calls it; wins over --target");
  add.Text("--host", &flags->host, "HOST", "The same, with --port; wins over --target");
  add.Count("--port", &flags->port, 1, 65535, "Of --host (default: 8000)");
  add.Text("--endpoint", &flags->server.endpoint, "PATH",
           "Path of the requests (default: the backend's own)");
  add.Text("--model", &flags->server.model, "NAME",
           "Name to ask for (default: the first that is served)");
  add.Text("--served-model-name", &flags->served_model_name, "NAME",
           "The same; wins over --model, which vLLM's benchmark has for a folder");
  add.Text("--header", &flags->headers, "KEY=VALUE",
           "KEY=VALUE to send with each request; may be repeated");
  add.Text("--extra-body", &flags->server.extra_body, "JSON",
           "JSON object whose members are added to each request of an openai backend");
  add.Text("--json-schema", &flags->json_schema_file, "FILE",
           "File with a JSON Schema that every answer must keep to (default: none)");
  add.Real("--ready-check-timeout-sec", &flags->ready_seconds, 0, 1e6,
           "Seconds to wait for a server that does not answer yet (default: 0)");
}

absl::Status SplitPairs(const char* flag, const std::vector<std::string>& texts,
                        std::vector<std::pair<std::string, std::string>>* pairs) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return UsageError(absl::StrCat(flag, ": \"", text, "\" is not KEY=VALUE"));
    }
    pairs->emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return absl::OkStatus();
}

absl::Status CheckServerFlags(ServerFlags* flags) {
  RETURN_IF_ERROR(CheckAddress(flags));
  RETURN_IF_ERROR(CheckHeaders(flags));
  RETURN_IF_ERROR(ReadSchema(flags));
  if (!flags->served_model_name.empty()) flags->server.model = flags->served_model_name;
  if (!flags->server.extra_body.empty()) {
    if (!absl::StartsWith(flags->backend, "openai")) {
      return UsageError("--extra-body goes with --backend openai and openai-chat");
    }
    const auto body = ParseJson(flags->server.extra_body);
    if (!body.is_object()) return UsageError("--extra-body is no JSON object");
  }
  if (flags->backend == "vllm-grpc" && !flags->server.model.empty()) {
    return UsageError("--model: --backend vllm-grpc asks for no model by name; leave it out");
  }
  return absl::OkStatus();
}

absl::StatusOr<ServedTarget> OpenTarget(const ServerFlags& flags) {
  constexpr absl::Duration kBetweenTries = absl::Milliseconds(100);
  absl::StatusOr<ServerAddress> address = FindServer(flags.target);
  if (!address.ok()) return WithExitCode(kUnavailable, address.status());
  ServedTarget target = {.address = *std::move(address),
                         .backend = MakeLoadBackend(flags.backend, flags.server),
                         .model = {}};
  const absl::Time give_up = MonotonicNow() + absl::Seconds(flags.ready_seconds);
  for (;;) {
    absl::StatusOr<ServedModel> model = AskForModel(flags, target.address, *target.backend);
    if (model.ok()) {
      target.model = *std::move(model);
      return target;
    }
    if (MonotonicNow() >= give_up) return model.status();
    absl::SleepFor(kBetweenTries);
  }
}

RunHeader TargetHeader(const std::string& command, const std::string& what,
                       const ServerFlags& flags, const ServedModel& model) {
  RunHeader header = {.command = command,
                      .what = what,
                      .lines = {{"target", absl::StrCat(flags.target, ", ", flags.backend)}}};
  header.lines.insert(header.lines.end(), model.lines.begin(), model.lines.end());
  if (!flags.json_schema_file.empty()) {
    header.lines.emplace_back("constraint", absl::StrCat("JSON Schema ", flags.json_schema_file));
  }
  return header;
}

nlohmann::ordered_json TargetJson(const std::string& command, const ServerFlags& flags,
                                  const ServedModel& model) {
  nlohmann::ordered_json json = RunJson(command);
  json["backend"] = flags.backend;
  json["target"] = flags.target;
  json["model_id"] = model.name;
  for (const auto& [label, text] : model.lines) json["served"][label] = text;
  if (!flags.json_schema_file.empty()) json["json_schema"] = flags.json_schema_file;
  return json;
}

absl::Status FlushPrefixCache(const ServedTarget& target) {
  absl::Status status;
  for (const ClientRequest& request : target.backend->FlushRequests()) {
    status = Fetch(target.address, *target.backend, request).status();
    if (status.ok()) return status;
  }
  return WithExitCode(kFailed, absl::UnknownError(absl::StrCat(
                                   "--flush-cache: the server does not empty its prefix "
                                   "cache: ",
                                   status.message())));
}

}  // namespace quire::bench
