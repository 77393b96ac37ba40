// JsonMender: turns an object or a list, as models write JSON, into JSON as it comes. Text that is
// JSON stays as it is, byte by byte. The sense of other text is kept if it is clear: Python's words
// and quotes, keys without quotes, quotes and line breaks within a string, commas, colons and
// brackets that are missing or too many. For any input, the output is JSON once the value has
// ended. Only these wait: a key until its colon, a word until its end, and the white space after a
// quote. Time grows as the text. One value, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class JsonMender {
 public:
  // Takes the next character and appends to `*json` the text that is certain by now. False if `c`
  // does not belong to the value, which has ended before it.
  bool Add(char c, std::string* json);
  // The text ends here: closes every string and bracket that is open.
  void Finish(std::string* json);

  bool is_done() const { return is_done_; }
  // Whether a key may come next.
  bool is_before_key() const { return at_ == At::kKey; }
  bool is_in_string() const { return at_ == At::kString && !is_key_; }

 private:
  enum class At : uint8_t { kStart, kKey, kBareKey, kString, kQuote, kColon, kValue, kWord, kNext };
  struct Level {
    char opened_by;  // '{', '[', or '(' as Python writes lists
    bool has_items = false;
    bool is_object() const { return opened_by == '{'; }
  };

  bool AddToKey(char c, std::string* json);
  bool AddToString(char c, std::string* json);
  void AddToEscape(char c, std::string* json);
  bool AddAfterQuote(char c, std::string* json);
  bool AddToColon(char c, std::string* json);
  bool AddToValue(char c, std::string* json);
  bool AddToWord(char c, std::string* json);
  bool AddToNext(char c, std::string* json);

  bool Open(char c, std::string* json);
  bool Close(char c, std::string* json);
  void CloseLevel(std::string* json);
  // The value ends before the character.
  bool End(std::string* json);
  void BeginString(char quote, bool is_key);
  void BeginItem(std::string* json);
  void BeginMember(std::string* json);
  void BeginValue(std::string* json);
  void EndWord(std::string* json);
  void AddComma();

  bool IsCloser(char c) const;
  std::string* Target(std::string* json) { return is_key_ ? &key_ : json; }

  At at_ = At::kStart;
  bool is_done_ = false;
  std::vector<Level> levels_;
  std::string pending_;     // white space, perhaps with a comma, before the next token
  bool has_comma_ = false;  // there is one in it
  std::string key_;         // as JSON
  bool is_key_ = false;     // the string is one
  bool is_bare_ = false;    // the key has no quotes
  char quote_ = '"';
  std::string spaces_;  // after a quote that may be its last
  std::string escape_;  // the part of an escape that has come
  std::string word_;    // a number, or a text without quotes
};

// The text of a JSON string without its quotes. Bytes as they are, so that parts of a character
// stay together.
std::string EscapedForJson(std::string_view text);

// The JSON value of a text without quotes and brackets: a number or a word, else a text.
std::string WordToJson(std::string_view word);

// An object or a list with white space around it. False if there is more, or none.
bool MendJson(std::string_view text, std::string* json);

}  // namespace quire
