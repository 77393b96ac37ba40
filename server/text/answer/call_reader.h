// CallReader: one call of a tool, read as it comes, in one of the ways that models write it. Once
// the call has begun for the client it stays a call, and its arguments end as JSON, whatever the
// model makes of them. A text that is not a call by then is text. Time grows as the text. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/text/answer/answer_events.h"
#include "server/text/answer/parameter_value.h"

namespace quire {

inline constexpr size_t kMaxFunctionNameBytes = 256;

// The types that the parameters of a function may have.
struct ToolParameters {
  absl::flat_hash_map<std::string, JsonTypes> types;
  JsonTypes others = kJsonText;

  JsonTypes TypesOf(const std::string& parameter) const {
    const auto found = types.find(parameter);
    return found == types.end() ? others : found->second;
  }
};

// The functions that a request offers.
using ToolFunctions = absl::flat_hash_map<std::string, ToolParameters>;

class CallReader {
 public:
  enum class State : uint8_t { kReading, kDone, kBroken };

  // `tag` is the text that announced the call.
  explicit CallReader(std::string tag) : raw_(std::move(tag)) {}
  virtual ~CallReader() = default;

  // Takes the text that belongs to the call.
  virtual State Take(std::string_view* text, AnswerEvents* events) = 0;
  // The answer ends here.
  virtual void Finish(AnswerEvents* events) = 0;

  // TakeRaw: the text that was taken for a call and is none. TakeRest, after it: the text behind it
  // that was taken to see that.
  std::string TakeRaw() { return std::exchange(raw_, {}); }
  std::string TakeRest() { return std::exchange(mark_, {}); }

 protected:
  std::string raw_;   // with the tag, until the call begins
  std::string mark_;  // may become one of the marks of a call
};

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace quire
