// CallReader: one call of a tool, read as it comes, in one of the ways that models write it. From
// when the call has begun for the client it is a call, and what its arguments are is the model's
// affair; what is no call by then is text. Time grows as the text. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "server/answer/answer_events.h"

namespace quire {

inline constexpr size_t kMaxFunctionNameBytes = 256;

// The functions that a request offers, and which of their parameters are no texts.
using ToolFunctions = absl::flat_hash_map<std::string, absl::flat_hash_set<std::string>>;

class CallReader {
 public:
  enum class State : uint8_t { kReading, kDone, kBroken };

  // `tag` is what announced the call.
  explicit CallReader(std::string tag) : raw_(std::move(tag)) {}
  virtual ~CallReader() = default;

  // Takes what belongs to the call.
  virtual State Take(std::string_view* text, AnswerEvents* events) = 0;
  // The answer ends here.
  virtual void Finish(AnswerEvents*) {}

  // What was taken for a call and is none; then, what came after it and was taken to see that.
  std::string TakeRaw() { return std::exchange(raw_, {}); }
  std::string TakeRest() { return std::exchange(mark_, {}); }

 protected:
  std::string raw_;   // with the tag, until the call begins
  std::string mark_;  // what may become one of the marks of a call
};

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace quire
