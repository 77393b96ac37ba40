// quire: talks to a quire-server over gRPC from the terminal.

#include <string>
#include <utility>
#include <vector>

#include "tools/client/commands.h"
#include "tools/client/rpc.h"

int main(int argc, char** argv) {
  using namespace quire::client;  // NOLINT(google-build-using-namespace): the program is this
                                  // namespace
  CLI::App app("Client of quire-server: text generation, chat, tokenization, health and status.");
  app.name("quire");
  app.require_subcommand(1);
  const std::vector<std::pair<const char*, Command>> commands = {
      {"generate", AddGenerate(app)}, {"chat", AddChat(app)}, {"tokenize", AddTokenize(app)},
      {"health", AddHealth(app)},     {"info", AddInfo(app)},
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  for (const auto& [name, run] : commands) {
    if (app.got_subcommand(name)) return run();
  }
  return kUsage;
}
