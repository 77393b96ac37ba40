// quire generate: one request, its text streamed to the terminal.

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "tools/client/commands.h"
#include "tools/client/request_flags.h"
#include "tools/client/rpc.h"
#include "tools/client/stream_printer.h"

namespace quire::client {

namespace {

struct GenerateFlags {
  std::string target = kDefaultTarget;
  std::string prompt, message, system, messages_file, template_kwargs;
  std::vector<uint32_t> token_ids;
  RequestFlags request;
  double timeout_seconds = 0;
  bool json = false;
};

// Reads a JSON array of {"role", "content", ...}; the string says what is wrong.
std::string ReadMessages(const std::string& path, v1::Messages* messages) {
  std::ifstream file(path);
  if (!file) return "cannot read " + path;
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return path + " must hold a JSON array of messages";
  for (const auto& entry : json) {
    if (!entry.is_object() || !entry.contains("role") || !entry["role"].is_string()) {
      return path + ": every message needs a \"role\"";
    }
    v1::Message* message = messages->add_messages();
    nlohmann::json extra = entry;
    message->set_role(entry["role"].get<std::string>());
    extra.erase("role");
    if (entry.contains("content") && entry["content"].is_string()) {
      message->set_content(entry["content"].get<std::string>());
      extra.erase("content");
    }
    if (!extra.empty()) message->set_extra_json(extra.dump());
  }
  return "";
}

// The prompt: --messages, --message, --prompt, --token-ids, or standard input as plain text.
std::string ApplyPrompt(const GenerateFlags& flags, v1::GenerateRequest* request) {
  if (!flags.messages_file.empty() || !flags.message.empty()) {
    v1::Messages* messages = request->mutable_messages();
    messages->set_template_kwargs_json(flags.template_kwargs);
    if (!flags.messages_file.empty()) return ReadMessages(flags.messages_file, messages);
    if (!flags.system.empty()) {
      v1::Message* system = messages->add_messages();
      system->set_role("system");
      system->set_content(flags.system);
    }
    v1::Message* user = messages->add_messages();
    user->set_role("user");
    user->set_content(flags.message);
  } else if (!flags.token_ids.empty()) {
    for (const uint32_t id : flags.token_ids) request->mutable_token_ids()->add_ids(id);
  } else if (!flags.prompt.empty()) {
    request->mutable_text()->set_text(flags.prompt);
  } else {
    request->mutable_text()->set_text(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  }
  return "";
}

int Generate(const GenerateFlags& flags) {
  v1::GenerateRequest request;
  std::string problem = ApplyRequestFlags(flags.request, &request);
  if (problem.empty()) problem = ApplyPrompt(flags, &request);
  if (!problem.empty()) {
    std::fprintf(stderr, "quire: %s\n", problem.c_str());
    return kUsage;
  }
  request.mutable_output()->set_return_token_ids(flags.json);
  const std::unique_ptr<v1::Inference::Stub> stub = v1::Inference::NewStub(Connect(flags.target));
  grpc::ClientContext context;
  if (flags.timeout_seconds > 0) {
    context.set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::milliseconds(static_cast<int64_t>(flags.timeout_seconds * 1000)));
  }
  const StreamResult result = RunStream(*stub, context, request, /*print=*/!flags.json);
  if (!result.status.ok()) return ReportFailure(result.status, flags.target);
  if (flags.json) {
    std::printf("%s\n", ToJson(result).dump().c_str());
  } else {
    std::fprintf(stderr, "%s\n", Summary(result).c_str());
  }
  return kOk;
}

}  // namespace

Command AddGenerate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Complete a prompt or answer a message");
  const auto flags = std::make_shared<GenerateFlags>();
  command->add_option("--target", flags->target, "HOST:PORT of the server")->capture_default_str();
  command->add_option("--prompt", flags->prompt, "Text to complete (default: standard input)");
  command->add_option("--message", flags->message, "Message to answer, with the chat template");
  command->add_option("--system", flags->system, "System message before --message");
  command->add_option("--messages", flags->messages_file, "JSON file with an array of messages");
  command->add_option("--template-kwargs", flags->template_kwargs,
                      "JSON object of variables for the chat template");
  command->add_option("--token-ids", flags->token_ids, "Prompt as token ids: 1,2,3")
      ->delimiter(',');
  command->add_option("--timeout", flags->timeout_seconds, "Deadline in seconds");
  command->add_flag("--json", flags->json, "Print one JSON object with everything, and no text");
  AddRequestFlags(*command, &flags->request);
  return [flags] { return Generate(*flags); };
}

}  // namespace quire::client
