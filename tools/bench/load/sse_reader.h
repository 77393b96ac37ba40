// SseReader: reads the data of server-sent events from a body, wherever the body was cut (WHATWG
// HTML, 9.2).
#pragma once

#include <string>
#include <string_view>

namespace quire::bench {

class SseReader {
 public:
  void Add(std::string_view bytes);
  // Whether there is another line of data; it stays until the next call. Events of several lines
  // are not joined: no server of tokens sends them.
  bool Next(std::string_view* data);

 private:
  std::string bytes_;  // unread bytes begin at begin_
  size_t begin_ = 0;
  size_t searched_ = 0;  // up to here there is no end of a line
};

}  // namespace quire::bench
