#include "tools/cli/completion.h"

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"

namespace quire::cli {

namespace {

struct Flag {
  std::vector<std::string> names;  // with their dashes
  std::string description;
  bool takes_value;
  bool takes_file;
};

struct Words {
  std::string command;  // empty: before any command
  std::string description;
  std::vector<Flag> flags;
  std::vector<std::string> values;  // of its one argument, where only some are allowed
};

Words WordsOf(const CLI::App& app, const std::string& command) {
  Words words{command, app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    Flag flag{{},
              option->get_description(),
              option->get_items_expected_max() > 0,
              option->get_type_name() == "FILE"};
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    if (!flag.names.empty()) words.flags.push_back(flag);
    // An argument of this name is one of the shells.
    if (option->get_positional() && option->get_name() == "shell")
      words.values = CompletionShells();
  }
  return words;
}

// First the program's own words, then those of each command.
std::vector<Words> AllWords(const CLI::App& app) {
  std::vector<Words> all = {WordsOf(app, "")};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    all.push_back(WordsOf(*command, command->get_name()));
  }
  return all;
}

std::vector<std::string> CommandNames(const std::vector<Words>& all) {
  std::vector<std::string> names;
  for (size_t i = 1; i < all.size(); ++i) names.push_back(all[i].command);
  return names;
}

std::string BashScript(const std::string& program, const std::vector<Words>& all) {
  std::string by_previous, by_command;
  for (const Words& words : all) {
    std::vector<std::string> shown = words.values;
    if (words.command.empty()) shown = CommandNames(all);
    for (const Flag& flag : words.flags) {
      shown.insert(shown.end(), flag.names.begin(), flag.names.end());
      if (!flag.takes_value) continue;
      for (const std::string& name : flag.names) {
        absl::StrAppend(
            &by_previous, "    ", words.command, ":", name, ") ",
            flag.takes_file ? "mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); " : "",
            "return ;;\n");
      }
    }
    absl::StrAppend(&by_command, "    ", words.command.empty() ? "\"\"" : words.command,
                    ") words=\"", absl::StrJoin(shown, " "), "\" ;;\n");
  }
  return absl::Substitute(R"(# bash completion for $0. Load it with:  source <($0 completion bash)
_$0() {
  local current=$${COMP_WORDS[COMP_CWORD]} previous=$${COMP_WORDS[COMP_CWORD - 1]}
  local command='' words='' word
  COMPREPLY=()
  for word in "$${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $$word in $1) command=$$word; break ;; esac
  done
  case $$command:$$previous in
$2  esac
  case $$command in
$3  esac
  mapfile -t COMPREPLY < <(compgen -W "$$words" -- "$$current")
}
complete -F _$0 $0
)",
                          program, absl::StrJoin(CommandNames(all), "|"), by_previous, by_command);
}

std::string ZshQuote(const std::string& text) {
  return absl::StrReplaceAll(text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshScript(const std::string& program, const std::vector<Words>& all) {
  std::string commands, by_command;
  for (const Words& words : all) {
    if (!words.command.empty()) {
      absl::StrAppend(&commands, "    '", words.command, ":", ZshQuote(words.description), "'\n");
      absl::StrAppend(&by_command, "    ", words.command, ")\n      specs=(\n");
    } else {
      absl::StrAppend(&by_command, "    \"\")\n      specs=(\n");
    }
    for (const Flag& flag : words.flags) {
      const char* value = !flag.takes_value ? "" : flag.takes_file ? ":file:_files" : ":value:";
      for (const std::string& name : flag.names) {
        absl::StrAppend(&by_command, "        '*", name, "[", ZshQuote(flag.description), "]",
                        value, "'\n");
      }
    }
    if (!words.values.empty()) {
      absl::StrAppend(&by_command, "        '1:value:(", absl::StrJoin(words.values, " "), ")'\n");
    }
    absl::StrAppend(&by_command, "      ) ;;\n");
  }
  return absl::Substitute(R"(#compdef $0
# zsh completion for $0. Load it with:  source <($0 completion zsh)
# or put it into a folder of $$fpath as _$0.
_$0() {
  local -a commands specs
  commands=(
$1  )
  local command=''
  if (( CURRENT > 2 )); then
    command=$$words[2]
    shift words
    (( CURRENT-- ))
  else
    _describe command commands
  fi
  case $$command in
$2  esac
  _arguments $$specs
}
if [[ $${funcstack[1]} == _$0 ]]; then _$0 "$$@"; else compdef _$0 $0; fi
)",
                          program, commands, by_command);
}

std::string FishQuote(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishScript(const std::string& program, const std::vector<Words>& all) {
  std::string script = absl::Substitute(
      "# fish completion for $0. Load it with:  $0 completion fish | source\ncomplete -c $0 -f\n",
      program);
  for (const Words& words : all) {
    const std::string condition =
        words.command.empty() ? "__fish_use_subcommand"
                              : absl::StrCat("'__fish_seen_subcommand_from ", words.command, "'");
    if (!words.command.empty()) {
      absl::StrAppend(&script, "complete -c ", program, " -n __fish_use_subcommand -a ",
                      words.command, " -d ", FishQuote(words.description), "\n");
    }
    for (const Flag& flag : words.flags) {
      absl::StrAppend(&script, "complete -c ", program, " -n ", condition);
      for (const std::string& name : flag.names) {
        absl::StrAppend(&script,
                        name[1] == '-'     ? " -l "
                        : name.size() == 2 ? " -s "
                                           : " -o ",
                        name.substr(name[1] == '-' ? 2 : 1));
      }
      absl::StrAppend(&script,
                      !flag.takes_value ? ""
                      : flag.takes_file ? " -r -F"
                                        : " -x",
                      " -d ", FishQuote(flag.description), "\n");
    }
    if (!words.values.empty()) {
      absl::StrAppend(&script, "complete -c ", program, " -n ", condition, " -a '",
                      absl::StrJoin(words.values, " "), "'\n");
    }
  }
  return script;
}

}  // namespace

const std::vector<std::string>& CompletionShells() {
  static const auto* const kShells = new std::vector<std::string>{"bash", "zsh", "fish"};
  return *kShells;
}

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  const std::vector<Words> all = AllWords(app);
  if (shell == "bash") return BashScript(app.get_name(), all);
  if (shell == "zsh") return ZshScript(app.get_name(), all);
  if (shell == "fish") return FishScript(app.get_name(), all);
  return "";
}

}  // namespace quire::cli
