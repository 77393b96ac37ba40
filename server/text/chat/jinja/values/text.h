// Text: a UTF-8 string that remembers, byte by byte, whether the template or the user wrote it.
// Every string inside the interpreter is a Text, so that user content can never be mistaken for a
// special token that the template wrote. A value type; const access from any thread. Invariant:
// runs partition the bytes, no run is empty, neighbours differ in origin.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire::jinja {

enum class Origin { kTemplate, kUser };

class Text {
 public:
  struct Run {
    size_t end;  // One past its last byte.
    Origin origin;
  };

  Text() = default;
  Text(std::string_view bytes, Origin origin) { Append(bytes, origin); }

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }

  // Memory that a copy takes, for the render budget.
  size_t cost_bytes() const { return bytes_.size() + runs_.size() * sizeof(Run); }

  // Origin of the byte at `offset`, which must be inside.
  Origin OriginAt(size_t offset) const;

  // Bytes [begin, end) with their origins; `end` may lie past the end.
  Text Slice(size_t begin, size_t end) const;

  void Append(std::string_view bytes, Origin origin);
  void Append(const Text& other) { Append(other, 0, other.size()); }
  void Append(const Text& other, size_t begin, size_t end);

 private:
  // Index of the run that holds the byte at `offset`.
  size_t RunAt(size_t offset) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace quire::jinja
