// quire chat: a conversation in the terminal; all that was said goes with every turn.

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "server/text/utf8.h"
#include "tools/client/chat/chat_loop.h"
#include "tools/client/commands.h"
#include "tools/client/exit_codes.h"
#include "tools/client/failure.h"
#include "tools/client/inference_client.h"
#include "tools/client/output/terminal_text.h"
#include "tools/client/request_flags.h"
#include "tools/client/target.h"

namespace quire::client {

namespace {

constexpr double kGreetingSeconds = 30;

struct ChatFlags {
  std::string target, system;
  RequestFlags request;
  bool quiet = false;
};

// Finds out before the first question whether there is a server, and whether its model can chat;
// returns the exit code.
int Greet(InferenceClient& client, const ChatFlags& flags, bool on_terminal) {
  const absl::StatusOr<v1::GetModelResponse> model = client.GetModel(kGreetingSeconds);
  if (!model.ok()) return ReportFailure(model.status(), flags.target);
  if (!model->has_chat_template()) {
    std::fprintf(stderr,
                 "quire: %s has no chat template, so it cannot chat; quire generate completes "
                 "prompts with it\n",
                 TerminalSafe(model->name()).c_str());
    return kCallFailed;
  }
  if (on_terminal) {
    std::fprintf(stderr, "Chat with %s at %s. /help lists the commands, /quit ends.\n",
                 TerminalSafe(model->name()).c_str(), flags.target.c_str());
  }
  return kOk;
}

int Chat(const ChatFlags& flags) {
  ChatOptions options{flags.target, {}, flags.system, flags.quiet};
  const std::string problem = ApplyRequestFlags(flags.request, &options.request);
  if (!problem.empty()) return Refuse(problem);
  if (!IsValidUtf8(flags.system)) return Refuse("--system is not UTF-8");
  InferenceClient client(flags.target);
  const bool on_terminal = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  if (const int code = Greet(client, flags, on_terminal); code != kOk) return code;
  ChatLoop loop(client, options);
  if (!on_terminal) return loop.RunOnPipe(std::cin);
  LineEditor editor{HistoryFile(HistoryFile::DefaultPath())};
  return loop.RunOnTerminal(editor);
}

}  // namespace

Command AddChat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk to the model; /help there tells more");
  const auto flags = std::make_shared<ChatFlags>();
  AddTargetFlag(*command, &flags->target);
  command->add_option("--system", flags->system, "System message");
  command->add_flag("--quiet", flags->quiet, "No usage and timings after each answer");
  AddRequestFlags(*command, &flags->request);
  return [flags] { return Chat(*flags); };
}

}  // namespace quire::client
