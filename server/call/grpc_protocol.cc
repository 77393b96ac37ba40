#include "server/call/grpc_protocol.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"
#include "server/request/retry_pushback.h"

namespace quire {

namespace {

// A header's value is printable ASCII; the rest of a sentence is written as %XX.
std::string PercentEncoded(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded.push_back(c);
    } else {
      absl::StrAppend(&encoded, "%", absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
    }
  }
  return encoded;
}

std::string Sentence(const absl::Status& status) {
  constexpr size_t kMaxBytes = 2048;
  const std::string field = FieldOf(status);
  std::string sentence = absl::StrCat(field, field.empty() ? "" : ": ", status.message());
  sentence.resize(std::min(sentence.size(), kMaxBytes));
  return sentence;
}

}  // namespace

bool IsGrpcContentType(absl::string_view content_type) {
  constexpr absl::string_view kGrpc = "application/grpc";
  if (!absl::StartsWithIgnoreCase(content_type, kGrpc)) return false;
  content_type.remove_prefix(kGrpc.size());
  return content_type.empty() || content_type[0] == ';' || content_type == "+proto" ||
         absl::StartsWith(content_type, "+proto;");
}

std::optional<absl::Duration> ParseGrpcTimeout(absl::string_view text) {
  constexpr size_t kMaxDigits = 8;
  if (text.size() < 2 || text.size() > kMaxDigits + 1) return std::nullopt;
  const absl::string_view digits = text.substr(0, text.size() - 1);
  int64_t value = 0;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &value)) {
    return std::nullopt;
  }
  switch (text.back()) {
    case 'H':
      return absl::Hours(value);
    case 'M':
      return absl::Minutes(value);
    case 'S':
      return absl::Seconds(value);
    case 'm':
      return absl::Milliseconds(value);
    case 'u':
      return absl::Microseconds(value);
    case 'n':
      return absl::Nanoseconds(value);
    default:
      return std::nullopt;
  }
}

HeaderList StatusTrailers(const absl::Status& status) {
  // Both enums are google.rpc.Code.
  HeaderList trailers = {{"grpc-status", absl::StrCat(static_cast<int>(status.code()))}};
  if (!status.ok()) trailers.emplace_back("grpc-message", PercentEncoded(Sentence(status)));
  if (const std::optional<int64_t> delay_ms = RetryPushbackMs(status); delay_ms.has_value()) {
    trailers.emplace_back("grpc-retry-pushback-ms", absl::StrCat(*delay_ms));
  }
  return trailers;
}

}  // namespace quire
