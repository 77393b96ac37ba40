#include "server/text/chat/jinja/values/text.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace quire::jinja {

size_t Text::RunAt(size_t offset) const {
  auto run = std::upper_bound(runs_.begin(), runs_.end(), offset,
                              [](size_t value, const Run& run) { return value < run.end; });
  return static_cast<size_t>(run - runs_.begin());
}

Origin Text::OriginAt(size_t offset) const {
  CHECK_LT(offset, bytes_.size());
  return runs_[RunAt(offset)].origin;
}

Text Text::Slice(size_t begin, size_t end) const {
  Text slice;
  slice.Append(*this, begin, end);
  return slice;
}

void Text::Append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), origin});
  }
}

void Text::Append(const Text& other, size_t begin, size_t end) {
  CHECK(&other != this);
  end = std::min(end, other.size());
  if (begin >= end) return;
  for (size_t run = other.RunAt(begin); begin < end; ++run) {
    const size_t run_end = std::min(end, other.runs_[run].end);
    Append(other.bytes().substr(begin, run_end - begin), other.runs_[run].origin);
    begin = run_end;
  }
}

}  // namespace quire::jinja
