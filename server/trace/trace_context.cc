#include "server/trace/trace_context.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/random_bytes.h"

namespace quire {

namespace {

// "00-<32 digits>-<16 digits>-<2 digits>"; later versions may have more, after another '-'.
constexpr size_t kVersionEnd = 2, kTraceIdEnd = 35, kParentIdEnd = 52, kFlagsEnd = 55;
constexpr size_t kMaxStateMembers = 32;

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); });
}

template <size_t N>
bool ReadId(absl::string_view text, std::array<uint8_t, N>* id) {
  if (!IsLowerHex(text)) return false;
  const std::string bytes = absl::HexStringToBytes(text);
  std::copy_n(bytes.begin(), N, id->begin());
  return *id != std::array<uint8_t, N>();
}

std::optional<TraceContext> ReadParent(absl::string_view text) {
  if (text.size() < kFlagsEnd || text[kVersionEnd] != '-' || text[kTraceIdEnd] != '-' ||
      text[kParentIdEnd] != '-') {
    return std::nullopt;
  }
  const absl::string_view version = text.substr(0, kVersionEnd);
  const absl::string_view flags = text.substr(kParentIdEnd + 1, 2);
  if (!IsLowerHex(version) || version == "ff" || !IsLowerHex(flags)) return std::nullopt;
  const bool is_longer = text.size() > kFlagsEnd;
  if (is_longer && (version == "00" || text[kFlagsEnd] != '-')) return std::nullopt;
  TraceContext context;
  if (!ReadId(text.substr(kVersionEnd + 1, 32), &context.trace_id) ||
      !ReadId(text.substr(kTraceIdEnd + 1, 16), &context.parent_id)) {
    return std::nullopt;
  }
  context.is_sampled = (absl::HexStringToBytes(flags)[0] & 1) != 0;
  return context;
}

bool IsKeyPart(absl::string_view part, size_t max_size, bool may_begin_with_digit) {
  if (part.empty() || part.size() > max_size) return false;
  if (!absl::ascii_islower(part[0]) && !(may_begin_with_digit && absl::ascii_isdigit(part[0]))) {
    return false;
  }
  return std::all_of(part.begin(), part.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) ||
           absl::string_view("_-*/").find(c) != absl::string_view::npos;
  });
}

// "vendor" or "tenant@vendor".
bool IsStateKey(absl::string_view key) {
  const size_t at = key.find('@');
  if (at == absl::string_view::npos) return IsKeyPart(key, 256, false);
  return IsKeyPart(key.substr(0, at), 241, true) && IsKeyPart(key.substr(at + 1), 14, false);
}

bool IsStateValue(absl::string_view value) {
  return !value.empty() && value.size() <= 256 &&
         std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

bool IsState(absl::string_view text) {
  std::vector<absl::string_view> keys;
  for (absl::string_view member : absl::StrSplit(text, ',')) {
    member = absl::StripAsciiWhitespace(member);
    if (member.empty()) continue;
    const size_t equals = member.find('=');
    if (equals == absl::string_view::npos || !IsStateKey(member.substr(0, equals)) ||
        !IsStateValue(member.substr(equals + 1))) {
      return false;
    }
    keys.push_back(member.substr(0, equals));
  }
  const size_t num_members = keys.size();
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return num_members > 0 && num_members <= kMaxStateMembers && keys.size() == num_members;
}

// All headers of the name are one list. Empty where it is too long.
std::string JoinState(absl::Span<const std::pair<std::string, std::string>> headers) {
  std::string state;
  for (const auto& [name, value] : headers) {
    if (name != "tracestate") continue;
    if (state.size() + value.size() >= kMaxTraceStateBytes) return "";
    absl::StrAppend(&state, state.empty() ? "" : ",", value);
  }
  return state;
}

}  // namespace

TraceContext ReadTraceContext(absl::Span<const std::pair<std::string, std::string>> headers) {
  const std::string* parent = nullptr;
  for (const auto& [name, value] : headers) {
    if (name != "traceparent") continue;
    if (parent != nullptr) return {};
    parent = &value;
  }
  if (parent == nullptr) return {};
  std::optional<TraceContext> context = ReadParent(absl::StripAsciiWhitespace(*parent));
  if (!context.has_value()) return {};
  std::string state = JoinState(headers);
  if (IsState(state)) context->state = std::move(state);
  return *std::move(context);
}

TraceContext NewTrace() {
  TraceContext context;
  FillRandom(absl::MakeSpan(context.trace_id));
  return context;
}

SpanId NewSpanId() {
  SpanId id;
  FillRandom(absl::MakeSpan(id));
  return id;
}

std::string HexText(absl::Span<const uint8_t> id) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(id.data()), id.size()});
}

}  // namespace quire
