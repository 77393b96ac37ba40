#include "server/text/tokenizer/stages/charsmap.h"

#include <algorithm>

#include "server/text/graphemes.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

// The fields of one unit of a Darts trie.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 1 << 9) >> 6); }

uint32_t ReadLittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Longer clusters are replaced character by character only.
constexpr size_t kLongestReplacedCluster_bytes = 5;

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Parse(std::string_view blob) {
  constexpr size_t kUnit = sizeof(uint32_t);
  const size_t num_units = blob.size() < kUnit ? 0 : ReadLittleEndian(blob) / kUnit;
  if (num_units == 0 || blob.size() / kUnit - 1 < num_units) {
    return InvalidArgument("the precompiled_charsmap is cut off");
  }
  Charsmap map;
  map.trie_.reserve(num_units);
  blob.remove_prefix(kUnit);
  for (size_t i = 0; i < num_units; ++i, blob.remove_prefix(kUnit)) {
    map.trie_.push_back(ReadLittleEndian(blob));
  }
  if (FindInvalidUtf8(blob).has_value()) {
    return InvalidArgument("the precompiled_charsmap has replacements that are not UTF-8");
  }
  map.replacements_ = blob;
  return map;
}

// The replacement of the shortest text of the table that `text` starts with. (The longest would
// make more sense; SentencePiece takes that.)
std::optional<std::string_view> Charsmap::Find(std::string_view text) const {
  uint32_t at = Offset(trie_[0]);
  for (const char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    at ^= byte;
    if (byte == 0 || at >= trie_.size() || Label(trie_[at]) != byte) return std::nullopt;
    const bool has_leaf = HasLeaf(trie_[at]);
    at ^= Offset(trie_[at]);
    if (!has_leaf) continue;
    if (at >= trie_.size()) return std::nullopt;
    const size_t begin = Value(trie_[at]);
    // A damaged table must not cut a character.
    const std::string_view rest =
        std::string_view(replacements_).substr(std::min(begin, replacements_.size()));
    if (!rest.empty() && ClassifyUtf8Prefix(rest).kind != Utf8Start::kCharacter) {
      return std::nullopt;
    }
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

void Charsmap::Append(std::string_view text, size_t max_bytes, std::string* out) const {
  while (!text.empty() && out->size() <= max_bytes) {
    std::string_view cluster = text.substr(0, GraphemeBytes(text));
    text.remove_prefix(cluster.size());
    if (cluster.size() <= kLongestReplacedCluster_bytes) {
      // A text of the table that only begins the cluster replaces all of it nevertheless.
      if (const auto replacement = Find(cluster)) {
        out->append(*replacement);
        continue;
      }
    }
    while (!cluster.empty()) {
      const std::string_view character = cluster.substr(0, DecodeChar(cluster.data()).num_bytes);
      out->append(Find(character).value_or(character));
      cluster.remove_prefix(character.size());
    }
  }
}

}  // namespace quire
