// Lines that a person types on a terminal, edited with libedit (its key bindings, and ~/.editrc).
// Main thread; one at a time.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "tools/client/chat/history_file.h"

struct editline;  // libedit's
struct historyW;

namespace quire::client {

class LineEditor {
 public:
  enum class Outcome {
    kLine,
    kInterrupted,  // Ctrl-C: the line is dropped
    kEnd,          // Ctrl-D on an empty line, or the terminal is gone
  };
  struct Result {
    Outcome outcome;
    std::string text;  // UTF-8, without the line break that sent it; may have pasted ones inside
  };

  // Standard input and standard error must be terminals.
  explicit LineEditor(HistoryFile history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Reads one line behind `prompt`. Line breaks that are pasted (into a terminal with bracketed
  // paste) go into the line instead of sending it.
  Result Read(const std::string& prompt);

  // Puts an entry where arrow up finds it, now and in later chats.
  void Remember(const std::string& entry);

 private:
  // Key bindings; libedit finds the object behind the editor.
  static unsigned char OnPaste(editline* editor, int key);
  static unsigned char OnInterrupt(editline* editor, int key);
  static char* Prompt(editline* editor);

  void BindKeys();
  void Enter(const std::string& entry);

  HistoryFile history_file_;
  std::string prompt_;
  bool interrupted_ = false;
  FILE* output_ = nullptr;  // standard error once more, with a buffer
  editline* editor_ = nullptr;
  historyW* history_ = nullptr;
};

}  // namespace quire::client
