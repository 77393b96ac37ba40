// HarmonyHeader: the header of one message as gpt-oss writes it, read as it comes:
//
//   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>
//
// The recipient may stand before the channel, and the type of the content may have no tag. A text
// that turns out not to be a header is text. One message, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// The special tokens of harmony, and the words that are written with them.
namespace harmony {
inline constexpr std::string_view kStart = "<|start|>";
inline constexpr std::string_view kChannel = "<|channel|>";
inline constexpr std::string_view kConstrain = "<|constrain|>";
inline constexpr std::string_view kMessage = "<|message|>";
inline constexpr std::string_view kEnd = "<|end|>";
inline constexpr std::string_view kCall = "<|call|>";
inline constexpr std::string_view kReturn = "<|return|>";
inline constexpr std::string_view kTags[] = {kStart, kChannel, kConstrain, kMessage,
                                             kEnd,   kCall,    kReturn};
// Begins a message of the assistant within an answer.
inline constexpr std::string_view kNextMessage = "<|start|>assistant";
// Before the name of a function, in a recipient.
inline constexpr std::string_view kFunctions = "functions.";
}  // namespace harmony

class HarmonyHeader {
 public:
  enum class State : uint8_t {
    kReading,
    kMessage,  // it has ended; the message's text follows
    kEmpty,    // it has ended, and the message with it
    kText,     // this is no header, or it has no end: `rest` is the message's text so far
  };

  // `follows_start` if the tag that begins a message came before.
  explicit HarmonyHeader(bool follows_start = false) : has_tag_(follows_start) {}

  State Take(char c);
  // The answer ends here: `rest` is the part of it that is not a header.
  void Finish();

  const std::string& channel() const { return channel_; }
  const std::string& recipient() const { return recipient_; }
  const std::string& rest() const { return rest_; }

 private:
  State TakeTag();
  void EndWord();
  State EndAsText();
  bool MayBeWord() const;

  std::string raw_;
  std::string part_;  // the word or tag of the header that is being read
  bool has_tag_;
  bool awaits_channel_ = false;
  bool has_type_tag_ = false;
  std::string channel_;
  std::string recipient_;
  size_t num_types_ = 0;    // further words: the type of the content is one
  size_t types_begin_ = 0;  // in `raw_`
  std::string rest_;
};

}  // namespace quire
