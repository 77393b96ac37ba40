// The questions of `quality`: JSON lines, each of one of three kinds by the members that it has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/workload.h"

namespace quire::bench {

enum class QualityKind : uint8_t {
  kAnswer,  // "prompt" or "messages": what is generated is compared with "answer", if there is one
  kText,    // "text": how likely it is
  kChoice,  // "prompt" and "choices": which of them is likeliest after it; "answer" is the right
            // one
};

struct QualityItem {
  QualityKind kind = QualityKind::kAnswer;
  int64_t line = 0;  // of the file
  std::string task = {};
  WorkItem request = {};                  // of kChoice without a choice
  std::vector<std::string> answers = {};  // any of them is right; none: only to be compared
  std::vector<std::string> choices = {};
  size_t right_choice = 0;
  std::string fingerprint = {};  // of all that the line says
};

struct QualityFileOptions {
  int64_t every = 1;                   // only every n-th line
  int64_t max_tokens = 256;            // where the line says nothing
  std::vector<std::string> stop = {};  // likewise
  bool takes_messages = true;          // what the backend can ask for
  bool tells_likelihoods = true;
};

// Errors (exit code 64) name the line and what it lacks.
absl::StatusOr<std::vector<QualityItem>> ReadQualityItems(const std::string& path,
                                                          const QualityFileOptions& options);

// How a generated text is compared with an answer.
struct MatchOptions {
  bool ignore_case = false;         // of ASCII letters
  bool ignore_punctuation = false;  // of ASCII
  std::string answer_after = {};    // only what comes after the last of these in the text counts
};

// Whether the text is one of the answers, but for white space around them; of an answer that is a
// JSON object or list, whether it is the same value.
bool IsRight(std::string text, const std::vector<std::string>& answers,
             const MatchOptions& options);

}  // namespace quire::bench
