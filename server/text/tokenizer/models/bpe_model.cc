#include "server/text/tokenizer/models/bpe_model.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/models/byte_level.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kWordStart = "\u2581";  // "▁", SentencePiece's blank
constexpr int32_t kNone = -1;
constexpr int64_t kMergesPerBurn = 512;
constexpr size_t kMergesPerStep = 16;  // of Fuel

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t JoinIndex(uint8_t left, uint8_t right) { return size_t{left} << 8 | right; }

bool IsOneCharacter(std::string_view text) {
  return !text.empty() && DecodeChar(text.data()).num_bytes == text.size();
}

// The offset of the next word after the one that `text` starts with: a "▁" that follows something
// else.
size_t NextWord(std::string_view text) {
  for (size_t from = 1;;) {
    const size_t at = text.find(kWordStart, from);
    if (at == std::string_view::npos) return text.size();
    const bool follows_another =
        at >= kWordStart.size() &&
        text.substr(at - kWordStart.size(), kWordStart.size()) == kWordStart;
    if (!follows_another) return at;
    from = at + kWordStart.size();
  }
}

absl::Status NotInVocabulary(std::string_view what, std::string_view token) {
  return InvalidArgument(what, " \"", token, "\" is not in the vocabulary");
}

}  // namespace

void ModelScratch::Trim() {
  constexpr size_t kKeep = 1 << 14;
  if (symbols.capacity() > kKeep) std::vector<Symbol>().swap(symbols);
  if (queue.capacity() > kKeep) std::vector<uint64_t>().swap(queue);
  if (path.capacity() > kKeep) std::vector<PathNode>().swap(path);
  if (key.capacity() > kKeep) std::string().swap(key);
}

absl::StatusOr<std::unique_ptr<BpeModel>> BpeModel::Create(
    const Vocabulary* vocabulary, BpeOptions options, const std::vector<Merge>& merges,
    const absl::flat_hash_set<TokenId>& special) {
  std::unique_ptr<BpeModel> model(new BpeModel(vocabulary, std::move(options)));
  if (!model->options_.unk_token.empty()) {
    model->unk_id_ = vocabulary->Find(model->options_.unk_token);
    if (model->unk_id_ == kNoToken)
      return NotInVocabulary("the unk_token", model->options_.unk_token);
  }
  RETURN_IF_ERROR(model->AddMerges(merges, special));
  model->IndexSymbols();
  model->never_whole_ = special;
  model->never_whole_.insert(vocabulary->added_ids().begin(), vocabulary->added_ids().end());
  return model;
}

absl::Status BpeModel::AddMerges(const std::vector<Merge>& merges,
                                 const absl::flat_hash_set<TokenId>& special) {
  const bool has_affixes =
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  words_are_separate_ = !options_.is_byte_level && !options_.ignore_merges && !has_affixes &&
                        vocabulary_.FindOfModel(kWordStart) != kNoToken;
  merges_.reserve(merges.size());
  std::string merged;
  TokenId merged_id = kNoToken;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const TokenId left_id = vocabulary_.FindOfModel(left);
    const TokenId right_id = vocabulary_.FindOfModel(right);
    if (left_id == kNoToken) return NotInVocabulary("in merges,", left);
    if (right_id == kNoToken) return NotInVocabulary("in merges,", right);
    const size_t prefix_size = options_.continuing_subword_prefix.size();
    if (right.size() < prefix_size) {
      return InvalidArgument("in merges, \"", right,
                             "\" is shorter than the continuing_subword_prefix");
    }
    merged.assign(left).append(right.substr(prefix_size));
    // Training numbers tokens as it merges them, so the next id is nearly always right: no lookup.
    const bool is_next = vocabulary_.Text(merged_id + 1) == merged;
    merged_id = is_next ? merged_id + 1 : vocabulary_.Find(merged);
    if (merged_id == kNoToken || vocabulary_.added_ids().contains(merged_id))
      return NotInVocabulary("in merges,", merged);
    if (special.contains(merged_id)) continue;
    merges_[PairKey(left_id, right_id)] = {static_cast<uint32_t>(rank), merged_id};
    words_are_separate_ = words_are_separate_ && NextWord(merged) == merged.size();
    if (options_.is_byte_level) IndexJoin(left, right);
  }
  if (has_affixes) joins_.set();
  return absl::OkStatus();
}

