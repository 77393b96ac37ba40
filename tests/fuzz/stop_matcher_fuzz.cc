// Stop strings in a stream: wherever the text is cut, what is sent and what matched is what a plain
// search over the whole text says. Input: a byte of flags, stop strings up to an empty one, each
// ended by a zero byte, a byte for the cuts, the text.
#include "kernels/base/check.h"
#include "server/text/tokenizer/stop_matcher.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

struct Found {
  std::string sent;
  std::optional<size_t> matched;
};

// The first stop string to end, the first of the list where several do.
Found PlainSearch(const std::vector<std::string>& stops, std::string_view text, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    for (size_t i = 0; i < stops.size(); ++i) {
      if (!text.substr(0, end).ends_with(stops[i])) continue;
      const size_t kept = include ? end : end - stops[i].size();
      return {std::string(text.substr(0, kept)), i};
    }
  }
  return {std::string(text), std::nullopt};
}

Found Stream(const std::vector<std::string>& stops, std::string_view text, bool include,
             size_t step) {
  StopMatcher matcher(std::make_shared<StopStrings>(stops), include);
  Found found;
  for (size_t begin = 0; begin < text.size(); begin += step) {
    found.sent += matcher.Append(text.substr(begin, step));
    CHECK(text.starts_with(found.sent)) << "sent text is not the start of the text";
  }
  found.sent += matcher.Flush();
  found.matched = matcher.matched();
  return found;
}

}  // namespace

std::vector<std::string> Seeds() {
  using std::string_literals::operator""s;
  return {"\0\n\n\0END\0\0\3one two END three\n\nfour"s, "\1aab\0ab\0\0\1aaaaaaab"s,
          "\0<|im_end|>\0<|\0\0\2text <|im_en <|im_end|> more"s, "\0\0\4no stop strings"s,
          "\1abcabd\0bcab\0\0\5abcabcabd abcab"s};
}

std::vector<std::string> Dictionary() {
  return {"END", "\n\n", "ab", "aab", "<|im_end|>", "abcab"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::fuzz;            // NOLINT(build/namespaces)
  constexpr size_t kMaxTextBytes = 2048;  // the plain search takes time squared
  InputReader input(data, size);
  const bool include = (input.TakeByte() & 1) != 0;
  std::vector<std::string> stops;
  while (stops.size() < 16) {
    const std::string_view stop = input.TakeUntil('\0');
    if (stop.empty()) break;
    stops.emplace_back(stop.substr(0, UINT16_MAX));  // requests may have 256 bytes
  }
  const size_t step = 1 + input.TakeByte() % 8;
  const std::string_view text = input.rest().substr(0, kMaxTextBytes);
  const Found expected = PlainSearch(stops, text, include);
  num_accepted += expected.matched.has_value();
  const Found streamed = Stream(stops, text, include, step);
  CHECK_EQ(streamed.sent, expected.sent);
  CHECK(streamed.matched == expected.matched);
  return 0;
}
