#include "server/text/chat/jinja/builtins/text_operations.h"

#include <string>

#include "kernels/base/status_macros.h"
#include "server/text/byte_search.h"
#include "server/text/chat/jinja/values/print.h"
#include "server/text/python_text.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

bool IsStripped(std::string_view character, int32_t code, const Text* characters) {
  if (characters == nullptr) return IsSpace(code);
  return FindBytes(characters->bytes(), character, 0) != std::string_view::npos;
}

bool StartsWord(int32_t previous, CaseMapping mapping) {
  if (mapping == CaseMapping::kTitle) return !IsAlpha(previous);
  return IsSpace(previous) || previous == '-' || previous == '(' || previous == '{' ||
         previous == '[' || previous == '<';
}

std::string Unchanged(int32_t code) {
  std::string text;
  AppendUtf8(static_cast<char32_t>(code), &text);
  return text;
}

std::string MapCharacter(int32_t code, int32_t previous, bool is_first, CaseMapping mapping) {
  switch (mapping) {
    case CaseMapping::kUpper:
      return ToUpper(code);
    case CaseMapping::kLower:
      return ToLower(code);
    case CaseMapping::kSwap:
      if (IsUpper(code)) return ToLower(code);
      return IsLower(code) ? ToUpper(code) : Unchanged(code);
    case CaseMapping::kCapitalize:
      return is_first ? ToTitle(code) : ToLower(code);
    case CaseMapping::kTitle:
      return is_first || StartsWord(previous, mapping) ? ToTitle(code) : ToLower(code);
    case CaseMapping::kTitleFilter:
      break;
  }
  return is_first || StartsWord(previous, mapping) ? ToUpper(code) : ToLower(code);
}

// Puts `to` before every character and at the end, as Python does for an empty `from`.
absl::StatusOr<Text> Interleave(Runtime& runtime, const Text& text, const Text& to,
                                Integer max_count) {
  Text result;
  size_t at = 0;
  for (; at < text.size() && max_count != 0; --max_count) {
    const size_t end = at + CharacterAt(text.bytes(), at).size;
    RETURN_IF_ERROR(runtime.Append(&result, to));
    RETURN_IF_ERROR(runtime.Append(&result, text, at, end));
    at = end;
  }
  RETURN_IF_ERROR(runtime.Append(&result, text, at, text.size()));
  if (max_count != 0) RETURN_IF_ERROR(runtime.Append(&result, to));
  return result;
}

constexpr int32_t kCapitalSigma = 0x3A3;

bool IsLineEnd(int32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

// End of the line that starts at `begin`, without and with its line break.
struct Line {
  size_t content_end;
  size_t end;
};

Line FindLine(std::string_view text, size_t begin) {
  size_t at = begin;
  while (at < text.size()) {
    const Character character = CharacterAt(text, at);
    if (IsLineEnd(character.code)) {
      const bool is_pair = character.code == '\r' && text.substr(at + 1, 1) == "\n";
      return {at, at + character.size + (is_pair ? 1 : 0)};
    }
    at += character.size;
  }
  return {at, at};
}

}  // namespace

Text Strip(const Text& text, const Text* characters, StripSides sides) {
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  while (sides != StripSides::kRight && begin < end) {
    const Character character = CharacterAt(bytes, begin);
    if (!IsStripped(bytes.substr(begin, character.size), character.code, characters)) break;
    begin += character.size;
  }
  while (sides != StripSides::kLeft && begin < end) {
    const size_t last = PreviousCharacter(bytes, end);
    if (!IsStripped(bytes.substr(last, end - last), CharacterAt(bytes, last).code, characters))
      break;
    end = last;
  }
  return text.Slice(begin, end);
}

absl::StatusOr<Text> MapCase(Runtime& runtime, const Text& text, CaseMapping mapping) {
  // Characters are mapped one by one: a step each, as for any evaluation.
  RETURN_IF_ERROR(runtime.Charge(1 + text.size()));
  Text result;
  int32_t previous = 0;
  size_t context = 0;  // where the text begins that decides what a sigma becomes
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text.bytes(), at);
    if (character.code < 0) {
      result.Append(text, at, at + 1);
    } else {
      std::string mapped = MapCharacter(character.code, previous, at == 0, mapping);
      const size_t end = at + character.size;
      // The title filter maps the first letter of a word and the rest by themselves.
      const bool by_itself = mapping == CaseMapping::kTitleFilter;
      if (by_itself && (at == 0 || StartsWord(previous, mapping))) context = end;
      if (character.code == kCapitalSigma && mapped == "σ" && at >= context &&
          EndsGreekWord(text.bytes().substr(context), at - context, end - context)) {
        mapped = "ς";
      }
      result.Append(mapped, text.OriginAt(at));
    }
    previous = character.code;
    at += character.size;
  }
  return result;
}

absl::StatusOr<Text> Replace(Runtime& runtime, const Text& text, const Text& from, const Text& to,
                             Integer max_count) {
  RETURN_IF_ERROR(runtime.Charge(1 + text.size() / kBytesPerStep));
  if (from.empty()) return Interleave(runtime, text, to, max_count);
  Text result;
  size_t at = 0;
  for (; max_count != 0; --max_count) {
    const size_t found = FindBytes(text.bytes(), from.bytes(), at);
    if (found == std::string_view::npos) break;
    RETURN_IF_ERROR(runtime.Append(&result, text, at, found));
    RETURN_IF_ERROR(runtime.Append(&result, to));
    at = found + from.size();
  }
  RETURN_IF_ERROR(runtime.Append(&result, text, at, text.size()));
  return result;
}

absl::StatusOr<std::vector<Value>> SplitLines(Runtime& runtime, const Text& text, bool keep_ends) {
  std::vector<Value> lines;
  for (size_t begin = 0; begin < text.size();) {
    const Line line = FindLine(text.bytes(), begin);
    ASSIGN_OR_RETURN(Value value,
                     runtime.NewText(text.Slice(begin, keep_ends ? line.end : line.content_end)));
    lines.push_back(std::move(value));
    begin = line.end;
  }
  return lines;
}

absl::StatusOr<Text> Join(Runtime& runtime, const Text& separator,
                          const std::vector<Value>& items) {
  Text result;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) RETURN_IF_ERROR(runtime.Append(&result, separator));
    if (items[i].text() != nullptr) {
      RETURN_IF_ERROR(runtime.Append(&result, *items[i].text()));
    } else {
      ASSIGN_OR_RETURN(const Text item, ToText(runtime, items[i]));
      RETURN_IF_ERROR(runtime.Append(&result, item));
    }
  }
  return result;
}

absl::StatusOr<Text> Indent(Runtime& runtime, const Text& text, const Text& indentation, bool first,
                            bool blank) {
  // Jinja adds a line break before it splits, so that a text that ends in one keeps it.
  Text lines = text;
  lines.Append("\n", Origin::kUser);
  Text result;
  if (first) RETURN_IF_ERROR(runtime.Append(&result, indentation));
  for (size_t begin = 0; begin < lines.size();) {
    const Line line = FindLine(lines.bytes(), begin);
    const bool is_blank = line.content_end == begin;
    if (begin > 0) {
      RETURN_IF_ERROR(runtime.Append(&result, "\n", lines.OriginAt(begin - 1)));
      if (blank || !is_blank) RETURN_IF_ERROR(runtime.Append(&result, indentation));
    }
    RETURN_IF_ERROR(runtime.Append(&result, lines, begin, line.content_end));
    begin = line.end;
  }
  return result;
}

}  // namespace quire::jinja