// Notes the bytes on both sides of the place where a merge joins its tokens; inside of them, the
// merges that made them did. A token with other characters cannot come from a byte-level text.
void BpeModel::IndexJoin(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return;
  const auto last = ByteLevelByte(DecodeCharBefore(left.data() + left.size()).code_point);
  const auto first = ByteLevelByte(DecodeChar(right.data()).code_point);
  if (last.has_value() && first.has_value()) joins_.set(JoinIndex(*last, *first));
}

void BpeModel::IndexSymbols() {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const uint8_t value = static_cast<uint8_t>(byte);
    byte_ids_[byte] = vocabulary_.FindOfModel(ByteLevelChar(value));
    fallback_ids_[byte] = vocabulary_.FindOfModel(ByteToken(value));
    if (!options_.is_byte_level || byte_ids_[byte] != kNoToken) continue;
    // Unknown bytes may become one token.
    for (size_t other = 0; other < byte_ids_.size(); ++other) {
      joins_.set(JoinIndex(value, other)).set(JoinIndex(other, value));
    }
  }
  ascii_ids_.fill(kNoToken);
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.Text(id);
    if (!IsOneCharacter(text) || vocabulary_.added_ids().contains(id)) continue;
    const char32_t c = DecodeChar(text.data()).code_point;
    if (c < ascii_ids_.size()) {
      ascii_ids_[c] = id;
    } else {
      char_ids_[c] = id;
    }
  }
}

void BpeModel::Encode(std::string_view piece, ModelScratch* scratch,
                      std::vector<TokenId>* ids) const {
  while (!piece.empty()) {
    const size_t end = words_are_separate_ ? NextWord(piece) : piece.size();
    EncodeWord(piece.substr(0, end), scratch, ids);
    if (scratch->gave_up()) return;
    piece.remove_prefix(end);
  }
}

void BpeModel::EncodeWord(std::string_view word, ModelScratch* scratch,
                          std::vector<TokenId>* ids) const {
  if (scratch->cache.Lookup(word, ids)) return;
  const size_t first = ids->size();
  const TokenId whole = options_.ignore_merges ? FindWhole(word, scratch) : kNoToken;
  if (whole != kNoToken) {
    ids->push_back(whole);
  } else {
    for (size_t begin = 0; begin < word.size();) {
      const size_t end = begin + NextCut(word.substr(begin));
      SplitIntoSymbols(word.substr(begin, end - begin), scratch);
      MergeSymbols(scratch);
      if (scratch->gave_up()) return;
      for (const ModelScratch::Symbol& symbol : scratch->symbols) {
        if (symbol.id != kNoToken) ids->push_back(symbol.id);
      }
      begin = end;
    }
  }
  scratch->cache.Insert(word, absl::MakeConstSpan(*ids).subspan(first));
}

TokenId BpeModel::FindWhole(std::string_view word, ModelScratch* scratch) const {
  if (options_.is_byte_level) {
    scratch->key.clear();
    for (const char c : word) scratch->key.append(ByteLevelChar(static_cast<uint8_t>(c)));
    word = scratch->key;
  }
  const TokenId id = vocabulary_.Find(word);
  return never_whole_.contains(id) ? kNoToken : id;
}

// Where the part that `word` starts with ends: no merge happens across. Long words, which hostile
// text is made of, are merged in small parts for it.
size_t BpeModel::NextCut(std::string_view word) const {
  if (!options_.is_byte_level) return word.size();
  size_t end = 1;
  while (end < word.size() && joins_[JoinIndex(word[end - 1], word[end])]) ++end;
  return end;
}

// Fills scratch->symbols with the smallest tokens that spell `word`.
void BpeModel::SplitIntoSymbols(std::string_view word, ModelScratch* scratch) const {
  std::vector<ModelScratch::Symbol>& symbols = scratch->symbols;
  symbols.clear();
  bool has_unknown = false;  // an unknown token is due before the next known one
  for (size_t pos = 0; pos < word.size();) {
    const uint32_t num_bytes = options_.is_byte_level ? 1 : DecodeChar(word.data() + pos).num_bytes;
    const std::string_view character = word.substr(pos, num_bytes);
    const bool is_first = pos == 0;
    pos += num_bytes;
    const bool is_last = pos == word.size();
    const TokenId id = SymbolId(character, is_first, is_last, scratch);
    if (id == kNoToken && options_.byte_fallback &&
        AppendByteTokens(Written(character, is_first, is_last, scratch), scratch))
      continue;
    if (has_unknown && (id != kNoToken || !options_.fuse_unk)) {
      symbols.push_back({unk_id_, kNone, kNone});
      has_unknown = false;
    }
    if (id != kNoToken) {
      symbols.push_back({id, kNone, kNone});
    } else {
      has_unknown = unk_id_ != kNoToken;
    }
  }
  if (has_unknown) symbols.push_back({unk_id_, kNone, kNone});
  CHECK_LT(symbols.size(), static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  const int32_t count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : kNone;
  }
}

