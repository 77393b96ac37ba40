#include "tools/bench/load/sse_reader.h"

namespace quire::bench {

void SseReader::Add(std::string_view bytes) {
  if (begin_ > 0) {
    bytes_.erase(0, begin_);
    searched_ -= begin_;
    begin_ = 0;
  }
  bytes_.append(bytes);
}

bool SseReader::Next(std::string_view* data) {
  for (;;) {
    const size_t end = bytes_.find('\n', searched_);
    if (end == std::string::npos) {
      searched_ = bytes_.size();
      return false;
    }
    std::string_view line = std::string_view(bytes_).substr(begin_, end - begin_);
    begin_ = searched_ = end + 1;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.substr(0, 5) != "data:") continue;  // other fields, comments, the end of an event
    line.remove_prefix(5);
    if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    *data = line;
    return true;
  }
}

}  // namespace quire::bench
