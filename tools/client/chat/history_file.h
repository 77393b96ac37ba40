// Keeps the lines that a person types at the prompt, between chats: one JSON string per line,
// oldest first, readable by the file's owner only. A failure only leaves the chat without this
// memory, so no failure is reported. Main thread.
#pragma once

#include <string>
#include <vector>

namespace quire::client {

class HistoryFile {
 public:
  static constexpr size_t kMaxEntries = 1000;
  static constexpr size_t kMaxEntryBytes = 16 * 1024;  // longer ones are not remembered

  // The file need not exist; an empty path remembers nothing.
  explicit HistoryFile(std::string path) : path_(std::move(path)) {}

  // $XDG_STATE_HOME/quire/history, else ~/.local/state/quire/history, else empty.
  static std::string DefaultPath();

  // The last kMaxEntries entries. A file that has grown to twice that number is cut back to them.
  std::vector<std::string> Load();

  // Adds one entry, making the file and its folders if they are missing. Several chats may add to
  // one file.
  void Append(const std::string& entry);

 private:
  void Rewrite(const std::vector<std::string>& entries) const;

  std::string path_;
};

}  // namespace quire::client
