// Regular expressions of tokenizer.json: written for Oniguruma, run by PCRE2's just-in-time
// compiler with the classes of Unicode 16.0. A compiled Regex is immutable and may be shared by
// threads; each thread brings its own RegexScratch. Matching takes no machine stack that grows with
// the text, and bounded time and heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace quire {

// A stretch [begin, end) of a text in bytes, and whether a pattern matched it.
struct Span {
  size_t begin;
  size_t end;
  bool is_match;
  bool operator==(const Span&) const = default;
};

// Takes the spans of a text one by one: a long text's would take many times its memory. An error
// ends the search.
using SpanSink = absl::FunctionRef<absl::Status(const Span&)>;

// The working memory of matching. One thread at a time.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  pcre2_real_match_data_8* match_data_;
  pcre2_real_match_context_8* match_context_;
  pcre2_real_jit_stack_8* jit_stack_;
};

class Regex {
 public:
  // Compiles a pattern in Oniguruma's (Ruby) syntax. INVALID_ARGUMENT names the construct that
  // PCRE2 has no equal for, or the place of a syntax error.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

  // Hands `sink` the matches in valid `text` and the gaps between them, in order, covering all of
  // it; it may match with the same scratch. RESOURCE_EXHAUSTED when a match passes PCRE2's limits.
  absl::Status FindSpans(std::string_view text, RegexScratch* scratch, SpanSink sink) const;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  // The effect of the pattern on a piece that is one character of ASCII; earlier steps leave many.
  enum class Character : uint8_t { kUnknown, kMatches, kDiffers };

  Regex(pcre2_real_code_8* code, bool is_compiled) : code_(code), is_compiled_(is_compiled) {}

  void LearnCharacters();
  absl::Status Search(std::string_view text, RegexScratch* scratch, SpanSink sink) const;

  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  bool is_compiled_;                            // to machine code
  std::array<Character, 256> characters_ = {};  // by byte
};

// Rewrites a pattern from Oniguruma's syntax to PCRE2's; see Regex::Compile. Public for tests.
absl::StatusOr<std::string> TranslatePattern(std::string_view pattern);

}  // namespace quire
