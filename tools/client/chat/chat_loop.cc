#include "tools/client/chat/chat_loop.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "server/text/utf8.h"
#include "tools/client/exit_codes.h"
#include "tools/client/failure.h"
#include "tools/client/interrupt.h"
#include "tools/client/messages_file.h"
#include "tools/client/output/stream_printer.h"

namespace quire::client {

namespace {

constexpr char kPrompt[] = "> ";
constexpr char kBlockPrompt[] = "... ";

void Note(const std::string& text) { std::fprintf(stderr, "  (%s)\n", text.c_str()); }

}  // namespace

ChatLoop::ChatLoop(InferenceClient& client, const ChatOptions& options)
    : client_(client), options_(options) {
  conversation_.SetSystem(options.system);
}

ChatLoop::Turn ChatLoop::Ask(const std::string& text) {
  conversation_.AddUser(text);
  v1::GenerateRequest request = options_.request;
  // Beside the messages the request may have variables for the template.
  *request.mutable_messages()->mutable_messages() = conversation_.messages().messages();
  CancellableCall call;
  StreamResult result;
  bool interrupted = false;
  {
    const InterruptGuard guard([&] { call.Cancel(); });
    result = RunStream(client_, call, request, /*print=*/true);
    interrupted = guard.interrupted();
  }
  const std::string answer = result.continuations.empty() ? "" : result.continuations[0].text;
  if (result.status.ok()) {
    if (!options_.quiet) Note(Summary(result));
    conversation_.AddAssistant(answer);
    return Turn::kAnswered;
  }
  if (interrupted && !answer.empty()) {
    conversation_.AddAssistant(answer);
    Note("stopped; the part above stays in the conversation");
    return Turn::kStopped;
  }
  conversation_.TakeBackLast();
  if (interrupted) {
    std::fprintf(stderr, "\n");
    Note("stopped before the answer began; the question is taken back");
    return Turn::kStopped;
  }
  failure_code_ = ReportFailure(result.status, options_.target);
  return Turn::kFailed;
}

void ChatLoop::Save(const std::string& path) const {
  if (!conversation_.HasTurns()) return Note("nothing was said yet, so nothing is saved");
  const absl::Status status = WriteMessages(path, conversation_.messages());
  if (!status.ok()) return Note(std::string(status.message()));
  Note(absl::StrCat(conversation_.messages().messages_size(), " messages saved; quire generate ",
                    "--messages ", path, " reads them"));
}

bool ChatLoop::Do(const ChatInput& input) {
  switch (input.action) {
    case ChatAction::kNothing:
      break;
    case ChatAction::kMessage:
      if (Ask(input.text) == Turn::kFailed) {
        Note("the question is taken back; arrow up brings it back to the prompt");
      }
      break;
    case ChatAction::kHelp:
      std::fputs(ChatHelp(), stderr);
      break;
    case ChatAction::kClear:
      conversation_.Clear();
      Note(conversation_.HasSystem() ? "the conversation begins anew, with its system message"
                                     : "the conversation begins anew");
      break;
    case ChatAction::kSystem:
      conversation_.SetSystem(input.text);
      Note(input.text.empty() ? "there is no system message from now on"
                              : "this is the system message from now on");
      break;
    case ChatAction::kSave:
      Save(input.text);
      break;
    case ChatAction::kError:
      Note(input.text);
      break;
    case ChatAction::kQuit:
      return false;
  }
  return true;
}

LineEditor::Result ChatLoop::ReadInput(LineEditor& editor) {
  LineEditor::Result typed = editor.Read(kPrompt);
  while (typed.outcome == LineEditor::Outcome::kLine && IsOpenBlock(typed.text)) {
    LineEditor::Result next = editor.Read(kBlockPrompt);
    if (next.outcome != LineEditor::Outcome::kLine) return next;
    absl::StrAppend(&typed.text, "\n", next.text);
  }
  return typed;
}

int ChatLoop::RunOnTerminal(LineEditor& editor) {
  // A Ctrl-C between a question and its call, or after the answer, must not end the chat.
  const InterruptsIgnored ignored;
  bool interrupted = false;
  while (true) {
    const LineEditor::Result typed = ReadInput(editor);
    if (typed.outcome == LineEditor::Outcome::kEnd) {
      std::fprintf(stderr, "\n");
      return kOk;
    }
    if (typed.outcome == LineEditor::Outcome::kInterrupted) {
      if (interrupted) return kOk;
      interrupted = true;
      Note("Ctrl-C again or Ctrl-D ends the chat");
      continue;
    }
    interrupted = false;
    const ChatInput input = ParseChatInput(typed.text);
    if (input.action != ChatAction::kNothing) editor.Remember(typed.text);
    if (!Do(input)) return kOk;
  }
}

int ChatLoop::RunOnPipe(std::istream& input) {
  std::string line;
  while (std::getline(input, line) && !line.empty()) {
    if (!IsValidUtf8(line)) {
      std::fprintf(stderr, "quire: a line of standard input is not UTF-8\n");
      failure_code_ = kUsage;
    } else if (Ask(line) == Turn::kStopped) {
      return kInterrupted;
    }
  }
  return failure_code_;
}

}  // namespace quire::client
