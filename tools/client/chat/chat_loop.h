// The conversation of `quire chat`: each message goes to the server with the whole conversation
// before it, and the answer is printed as it comes. Main thread.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "quire/v1/inference.pb.h"
#include "tools/client/chat/chat_input.h"
#include "tools/client/chat/conversation.h"
#include "tools/client/chat/line_editor.h"
#include "tools/client/inference_client.h"

namespace quire::client {

struct ChatOptions {
  std::string target;           // for messages to the user
  v1::GenerateRequest request;  // every request's fields, except its messages
  std::string system;           // empty: none
  bool quiet = false;           // no usage and timings after each answer
};

class ChatLoop {
 public:
  ChatLoop(InferenceClient& client, const ChatOptions& options);

  // A person at a terminal: messages of several lines and commands; an empty line does nothing, and
  // Ctrl-C stops an answer. Ends with /quit, Ctrl-D or Ctrl-C twice; returns the exit code, 0.
  int RunOnTerminal(LineEditor& editor);

  // A program at a pipe: each line is a message; an empty line or the end of the input ends the
  // chat. Returns 0; 130 after SIGINT during an answer; or the code of the last call that failed.
  int RunOnPipe(std::istream& input);

 private:
  enum class Turn { kAnswered, kStopped, kFailed };

  // Asks and prints. If a question fails, or is stopped before any text came, it is removed from
  // the conversation. If it is stopped later, the printed part stays, because the person has read
  // it and may refer to it.
  Turn Ask(const std::string& text);
  // Runs a command; false to end the chat.
  bool Do(const ChatInput& input);
  void Save(const std::string& path) const;
  // Reads until a """ block is closed; nothing when the person gave up.
  LineEditor::Result ReadInput(LineEditor& editor);

  InferenceClient& client_;
  const ChatOptions options_;
  Conversation conversation_;
  int failure_code_ = 0;
};

}  // namespace quire::client
