#include "tools/client/chat/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "nlohmann/json.hpp"

namespace quire::client {

namespace {

std::string Line(const std::string& entry) {
  return nlohmann::json(entry).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

// Writes all of `text` to `path`, which only its owner may read then; false when that fails.
bool WritePrivately(const std::string& path, int flags, const std::string& text) {
  // O_NONBLOCK: a pipe of that name must not hang the chat.
  const int file = open(path.c_str(), flags | O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  if (file < 0) return false;
  struct stat info = {};
  const bool ours = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && fchmod(file, 0600) == 0;
  const bool written =
      ours && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

}  // namespace

std::string HistoryFile::DefaultPath() {
  const std::string state = Variable("XDG_STATE_HOME");
  if (!state.empty() && state[0] == '/') return state + "/quire/history";
  const std::string home = Variable("HOME");
  return home.empty() ? "" : home + "/.local/state/quire/history";
}

std::vector<std::string> HistoryFile::Load() {
  std::vector<std::string> entries;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path_, ignored)) return entries;
  std::ifstream file(path_);
  std::string line;
  while (std::getline(file, line)) {
    if (line.size() > 8 * kMaxEntryBytes) continue;  // not one of ours
    const auto json = ParseJson(line);
    if (json.is_string()) entries.push_back(json.get<std::string>());
  }
  const size_t num_found = entries.size();
  if (num_found > kMaxEntries) entries.erase(entries.begin(), entries.end() - kMaxEntries);
  if (num_found > 2 * kMaxEntries) Rewrite(entries);
  return entries;
}

void HistoryFile::Append(const std::string& entry) {
  if (path_.empty() || entry.size() > kMaxEntryBytes) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  (void)WritePrivately(path_, O_APPEND, Line(entry));
}

void HistoryFile::Rewrite(const std::vector<std::string>& entries) const {
  std::string text;
  for (const std::string& entry : entries) text += Line(entry);
  const std::string temporary = absl::StrCat(path_, ".", getpid());
  std::error_code ignored;
  if (WritePrivately(temporary, O_TRUNC, text)) std::filesystem::rename(temporary, path_, ignored);
  std::filesystem::remove(temporary, ignored);
}

}  // namespace quire::client
