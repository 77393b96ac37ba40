#include "server/start/settings/scaled_number.h"

#include <limits>

#include "absl/strings/ascii.h"

namespace quire {

namespace {

constexpr absl::string_view kDecimal = "kmgt";
constexpr absl::string_view kBinary = "KMGT";

int64_t Power(int64_t base, size_t exponent) {
  int64_t power = 1;
  for (size_t i = 0; i < exponent; ++i) power *= base;
  return power;
}

// 0 for text that is no unit.
int64_t CountScale(absl::string_view unit) {
  if (unit.empty()) return 1;
  if (unit.size() > 1) return 0;
  if (const size_t i = kDecimal.find(unit[0]); i != absl::string_view::npos) {
    return Power(1000, i + 1);
  }
  const size_t i = kBinary.find(unit[0]);
  return i == absl::string_view::npos ? 0 : Power(1024, i + 1);
}

int64_t BytesScale(absl::string_view unit) {
  if (unit == "kB") return 1000;
  if (unit.size() < 2) return CountScale(unit);
  const size_t i = kBinary.find(unit[0]);
  if (i == absl::string_view::npos) return 0;
  if (unit.substr(1) == "iB") return Power(1024, i + 1);
  return unit.substr(1) == "B" ? Power(1000, i + 1) : 0;
}

// value = value * 10 + digit; false when it would be more than an int64_t holds.
bool AppendDigit(char digit, __int128* value) {
  *value = *value * 10 + (digit - '0');
  return *value <= std::numeric_limits<int64_t>::max();
}

std::optional<int64_t> ParseScaled(absl::string_view text, int64_t (*scale_of)(absl::string_view)) {
  size_t end = 0;
  while (end < text.size() && (absl::ascii_isdigit(text[end]) || text[end] == '.')) ++end;
  const int64_t scale = scale_of(text.substr(end));
  const absl::string_view number = text.substr(0, end);
  const absl::string_view whole = number.substr(0, number.find('.'));
  if (scale == 0 || whole.empty()) return std::nullopt;

  __int128 value = 0;
  for (char digit : whole) {
    if (!AppendDigit(digit, &value)) return std::nullopt;
  }
  value *= scale;
  if (whole.size() < number.size()) {
    const absl::string_view fraction = number.substr(whole.size() + 1);
    constexpr size_t kMaxDigits = 12;  // more say nothing beside the largest scale
    if (scale == 1 || fraction.empty() || fraction.size() > kMaxDigits) return std::nullopt;
    __int128 numerator = 0;
    for (char digit : fraction) {
      if (digit == '.' || !AppendDigit(digit, &numerator)) return std::nullopt;
    }
    value += numerator * scale / Power(10, fraction.size());
  }
  if (value > std::numeric_limits<int64_t>::max()) return std::nullopt;
  return static_cast<int64_t>(value);
}

}  // namespace

std::optional<int64_t> ParseCount(absl::string_view text) { return ParseScaled(text, CountScale); }

std::optional<int64_t> ParseBytes(absl::string_view text) { return ParseScaled(text, BytesScale); }

}  // namespace quire
