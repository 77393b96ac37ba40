// Files for the tests of engine/model: a folder that goes when it goes out of scope, and
// safetensors bytes put together by hand. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace quire {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes <folder>/<name>, making folders on the way.
  void Write(const std::string& name, absl::string_view contents) const;

 private:
  std::string path_;
};

// Length, header and data, as in a file. `length` overrides what the header's length would say.
std::string SafetensorsBytes(absl::string_view header, absl::string_view data);
std::string SafetensorsBytes(uint64_t length, absl::string_view header, absl::string_view data);

std::string ReadWholeFile(const std::string& path);

}  // namespace quire
