#include "tools/client/chat/chat_input.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/text/near_name.h"
#include "tools/client/output/terminal_text.h"

namespace quire::client {

namespace {

constexpr absl::string_view kQuotes = "\"\"\"";

// Without white space at its ends.
absl::string_view Stripped(std::string_view typed) {
  return absl::StripAsciiWhitespace(absl::string_view(typed.data(), typed.size()));
}

struct CommandRow {
  const char* name;
  ChatAction action;
  const char* missing;  // nullptr: takes no argument; "": may do without; else what to write
};

constexpr CommandRow kCommands[] = {
    {"/help", ChatAction::kHelp, nullptr},
    {"/clear", ChatAction::kClear, nullptr},
    {"/system", ChatAction::kSystem, ""},
    {"/save", ChatAction::kSave, "/save needs a file name, for example /save chat.json"},
    {"/quit", ChatAction::kQuit, nullptr},
    {"/exit", ChatAction::kQuit, nullptr},
};

ChatInput Error(const std::string& problem) { return {ChatAction::kError, problem}; }

ChatInput ParseCommand(absl::string_view word, absl::string_view argument) {
  std::vector<std::string> names;
  for (const CommandRow& command : kCommands) {
    names.emplace_back(command.name);
    if (word != command.name) continue;
    if (command.missing == nullptr && !argument.empty()) {
      return Error(absl::StrCat(word, " stands alone on its line"));
    }
    if (command.missing != nullptr && argument.empty() && *command.missing != '\0') {
      return Error(command.missing);
    }
    return {command.action, std::string(argument)};
  }
  return Error(absl::StrCat("unknown command ", TerminalSafe({word.data(), word.size()}), "; ",
                            DidYouMean(std::string(word), names, "/help lists the commands"),
                            " (A message may begin with / inside \"\"\" quotes.)"));
}

}  // namespace

bool IsOpenBlock(std::string_view typed) {
  const absl::string_view text = Stripped(typed);
  return absl::StartsWith(text, kQuotes) &&
         (text.size() < 2 * kQuotes.size() || !absl::EndsWith(text, kQuotes));
}

ChatInput ParseChatInput(std::string_view typed) {
  absl::string_view text = Stripped(typed);
  if (absl::ConsumePrefix(&text, kQuotes)) {
    absl::ConsumeSuffix(&text, kQuotes);
    const absl::string_view message = absl::StripAsciiWhitespace(text);
    if (message.empty()) return {ChatAction::kNothing, ""};
    // The line breaks after and before the quotes are not the message's; indentation is.
    while (absl::ConsumePrefix(&text, "\n")) {
    }
    return {ChatAction::kMessage, std::string(absl::StripTrailingAsciiWhitespace(text))};
  }
  if (text.empty()) return {ChatAction::kNothing, ""};
  const absl::string_view word = text.substr(0, text.find_first_of(" \t"));
  const bool is_command = text[0] == '/' && word.find('/', 1) == absl::string_view::npos &&
                          !absl::StrContains(text, '\n');
  if (!is_command) return {ChatAction::kMessage, std::string(text)};
  return ParseCommand(word, absl::StripAsciiWhitespace(text.substr(word.size())));
}

const char* ChatHelp() {
  return "  /help         this list\n"
         "  /clear        forget the conversation; the system message stays\n"
         "  /system TEXT  set the system message; without TEXT, remove it\n"
         "  /save FILE    save the conversation as JSON, for quire generate --messages\n"
         "  /quit         end the chat\n"
         "  \"\"\"           begin and end a message of several lines\n"
         "Pasted line breaks do not send. Ctrl-C stops an answer (the part that was printed stays\n"
         "in the conversation) or clears the line; Ctrl-C twice or Ctrl-D ends the chat.\n";
}

}  // namespace quire::client
