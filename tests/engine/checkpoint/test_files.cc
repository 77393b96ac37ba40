#include "tests/engine/checkpoint/test_files.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/base/check.h"

namespace quire {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "quire_model_XXXXXX").string();
  CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

void TempFolder::Write(const std::string& name, absl::string_view contents) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(contents.data(), contents.size());
  CHECK(file.good());
}

std::string SafetensorsBytes(absl::string_view header, absl::string_view data) {
  return SafetensorsBytes(header.size(), header, data);
}

std::string SafetensorsBytes(uint64_t length, absl::string_view header, absl::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  bytes.append(header.data(), header.size());
  bytes.append(data.data(), data.size());
  return bytes;
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace quire
