// Text from others on its way to a terminal. Pure functions, except PrintText; any thread.
#pragma once

#include <string>
#include <string_view>

namespace quire::client {

// `text` with control characters other than line breaks and tabs in caret notation ("^[" for
// escape): a model's answer must not move the cursor, change colours or set the window's title.
// Bytes that are not UTF-8 become U+FFFD.
std::string TerminalSafe(std::string_view text);

// Columns that `text` takes on a terminal.
size_t DisplayWidth(std::string_view text);

// `text` in double quotes, with quotes, backslashes and control characters escaped.
std::string Quoted(std::string_view text);

// Writes `text` to standard output at once. If that is a terminal, the text is first made
// TerminalSafe.
void PrintText(std::string_view text);

}  // namespace quire::client
