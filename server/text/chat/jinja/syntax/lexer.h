// Cuts a template into tokens, with Jinja's rules for white space around tags: trim_blocks and
// lstrip_blocks are on, one line break at the end of the source is dropped. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

enum class TokenKind {
  kData,           // Literal text of the template.
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // Unescaped for kString.
  Integer integer = 0;
  double number = 0;
};

// Always ends in one kEnd. An error names the line.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// "line 3: ", and the pieces.
template <typename... Pieces>
absl::Status SyntaxError(int line, const Pieces&... pieces) {
  return Error("line ", line, ": ", pieces...);
}

}  // namespace quire::jinja
