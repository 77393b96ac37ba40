// quire: talks to a quire-server over gRPC from the terminal.

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "server/base/version.h"
#include "tools/cli/command_line.h"
#include "tools/cli/completion.h"
#include "tools/client/commands.h"
#include "tools/client/exit_codes.h"

namespace quire::client {

namespace {

cli::ProgramText Text() {
  cli::ProgramText text;
  text.name = "quire";
  text.version = kVersion;
  text.one_line = "talk to a quire-server";
  text.paragraph =
      "Client of quire-server: text generation, chat, tokenization, health and status over gRPC.";
  text.see_also = "quire-server(1), quire-bench(1)";
  text.sections = {
      {"Examples",
       {{"quire chat", "talk to the model on this machine"},
        {"quire generate 'Once upon a time'", "complete a prompt"},
        {"quire generate --message 'What is 17 + 25?'", "ask with the chat template"},
        {"echo 'Once upon' | quire generate --json", "prompt from standard input, all as JSON"},
        {"quire info --target http://gpu1:8000", "what another machine serves"}}},
      {"Environment",
       {{"QUIRE_TARGET", "address of the server, where --target does not give one"},
        {"QUIRE_ADDRESS_FILE",
         "file with the address, where neither does: the server's --address-file"},
        {"QUIRE_API_KEY", "key to send with every call"},
        {"QUIRE_CA_FILE",
         "CAs to trust where the address begins with https://, PEM; else the system's"},
        {"QUIRE_CLIENT_CERT, QUIRE_CLIENT_KEY", "files of a client certificate and its key, PEM"},
        {"XDG_STATE_HOME",
         "chat keeps its history in $XDG_STATE_HOME/quire/history, else in "
         "~/.local/state/quire/history"}}},
      {"Exit codes",
       {{"0", "success"},
        {"1", "the call failed"},
        {"64", "wrong use: a bad flag, value or file"},
        {"69", "no server serves at the address"},
        {"130", "ended by Ctrl-C"}}},
  };
  return text;
}

// The command's exit code, unless what it printed could not be written.
int FinishOutput(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "quire: cannot write to standard output; is the disk full?\n");
  return code == kOk ? kCallFailed : code;
}

}  // namespace

Command AddCompletion(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("completion", "Print a completion script for bash, zsh or fish");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish");
  return [shell, &app] {
    const std::string script = cli::CompletionScript(app, *shell);
    if (shell->empty()) {
      return cli::UsageError("quire", "for which shell? Write quire completion bash, zsh or fish");
    }
    if (script.empty()) {
      return cli::UsageError("quire",
                             "completion knows bash, zsh and fish, not \"" + *shell + "\"");
    }
    std::fputs(script.c_str(), stdout);
    return kOk;
  };
}

int Main(int argc, char** argv) {
  CLI::App app;
  const std::vector<std::pair<const char*, Command>> commands = {
      {"generate", AddGenerate(app)}, {"chat", AddChat(app)},
      {"tokenize", AddTokenize(app)}, {"health", AddHealth(app)},
      {"info", AddInfo(app)},         {"abort", AddAbort(app)},
      {"flush", AddFlush(app)},       {"completion", AddCompletion(app)},
  };
  cli::DescribeProgram(app, Text());
  const auto done = cli::ParseCommandLine(app, std::vector<std::string>(argv + 1, argv + argc));
  if (done) return FinishOutput(*done);
  for (const auto& [name, run] : commands) {
    if (app.got_subcommand(name)) return FinishOutput(run());
  }
  return kUsage;
}

}  // namespace quire::client

int main(int argc, char** argv) { return quire::client::Main(argc, argv); }
