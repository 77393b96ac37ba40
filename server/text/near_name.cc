#include "server/text/near_name.h"

#include <algorithm>
#include <numeric>

namespace quire {

namespace {

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(const std::string& name, const std::vector<std::string>& known) {
  constexpr size_t kMaxLength = 64;  // longer names are not worth comparing
  std::string nearest;
  size_t best = std::min(name.size(), kMaxLength) / 3 + 1;  // farther is no help
  if (name.size() > kMaxLength) return nearest;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance > best || (distance == best && !nearest.empty())) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(const std::string& name, const std::vector<std::string>& known,
                       const std::string& otherwise) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? otherwise : "did you mean " + nearest + "?";
}

}  // namespace quire
