// The questions of `quality`: JSON lines. The members of a line decide which of three kinds it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/workload.h"

namespace quire::bench {

enum class QualityKind : uint8_t {
  kAnswer,  // "prompt" or "messages": the answer is compared with "answer", if there is one
  kText,    // "text": how likely it is
  kChoice,  // "prompt" and "choices": the likeliest choice after it; "answer" is the right one
};

struct QualityItem {
  QualityKind kind = QualityKind::kAnswer;
  int64_t line = 0;  // of the file
  std::string task = {};
  WorkItem request = {};                  // for kChoice without a choice
  std::vector<std::string> answers = {};  // each of them is right; none: a run only compares
  std::vector<std::string> choices = {};
  size_t right_choice = 0;
  std::string fingerprint = {};  // of the whole line
};

struct QualityFileOptions {
  int64_t every = 1;                   // only every n-th line
  int64_t max_tokens = 256;            // if the line says nothing
  std::vector<std::string> stop = {};  // if the line says nothing
  bool takes_messages = true;          // abilities of the backend
  bool tells_likelihoods = true;
};

// Errors (exit code 64) name the line and the missing member.
absl::StatusOr<std::vector<QualityItem>> ReadQualityItems(const std::string& path,
                                                          const QualityFileOptions& options);

// How a generated text is compared with an answer.
struct MatchOptions {
  bool ignore_case = false;         // of ASCII letters
  bool ignore_punctuation = false;  // of ASCII
  std::string answer_after = {};    // only text after the last occurrence of this counts
};

// Whether the text is one of the answers, apart from white space around them. If an answer is a
// JSON object or list, the text must have the same value.
bool IsRight(std::string text, const std::vector<std::string>& answers,
             const MatchOptions& options);

}  // namespace quire::bench
