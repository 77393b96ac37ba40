// quire chat: a conversation in the terminal; the whole history goes with every turn.

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "tools/client/commands.h"
#include "tools/client/request_flags.h"
#include "tools/client/rpc.h"
#include "tools/client/stream_printer.h"

namespace quire::client {

namespace {

struct ChatFlags {
  std::string target = kDefaultTarget;
  std::string system;
  RequestFlags request;
  bool quiet = false;
};

void AddMessage(v1::Messages* messages, const char* role, const std::string& content) {
  v1::Message* message = messages->add_messages();
  message->set_role(role);
  message->set_content(content);
}

int Chat(const ChatFlags& flags) {
  v1::GenerateRequest request;
  const std::string problem = ApplyRequestFlags(flags.request, &request);
  if (!problem.empty()) {
    std::fprintf(stderr, "quire: %s\n", problem.c_str());
    return kUsage;
  }
  const std::unique_ptr<v1::Inference::Stub> stub = v1::Inference::NewStub(Connect(flags.target));
  v1::Messages* messages = request.mutable_messages();
  if (!flags.system.empty()) AddMessage(messages, "system", flags.system);
  std::fprintf(stderr, "Type a message; an empty line or Ctrl-D ends the chat.\n");
  std::string line;
  while (std::fprintf(stderr, "> "), std::getline(std::cin, line) && !line.empty()) {
    AddMessage(messages, "user", line);
    grpc::ClientContext context;
    const StreamResult result = RunStream(*stub, context, request, /*print=*/true);
    if (!result.status.ok()) {
      // The turn did not happen: take it back, so that the next one can (a server may come back, a
      // shorter message may fit).
      ReportFailure(result.status, flags.target);
      messages->mutable_messages()->RemoveLast();
      continue;
    }
    if (!flags.quiet) std::fprintf(stderr, "  (%s)\n", Summary(result).c_str());
    AddMessage(messages, "assistant", result.continuations.at(0).text);
  }
  return kOk;
}

}  // namespace

Command AddChat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk to the model");
  const auto flags = std::make_shared<ChatFlags>();
  command->add_option("--target", flags->target, "HOST:PORT of the server")->capture_default_str();
  command->add_option("--system", flags->system, "System message");
  command->add_flag("--quiet", flags->quiet, "No usage and timings after each answer");
  AddRequestFlags(*command, &flags->request);
  return [flags] { return Chat(*flags); };
}

}  // namespace quire::client
