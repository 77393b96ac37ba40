// Finds stop strings in a stream of text, across the borders of its parts, and holds back text that
// could still become one. One sequence, one thread at a time.
//
// The first stop string to be complete wins, however the text is cut into parts. If several are
// complete at the same character, the first in the list wins. vLLM checks in list order after each
// token, which is the same whenever a token completes at most one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// The stop strings of one request, which all of its continuations look for. Immutable; any thread.
class StopStrings {
 public:
  // Valid UTF-8, not empty and shorter than 2^16 bytes (the request's validation sees to it); the
  // list may be empty.
  explicit StopStrings(std::vector<std::string> texts);

  size_t size() const { return patterns_.size(); }
  const std::string& text(size_t index) const { return patterns_[index].text; }

 private:
  friend class StopMatcher;
  struct Pattern {
    std::string text;
    // borders[i]: longest proper prefix that text[0..i] also ends with (Knuth-Morris-Pratt)
    std::vector<uint16_t> borders;
  };
  std::vector<Pattern> patterns_;
};

class StopMatcher {
 public:
  StopMatcher(std::shared_ptr<const StopStrings> stop_strings, bool include_stop_in_output);

  // Takes the next part of the text and returns the text that may be sent; valid until the next
  // call. After a match it returns nothing. `may_stop` is false until min_tokens are there: a stop
  // string that is complete by then is ordinary text.
  std::string_view Append(std::string_view text, bool may_stop = true);

  // Ends the text and returns the text that was held back; nothing after a match.
  std::string_view Flush();

  // The index of the stop string that was found.
  std::optional<size_t> matched() const { return matched_; }
  const std::string& stop_string(size_t index) const { return stop_strings_->text(index); }

 private:
  void Advance(size_t index, char c);
  bool is_complete(size_t index) const {
    return num_matched_[index] == stop_strings_->text(index).size();
  }
  std::string_view Release(size_t num_bytes);

  std::shared_ptr<const StopStrings> stop_strings_;
  std::vector<uint16_t> num_matched_;  // how much of each stop string the text so far ends with
  const bool include_stop_in_output_;
  std::optional<size_t> matched_;
  std::string held_;      // the end of the text, not returned yet
  std::string released_;  // the text that the last call returned
};

}  // namespace quire
