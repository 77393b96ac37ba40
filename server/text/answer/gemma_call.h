// Calls of tools as Gemma 4 writes them:
//
//   call:NAME{KEY:<|"|>text<|"|>,KEY:5,KEY:[true,{KEY:null}]}
//
// Their arguments become JSON as they come; arguments that are not written in this form are mended
// as JSON is. The tag that ends a call ends it also within a text. One call, one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "server/text/answer/call_reader.h"
#include "server/text/answer/json_mender.h"
#include "server/text/answer/tag_finder.h"

namespace quire {

class GemmaCallReader final : public CallReader {
 public:
  static constexpr std::string_view kQuote = "<|\"|>";
  static constexpr std::string_view kBeginTag = "<|tool_call>";
  static constexpr std::string_view kEndTag = "<tool_call|>";

  explicit GemmaCallReader(std::string tag);

  State Take(std::string_view* text, AnswerEvents* events) override;
  void Finish(AnswerEvents* events) override;

 private:
  // Whether `c`, before the arguments, may belong to a call.
  bool TakeHead(char c);

  // Each of these appends JSON and returns whether the text belongs to the arguments.
  bool TakeArguments(std::string_view* text, std::string* json);
  bool AddTag(std::string_view tag, std::string* json);
  bool AddQuote(std::string* json);
  bool Add(char c, std::string* json);
  bool AddToKey(char c, std::string* json);
  bool AddToText(char c, std::string* json);
  bool AddAfterText(char c, std::string* json);

  std::string name_;
  bool name_ends_ = false;  // white space came after it
  bool has_begun_ = false;
  TagFinder tags_;
  JsonMender arguments_;     // sees quotes around texts and keys
  bool is_in_text_ = false;  // between two of kQuote
  bool is_key_ = false;      // the text is one
  bool is_in_key_ = false;   // one without quotes
  std::string spaces_;       // within or after it
  bool is_after_text_ = false;
};

}  // namespace quire
