// JsonEvents: the common part of all readers of JSON. nlohmann's parser calls a reader for each
// value and keeps its own nesting on the heap. The reader keeps the depth within a limit, so that
// walking or destroying the value that it builds needs little stack. It says in one sentence what
// is wrong. One text, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace quire {

inline constexpr size_t kMaxJsonDepth = 64;

// A base class: derived classes have null(), boolean(), number_integer(), number_unsigned(),
// number_float(), string(), key(), start_object(), end_object(), start_array() and end_array(),
// which return false to stop. For ReadJsonEvents (parse_json.h).
class JsonEvents {
 public:
  // Why reading stopped; empty if it did not.
  const std::string& error() const { return error_; }

  bool RefuseNul(size_t position);
  bool binary(std::vector<uint8_t>&) { return Fail("binary values are not JSON"); }
  template <typename Exception>
  bool parse_error(size_t position, const std::string&, const Exception& error) {
    return FailSyntax(position, error.what());
  }

 protected:
  explicit JsonEvents(size_t max_depth = kMaxJsonDepth) : max_depth_(max_depth) {}

  // Records the first error; false.
  bool Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }
  // Called around each object and array.
  bool Enter();
  void Leave() { --depth_; }

 private:
  bool FailSyntax(size_t position, absl::string_view message);

  const size_t max_depth_;
  size_t depth_ = 0;
  std::string error_;
};

}  // namespace quire
