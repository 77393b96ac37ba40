#include "server/text/chat/jinja/syntax/token_stream.h"

#include "server/text/chat/jinja/values/error.h"

namespace quire::jinja {
namespace {

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kData:
      return "text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    default:
      return Concat("'", token.text, "'");
  }
}

}  // namespace

absl::Status TokenStream::Expected(std::string_view what) const {
  return SyntaxError(line(), "expected ", what, ", got ", Describe(current()));
}

absl::Status TokenStream::ExpectOperator(std::string_view symbol) {
  return SkipOperator(symbol) ? absl::OkStatus() : Expected(Concat("'", symbol, "'"));
}

absl::Status TokenStream::ExpectName(std::string_view name) {
  return SkipName(name) ? absl::OkStatus() : Expected(Concat("'", name, "'"));
}

absl::Status TokenStream::Expect(TokenKind kind, std::string_view description) {
  return Skip(IsKind(kind)) ? absl::OkStatus() : Expected(description);
}

absl::Status TokenStream::ReadName(std::string* name) {
  if (!IsKind(TokenKind::kName)) return Expected("a name");
  *name = current().text;
  Advance();
  return absl::OkStatus();
}

}  // namespace quire::jinja
