#include "tools/client/output/terminal_text.h"

#include <unistd.h>
#include <utf8proc.h>

#include <cstdio>
#include <functional>

#include "absl/strings/str_format.h"
#include "server/text/utf8.h"

namespace quire::client {

namespace {

// Calls `visit` with each character's code (-1 for a byte that is not UTF-8) and its bytes.
void ForEachCharacter(std::string_view text,
                      const std::function<void(int32_t, std::string_view)>& visit) {
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    visit(character.code, text.substr(at, character.size));
    at += character.size;
  }
}

bool IsControl(int32_t code) { return (code >= 0 && code < 0x20) || (code >= 0x7F && code < 0xA0); }

}  // namespace

std::string TerminalSafe(std::string_view text) {
  std::string safe;
  ForEachCharacter(text, [&](int32_t code, std::string_view bytes) {
    if (code < 0) {
      safe += "\uFFFD";
    } else if (!IsControl(code) || code == '\n' || code == '\t') {
      safe += bytes;
    } else if (code < 0x80) {
      safe += {'^', static_cast<char>(code ^ 0x40)};
    } else {
      safe += absl::StrFormat("<U+%04X>", code);
    }
  });
  return safe;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  ForEachCharacter(text, [&](int32_t code, std::string_view) {
    width += code < 0 ? 1 : static_cast<size_t>(utf8proc_charwidth(code));
  });
  return width;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  ForEachCharacter(text, [&](int32_t code, std::string_view bytes) {
    if (code == '"' || code == '\\') {
      quoted += {'\\', static_cast<char>(code)};
    } else if (code == '\n') {
      quoted += "\\n";
    } else if (code == '\t') {
      quoted += "\\t";
    } else if (code < 0) {
      quoted += absl::StrFormat("\\x%02x", static_cast<unsigned char>(bytes[0]));
    } else if (IsControl(code)) {
      quoted += absl::StrFormat("\\u%04x", code);
    } else {
      quoted += bytes;
    }
  });
  return quoted + "\"";
}

void PrintText(std::string_view text) {
  static const bool kIsTerminal = isatty(STDOUT_FILENO) != 0;
  const std::string shown = kIsTerminal ? TerminalSafe(text) : std::string(text);
  (void)std::fwrite(shown.data(), 1, shown.size(), stdout);
  (void)std::fflush(stdout);
}

}  // namespace quire::client
