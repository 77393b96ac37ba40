// quire-man: prints the man page quire-server(1), from the table of settings that its flags and
// its help come from. (quire and quire-bench print their own with --help-man.)

#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "server/base/version.h"
#include "server/start/settings/setting_table.h"
#include "tools/cli/man_page.h"

namespace quire {

namespace {

cli::ProgramText Text() {
  cli::ProgramText text;
  text.name = "quire-server";
  text.version = kVersion;
  text.one_line = "serve a large language model";
  text.paragraph =
      "Serves a large language model over gRPC: a folder of a Hugging Face model, a name on its "
      "hub (org/name), or without --model the bundled one; quire-server MODEL is short for "
      "--model. Each setting is also a variable QUIRE_NAME, over which a flag wins. SIGTERM or "
      "Ctrl-C lets running requests finish; a second one, a second or more later, ends at once.";
  text.see_also = "quire(1), quire-bench(1)";
  text.sections = {
      {"Exit codes",
       {{"0", "stopped cleanly"},
        {"1", "a second signal ended it before its streams had finished"},
        {"64", "bad arguments or configuration"},
        {"66", "model files unreadable or invalid"},
        {"69", "device, port or hub unavailable, or too little memory"},
        {"70", "engine failure: a device error or a step that hangs"}}},
      {"Examples",
       {{"quire-server", "the bundled model on port 8000"},
        {"quire-server Qwen/Qwen3-0.6B", "a model of the hub, downloaded unless it is there"},
        {"quire-server /models/qwen3 --port 9000", "a model of one's own"},
        {"quire-server /models/qwen3 --device cuda --plan --plan-memory 80GiB",
         "what a GPU would have room for"},
        {"quire-server --config server.json", "settings from a file"},
        {"quire-server --check-health", "whether the server on this machine serves"}}},
  };
  return text;
}

std::string Describe(const Setting& setting) {
  const std::string values = AllowedValues(setting);
  return absl::StrCat(setting.help, " Default: ", DefaultValue(setting), ".",
                      setting.is_switch() || values.empty() ? "" : " Allowed: " + values + ".");
}

}  // namespace

int PrintServerPage() {
  CLI::App app;
  app.set_help_flag("-h,--help", "Print the help and exit.");
  app.add_flag("--version")->description("Print the version and exit.");
  app.add_flag("--check-health")
      ->description(
          "Ask the server that runs on this machine, at the address in the file of --address-file "
          "or else at --port, whether it serves, and exit: 0 if it does, else 69.");
  app.add_option("--config",
                 "JSON file with these settings, underscores in place of dashes; flags win.")
      ->type_name("FILE");
  app.add_flag("--plan,--plan-json")
      ->description(
          "Print, as text or as JSON, what a start with these settings would find room for: "
          "weights, KV cache by token, streams by context; and exit.");
  app.add_option("--plan-memory", "With --plan: the device's memory, such as 80GiB.")
      ->type_name("SIZE");
  for (const Setting& setting : SettingTable()) {
    const std::string flag = absl::StrCat("--", setting.name);
    CLI::Option* option = setting.is_switch()
                              ? app.add_flag(absl::StrCat(flag, ",!--no-", setting.name))
                              : app.add_option(flag);
    option->group(setting.group)->description(Describe(setting));
    if (!setting.is_switch()) option->type_name("VALUE");
  }
  std::fputs(cli::ManPage(app, Text()).c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace quire

int main() { return quire::PrintServerPage(); }