TokenId BpeModel::SymbolId(std::string_view character, bool is_first, bool is_last,
                           ModelScratch* scratch) const {
  const bool has_prefix = !is_first && !options_.continuing_subword_prefix.empty();
  const bool has_suffix = is_last && !options_.end_of_word_suffix.empty();
  if (has_prefix || has_suffix)
    return vocabulary_.FindOfModel(Written(character, is_first, is_last, scratch));
  if (options_.is_byte_level) return byte_ids_[static_cast<uint8_t>(character[0])];
  if (character.size() == 1) return ascii_ids_[static_cast<uint8_t>(character[0])];
  const auto it = char_ids_.find(DecodeChar(character.data()).code_point);
  return it == char_ids_.end() ? kNoToken : it->second;
}

// The text by which the vocabulary may know `character`, with the affixes of its place. Lives until
// the next call with the same scratch.
std::string_view BpeModel::Written(std::string_view character, bool is_first, bool is_last,
                                   ModelScratch* scratch) const {
  scratch->key.assign(is_first ? "" : options_.continuing_subword_prefix);
  scratch->key.append(options_.is_byte_level ? ByteLevelChar(static_cast<uint8_t>(character[0]))
                                             : character);
  if (is_last) scratch->key.append(options_.end_of_word_suffix);
  return scratch->key;
}

// Appends the byte fallback tokens of a character as it is written: of its affixes, too, as the
// reference does. False, and nothing, when one of them does not exist.
bool BpeModel::AppendByteTokens(std::string_view written, ModelScratch* scratch) const {
  const size_t old_size = scratch->symbols.size();
  for (const char c : written) {
    const TokenId id = fallback_ids_[static_cast<uint8_t>(c)];
    if (id == kNoToken) {
      scratch->symbols.resize(old_size);
      return false;
    }
    scratch->symbols.push_back({id, kNone, kNone});
  }
  return true;
}

const BpeModel::MergeResult* BpeModel::FindMerge(TokenId left, TokenId right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

// Appends the merge of two neighbours, if there is one, to the queue's memory; true if there is.
bool BpeModel::AppendMerge(int32_t left, int32_t right, ModelScratch* scratch) const {
  const MergeResult* merge = FindMerge(scratch->symbols[left].id, scratch->symbols[right].id);
  if (merge == nullptr) return false;
  scratch->queue.push_back(static_cast<uint64_t>(merge->rank) << 32 | static_cast<uint32_t>(left));
  return true;
}

void BpeModel::QueueMerge(int32_t left, int32_t right, ModelScratch* scratch) const {
  if (!AppendMerge(left, right, scratch)) return;
  std::push_heap(scratch->queue.begin(), scratch->queue.end(), std::greater<>());
}

// Merges the best pair until none is left. Each merge queues at most two more, so a word of n
// symbols takes fewer than 3n queue operations. A symbol that was merged into the one before it has
// no id.
void BpeModel::MergeSymbols(ModelScratch* scratch) const {
  std::vector<ModelScratch::Symbol>& symbols = scratch->symbols;
  std::vector<uint64_t>& queue = scratch->queue;
  queue.clear();
  for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i)
    AppendMerge(i, i + 1, scratch);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t best = queue.back();
    queue.pop_back();
    if (++scratch->num_steps % kMergesPerBurn == 0 &&
        !scratch->Burn(kMergesPerBurn / kMergesPerStep)) {
      return;
    }
    const int32_t left = static_cast<int32_t>(best & 0xFFFFFFFF);
    ModelScratch::Symbol& symbol = symbols[left];
    if (symbol.id == kNoToken || symbol.next == kNone) continue;
    ModelScratch::Symbol& right = symbols[symbol.next];
    // The neighbours may have changed since this was queued.
    const MergeResult* merge = FindMerge(symbol.id, right.id);
    if (merge == nullptr || merge->rank != best >> 32) continue;
    symbol.id = merge->id;
    symbol.next = right.next;
    right.id = kNoToken;
    if (symbol.next != kNone) {
      symbols[symbol.next].previous = left;
      QueueMerge(left, symbol.next, scratch);
    }
    if (symbol.previous != kNone) QueueMerge(symbol.previous, left, scratch);
  }
}

}  // namespace quire
