#include "server/text/tokenizer/file/score.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace quire {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

double PowerOfTen(size_t exponent) {
  static const std::array<double, 309> table = [] {
    std::array<double, 309> powers;
    for (size_t i = 0; i < powers.size(); ++i) {
      const std::string text = "1e" + std::to_string(i);
      std::from_chars(text.data(), text.data() + text.size(), powers[i]);
    }
    return powers;
  }();
  return table[exponent];
}

double Scale(double value, int64_t exponent) {
  constexpr int64_t kMaxExponent = 308;
  for (; exponent < -kMaxExponent && value != 0; exponent += kMaxExponent)
    value /= PowerOfTen(kMaxExponent);
  if (value == 0) return value;
  if (exponent > kMaxExponent) return std::numeric_limits<double>::infinity();
  return exponent < 0 ? value / PowerOfTen(static_cast<size_t>(-exponent))
                      : value * PowerOfTen(static_cast<size_t>(exponent));
}

// Reads digits from `at` into `significand` until one does not fit. Returns their number.
int64_t ReadDigits(const char** at, const char* end, uint64_t* significand) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  int64_t count = 0;
  for (; *at < end && IsDigit(**at); ++*at, ++count) {
    const uint64_t digit = static_cast<uint64_t>(**at - '0');
    if (*significand > (kMax - digit) / 10) break;
    *significand = *significand * 10 + digit;
  }
  return count;
}

int64_t SkipDigits(const char** at, const char* end) {
  const char* begin = *at;
  while (*at < end && IsDigit(**at)) ++*at;
  return *at - begin;
}

}  // namespace

double ReadScore(std::string_view number) {
  const char* at = number.data();
  const char* const end = at + number.size();
  const bool is_negative = at < end && *at == '-';
  if (is_negative) ++at;
  uint64_t significand = 0;
  ReadDigits(&at, end, &significand);
  int64_t exponent = SkipDigits(&at, end);
  if (at < end && *at != 'e' && *at != 'E') {
    ++at;  // the point
    exponent -= ReadDigits(&at, end, &significand);
    SkipDigits(&at, end);
  }
  if (at < end) {
    ++at;  // the e
    const bool is_small = at < end && *at == '-';
    if (at < end && !IsDigit(*at)) ++at;
    uint64_t written = 0;
    ReadDigits(&at, end, &written);
    const int64_t bounded = static_cast<int64_t>(std::min<uint64_t>(written, 1 << 30));
    exponent += is_small ? -bounded : bounded;
  }
  const double value = Scale(static_cast<double>(significand), exponent);
  return is_negative ? -value : value;
}

}  // namespace quire
