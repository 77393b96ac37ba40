#include "server/text/tokenizer/models/unigram_model.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/base/check.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/models/byte_level.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr double kUnknownPenalty = 10;      // below the lowest score of the vocabulary
constexpr size_t kMaxTokenBytes = 1 << 10;  // bounds the work at each byte of a text
constexpr size_t kCharactersPerBurn = 512;  // of Fuel, a step for each eight

}  // namespace

absl::StatusOr<std::unique_ptr<UnigramModel>> UnigramModel::Create(
    const UnigramOptions& options, const absl::flat_hash_set<TokenId>& special) {
  CHECK_EQ(options.texts.size(), options.scores.size());
  CHECK(options.unk_id >= 0 && static_cast<size_t>(options.unk_id) < options.texts.size());
  std::unique_ptr<UnigramModel> model(new UnigramModel());
  // Of equal texts the last one counts.
  absl::flat_hash_map<std::string_view, TokenId> ids;
  ids.reserve(options.texts.size());
  for (size_t id = 0; id < options.texts.size(); ++id) {
    const std::string_view text = options.texts[id];
    if (text.size() > kMaxTokenBytes) {
      return InvalidArgument("model: a token of ", text.size(), " bytes; at most ", kMaxTokenBytes,
                             " are supported");
    }
    ids[text] = static_cast<TokenId>(id);
  }
  const auto find = [&ids](std::string_view text) {
    const auto it = ids.find(text);
    return it == ids.end() ? kNoToken : it->second;
  };
  model->byte_ids_.fill(kNoToken);
  for (size_t byte = 0; options.byte_fallback && byte < model->byte_ids_.size(); ++byte) {
    model->byte_ids_[byte] = find(ByteToken(static_cast<uint8_t>(byte)));
  }
  std::vector<PieceTrie::Piece> pieces;
  pieces.reserve(ids.size());
  for (const auto& [text, id] : ids) {
    if (!text.empty() && !special.contains(id)) pieces.emplace_back(text, id);
  }
  model->trie_ = PieceTrie(std::move(pieces));
  model->scores_ = options.scores;
  model->unk_score_ =
      *std::min_element(options.scores.begin(), options.scores.end()) - kUnknownPenalty;
  model->unk_id_ = options.unk_id;
  return model;
}

void UnigramModel::Encode(std::string_view piece, ModelScratch* scratch,
                          std::vector<TokenId>* ids) const {
  if (scratch->cache.Lookup(piece, ids)) return;
  const size_t first = ids->size();
  FindBestPath(piece, scratch);
  if (scratch->gave_up()) return;
  // The path is linked from its end; turn the links round to walk it from its start.
  std::vector<ModelScratch::PathNode>& path = scratch->path;
  uint32_t next = 0;
  for (uint32_t at = static_cast<uint32_t>(piece.size()); at > 0;) {
    const uint32_t previous = path[at].link;
    path[at].link = next;
    next = std::exchange(at, previous);
  }
  size_t unknown_begin = 0;  // unknown characters are waiting from here
  size_t begin = 0;
  for (uint32_t at = next; at != 0; at = path[at].link) {
    if (path[at].id != unk_id_) {
      AppendUnknown(piece.substr(unknown_begin, begin - unknown_begin), ids);
      ids->push_back(path[at].id);
      unknown_begin = at;
    }
    begin = at;
  }
  AppendUnknown(piece.substr(unknown_begin), ids);
  scratch->cache.Insert(piece, absl::MakeConstSpan(*ids).subspan(first));
}

// Leaves in path[end] the last token of the best spelling of piece[0, end), and where it begins.
// Of equally good ones the one that was found first stays, as in the reference: from the left, the
// shortest first.
void UnigramModel::FindBestPath(std::string_view piece, ModelScratch* scratch) const {
  std::vector<ModelScratch::PathNode>& path = scratch->path;
  path.assign(piece.size() + 1, {});
  size_t num_characters = 0;
  for (size_t begin = 0; begin < piece.size();) {
    const double score = path[begin].score;
    const auto reach = [&](size_t end, TokenId id, double total) {
      ModelScratch::PathNode& node = path[end];
      if (node.id == kNoToken || total > node.score)
        node = {total, static_cast<uint32_t>(begin), id};
    };
    const size_t character_bytes = DecodeChar(piece.data() + begin).num_bytes;
    bool is_known = false;  // as a token of one character
    scratch->num_steps += static_cast<int64_t>(
        trie_.VisitPrefixes(piece.substr(begin), [&](size_t num_bytes, TokenId id) {
          reach(begin + num_bytes, id, scores_[id] + score);
          is_known = is_known || num_bytes == character_bytes;
        }));
    // A piece may be all of a text.
    if (++num_characters % kCharactersPerBurn == 0 && !scratch->Burn(kCharactersPerBurn / 8)) {
      return;
    }
    if (!is_known) reach(begin + character_bytes, unk_id_, unk_score_ + score);
    begin += character_bytes;
  }
}

// Appends the tokens of a run of unknown characters, which may be empty.
void UnigramModel::AppendUnknown(std::string_view text, std::vector<TokenId>* ids) const {
  if (text.empty()) return;
  // Characters that are unknown one by one may be a token together: a bad one, but the reference
  // takes it.
  if (const TokenId id = trie_.Find(text); id != PieceTrie::kNoValue) {
    ids->push_back(id);
    return;
  }
  const size_t first = ids->size();
  for (const char c : text) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id == kNoToken) {
      ids->resize(first);
      ids->push_back(unk_id_);
      return;
    }
    ids->push_back(id);
  }
}

}  // namespace quire
