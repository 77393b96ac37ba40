// The parser's place in the tokens. One parse, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/text/chat/jinja/syntax/lexer.h"

namespace quire::jinja {

class TokenStream {
 public:
  // `tokens` end in a kEnd.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }

  void Advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }

  bool IsKind(TokenKind kind) const { return current().kind == kind; }
  bool IsName(std::string_view name) const {
    return IsKind(TokenKind::kName) && current().text == name;
  }
  bool IsOperator(std::string_view symbol) const {
    return IsKind(TokenKind::kOperator) && current().text == symbol;
  }

  bool SkipName(std::string_view name) { return Skip(IsName(name)); }
  bool SkipOperator(std::string_view symbol) { return Skip(IsOperator(symbol)); }

  absl::Status ExpectOperator(std::string_view symbol);
  absl::Status ExpectName(std::string_view name);
  absl::Status Expect(TokenKind kind, std::string_view description);
  // Any name, which becomes `*name`.
  absl::Status ReadName(std::string* name);

  // "line 3: expected ')', got 'x'"
  absl::Status Expected(std::string_view what) const;

 private:
  bool Skip(bool matches) {
    if (matches) Advance();
    return matches;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace quire::jinja
