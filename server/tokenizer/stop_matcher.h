// Finds stop strings in a stream of text, across the borders of its parts, and holds back what
// could still become one. One sequence, one thread at a time. Copies share what they look for.
//
// The first stop string to be complete wins, whatever the parts are; of several that are complete
// at the same character, the first in the list. vLLM checks in list order after each token, which
// is the same whenever a token completes at most one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopMatcher {
 public:
  // `stop_strings` are valid UTF-8 and not empty (the request's validation sees to it); the list
  // may be empty.
  StopMatcher(std::vector<std::string> stop_strings, bool include_stop_in_output);

  // Takes the next part of the text and returns what may be sent; valid until the next call. After
  // a match returns nothing. `may_stop` is false until min_tokens are there: a stop string that is
  // complete by then is ordinary text.
  std::string_view Append(std::string_view text, bool may_stop = true);

  // Ends the text and returns what was held back; nothing after a match.
  std::string_view Flush();

  // The index of the stop string that was found.
  std::optional<size_t> matched() const { return matched_; }
  const std::string& stop_string(size_t index) const { return (*patterns_)[index].text; }

 private:
  // One stop string, made ready (Knuth-Morris-Pratt).
  struct Pattern {
    std::string text;
    std::vector<size_t>
        borders;  // borders[i]: longest proper prefix that text[0..i] also ends with

    // How much of it a text ends with that ended with `num_matched` before `c`.
    size_t Advance(size_t num_matched, char c) const;
  };

  std::string_view Release(size_t num_bytes);

  std::shared_ptr<const std::vector<Pattern>> patterns_;
  std::vector<size_t> num_matched_;  // of each pattern: how much of it the text so far ends with
  const bool include_stop_in_output_;
  std::optional<size_t> matched_;
  std::string held_;      // the end of the text, not returned yet
  std::string released_;  // what the last call returned
};

}  // namespace quire
