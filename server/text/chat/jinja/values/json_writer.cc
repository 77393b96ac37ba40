// ToJson: byte for byte what Python's json.dumps writes.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/print.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, size_t max_bytes, std::string* out)
      : style_(style), max_bytes_(max_bytes), out_(*out) {}

  absl::Status Write(const Value& value) {
    // White space may take much more than what it lays out.
    if (out_.size() > max_bytes_) {
      return Error("the JSON has more than ", max_bytes_, " bytes");
    }
    if (value.text() != nullptr) {
      WriteString(value.text()->bytes());
    } else if (value.list() != nullptr && value.list()->kind <= ListKind::kTuple) {
      return WriteList(value.list()->items);
    } else if (value.dict() != nullptr) {
      return WriteDict(*value.dict());
    } else if (value.is_none()) {
      out_.append("null");
    } else if (value.is_bool()) {
      out_.append(value.boolean() ? "true" : "false");
    } else if (value.is_integer()) {
      out_.append(IntegerToString(value.integer()));
    } else if (value.is_float()) {
      out_.append(FloatText(value.number()));
    } else {
      return Error("a value of type ", value.type_name(), " cannot be written as JSON");
    }
    return absl::OkStatus();
  }

 private:
  static std::string FloatText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatToString(value);
  }

  void WriteString(std::string_view text) {
    out_.push_back('"');
    for (size_t at = 0; at < text.size();) {
      const Character character = CharacterAt(text, at);
      WriteCharacter(character.code, text.substr(at, character.size));
      at += character.size;
    }
    out_.push_back('"');
  }

  void WriteCharacter(int32_t code, std::string_view raw) {
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    const size_t escape =
        code > 0 && code < 0x80 ? kEscaped.find(static_cast<char>(code)) : kEscaped.npos;
    if (escape != kEscaped.npos) {
      out_.push_back('\\');
      out_.push_back(kLetters[escape]);
    } else if (code >= 0 && (code < 0x20 || (style_.ensure_ascii && code > 0x7E))) {
      WriteUnicodeEscape(code);
    } else {
      out_.append(raw);
    }
  }

  void WriteUnicodeEscape(int32_t code) {
    if (code < 0x10000) {
      absl::StrAppendFormat(&out_, "\\u%04x", code);
      return;
    }
    code -= 0x10000;
    absl::StrAppendFormat(&out_, "\\u%04x\\u%04x", 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF));
  }

  absl::Status WriteList(const std::vector<Value>& items) {
    if (items.empty()) {
      out_.append("[]");
      return absl::OkStatus();
    }
    out_.push_back('[');
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      NewLine();
      RETURN_IF_ERROR(Write(items[i]));
    }
    --level_;
    NewLine();
    out_.push_back(']');
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict) {
    if (dict.size() == 0) {
      out_.append("{}");
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<const Dict::Entry*> entries, OrderedEntries(dict));
    out_.push_back('{');
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      NewLine();
      RETURN_IF_ERROR(WriteKey(entries[i]->first));
      out_.append(style_.key_separator);
      RETURN_IF_ERROR(Write(entries[i]->second));
    }
    --level_;
    NewLine();
    out_.push_back('}');
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<const Dict::Entry*>> OrderedEntries(const Dict& dict) const {
    std::vector<const Dict::Entry*> entries;
    entries.reserve(dict.size());
    for (const Dict::Entry& entry : dict.entries()) {
      if (style_.sort_keys && entry.first.text() == nullptr) {
        return Error("sort_keys needs keys that are strings");
      }
      entries.push_back(&entry);
    }
    if (style_.sort_keys) {
      std::sort(entries.begin(), entries.end(), [](const Dict::Entry* a, const Dict::Entry* b) {
        return a->first.text()->bytes() < b->first.text()->bytes();
      });
    }
    return entries;
  }

  // JSON keys are strings: Python writes other scalars as their JSON text in quotes.
  absl::Status WriteKey(const Value& key) {
    if (key.text() != nullptr) return Write(key);
    out_.push_back('"');
    RETURN_IF_ERROR(Write(key));
    out_.push_back('"');
    return absl::OkStatus();
  }

  void NewLine() {
    if (!style_.indent) return;
    out_.push_back('\n');
    for (int i = 0; i < level_; ++i) out_.append(*style_.indent);
  }

  const JsonStyle& style_;
  const size_t max_bytes_;
  std::string& out_;
  int level_ = 0;
};

}  // namespace

absl::StatusOr<std::string> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  RETURN_IF_ERROR(runtime.ChargeForWriting(value));
  const size_t layout_bytes = style.item_separator.size() + style.key_separator.size() +
                              (style.indent ? style.indent->size() * value.depth() : 0);
  RETURN_IF_ERROR(runtime.Charge(value.weight() * (layout_bytes / kBytesPerStep)));
  std::string out;
  RETURN_IF_ERROR(JsonWriter(style, runtime.max_text_bytes(), &out).Write(value));
  return out;
}

}  // namespace quire::jinja
