// Calls of tools as newer Mistral models write them: NAME[ARGS]{...}, perhaps with [CALL_ID]ID
// before [ARGS], perhaps without either mark. One call, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "server/text/answer/call_reader.h"
#include "server/text/answer/json_mender.h"

namespace quire {

class NamedCallReader final : public CallReader {
 public:
  explicit NamedCallReader(std::string tag) : CallReader(std::move(tag)) {}

  State Take(std::string_view* text, AnswerEvents* events) override;
  void Finish(AnswerEvents* events) override;

 private:
  enum class At : uint8_t { kName, kMark, kId, kBody, kArguments };

  // Whether `c`, before the arguments, may belong to a call.
  bool TakeHead(char c);
  bool TakeMark(char c);

  At at_ = At::kName;
  std::string name_;
  bool name_ends_ = false;  // white space came after it
  JsonMender arguments_;
};

}  // namespace quire
