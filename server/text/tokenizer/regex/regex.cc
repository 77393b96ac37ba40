#include "server/text/tokenizer/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/unicode.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;  // steps of one match
constexpr uint32_t kHeapLimit_kib = 64 * 1024;
constexpr size_t kJitStackStart_bytes = 32 * 1024;
constexpr size_t kJitStackLimit_bytes = 1024 * 1024;

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[128];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0) return Concat("error ", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

RegexScratch::RegexScratch()
    : match_data_(pcre2_match_data_create(1, nullptr)),
      match_context_(pcre2_match_context_create(nullptr)),
      jit_stack_(pcre2_jit_stack_create(kJitStackStart_bytes, kJitStackLimit_bytes, nullptr)) {
  CHECK(match_data_ != nullptr && match_context_ != nullptr) << "out of memory for PCRE2";
  pcre2_set_match_limit(match_context_, kMatchLimit);
  pcre2_set_heap_limit(match_context_, kHeapLimit_kib);
  pcre2_jit_stack_assign(match_context_, nullptr, jit_stack_);
}

RegexScratch::~RegexScratch() {
  pcre2_jit_stack_free(jit_stack_);
  pcre2_match_context_free(match_context_);
  pcre2_match_data_free(match_data_);
}

void Regex::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, TranslatePattern(pattern));
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  CHECK(context != nullptr) << "out of memory for PCRE2";
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, 100);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  // Ruby's ^ and $ always match at line borders.
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &error_offset, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    return InvalidArgument("regular expression \"", translated, "\" at offset ", error_offset, ": ",
                           ErrorText(error));
  }
  // Where PCRE2 has no just-in-time compiler, pcre2_match interprets, on the heap.
  Regex regex(code, pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0);
  regex.LearnCharacters();
  return regex;
}

void Regex::LearnCharacters() {
  RegexScratch scratch;
  for (unsigned char c = 0; c < 128; ++c) {
    const char text = static_cast<char>(c);
    std::vector<Span> spans;
    const absl::Status status = Search({&text, 1}, &scratch, [&](const Span& span) {
      spans.push_back(span);
      return absl::OkStatus();
    });
    if (!status.ok() || spans.size() != 1) continue;
    characters_[c] = spans[0].is_match ? Character::kMatches : Character::kDiffers;
  }
}

absl::Status Regex::FindSpans(std::string_view text, RegexScratch* scratch, SpanSink sink) const {
  if (text.size() == 1) {
    const Character character = characters_[static_cast<unsigned char>(text[0])];
    if (character != Character::kUnknown) return sink({0, 1, character == Character::kMatches});
  }
  return Search(text, scratch, sink);
}

absl::Status Regex::Search(std::string_view text, RegexScratch* scratch, SpanSink sink) const {
  std::string replaced;
  const std::string_view subject = ReplaceRecentCharacters(text, &replaced) ? replaced : text;
  // pcre2_match would call the same function, after checks that take longer than a short piece's
  // match.
  const auto match = is_compiled_ ? pcre2_jit_match : pcre2_match;
  size_t covered = 0;        // the spans so far end here
  size_t start = 0;          // the search goes on here
  bool has_matched = false;  // a match ends at `covered`
  while (start <= subject.size()) {
    const int result =
        match(code_.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), start,
              PCRE2_NO_UTF_CHECK, scratch->match_data_, scratch->match_context_);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::ResourceExhaustedError(
          Concat("the tokenizer's split pattern gives up on this text: ", ErrorText(result)));
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch->match_data_);
    const size_t begin = bounds[0];
    const size_t end = bounds[1];
    start = end;
    if (begin >= end) {
      // An empty match moves on by one character, and does not count right after another match.
      start += end < subject.size() ? DecodeChar(subject.data() + end).num_bytes : 1;
      if (has_matched && end == covered) continue;
    }
    if (covered < begin) RETURN_IF_ERROR(sink({covered, begin, false}));
    RETURN_IF_ERROR(sink({begin, end, true}));
    covered = end;
    has_matched = true;
  }
  return covered < text.size() ? sink({covered, text.size(), false}) : absl::OkStatus();
}

}  // namespace quire
