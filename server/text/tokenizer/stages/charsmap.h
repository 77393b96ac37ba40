// The normalizer that SentencePiece compiled into a model, as T5, XLM-R and their kind have it: a
// table of texts and their replacements. Applied as the reference does, which is not what
// SentencePiece does. Immutable after Parse; any thread. The table is untrusted: whatever it holds,
// valid UTF-8 comes out of valid UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace quire {

class Charsmap {
 public:
  // `blob`: the size in bytes of a double-array trie (Darts), the trie, and the replacements, each
  // ended by a zero byte; all numbers are little-endian and of 32 bits. INVALID_ARGUMENT when it
  // has no trie or replacements that are not UTF-8.
  static absl::StatusOr<Charsmap> Parse(std::string_view blob);

  // Appends `text`, normalised, to `out`; stops early once `out` has more than `max_bytes`.
  void Append(std::string_view text, size_t max_bytes, std::string* out) const;

 private:
  Charsmap() = default;
  std::optional<std::string_view> Find(std::string_view text) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace quire
