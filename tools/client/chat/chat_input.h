// The input of a person at the prompt of `quire chat`: a message or a command. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace quire::client {

enum class ChatAction {
  kNothing,  // an empty line
  kMessage,  // text: the message
  kHelp,
  kClear,   // forget the conversation, keep the system message
  kSystem,  // text: the new system message; empty removes it
  kSave,    // text: the file
  kQuit,
  kError,  // text: what is wrong, in one sentence
};

struct ChatInput {
  ChatAction action;
  std::string text;
};

// Whether `typed` begins with """ and its closing """ has not come yet. Then the next line belongs
// to the input, too, after a line break.
bool IsOpenBlock(std::string_view typed);

// Classifies the input. One line is a command if it begins with / and has no second / in its first
// word. Text within """ is a message, whatever it begins with.
ChatInput ParseChatInput(std::string_view typed);

// The answer to /help.
const char* ChatHelp();

}  // namespace quire::client
