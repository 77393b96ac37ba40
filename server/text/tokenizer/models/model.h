// The seam between a tokenizer and its kind of model: pieces of text in, token ids out.
// Models are immutable and shared by threads; each thread brings its own ModelScratch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/types.h"
#include "server/base/fuel.h"
#include "server/text/tokenizer/models/word_cache.h"

namespace quire {

// The working memory of encoding with one model. One thread at a time; used with one model only.
struct ModelScratch {
  // A token being merged, linked to its neighbours by index.
  struct Symbol {
    TokenId id;
    int32_t previous;
    int32_t next;
  };

  // The last token of the best spelling of a text so far, and a link along that spelling.
  struct PathNode {
    double score = 0;
    uint32_t link = 0;
    TokenId id = -1;
  };

  std::vector<Symbol> symbols;  // BPE
  // BPE: a heap of the merges that were possible when they were queued, rank above position of the
  // left symbol; the smallest is merged first.
  std::vector<uint64_t> queue;
  std::vector<PathNode> path;  // Unigram; by the offset where the token ends
  std::string key;
  WordCache cache;
  int64_t num_steps = 0;  // queue or trie operations so far, for tests of how they grow
  Fuel* fuel = nullptr;   // of the text that is encoded; null: as much as it needs

  bool Burn(size_t steps) { return fuel == nullptr || fuel->Burn(steps); }
  bool gave_up() const { return fuel != nullptr && !fuel->ok(); }

  // Gives back the memory that an unusually long piece took.
  void Trim();
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Appends the ids of `piece` (valid UTF-8, not empty) to `ids`. Text that the vocabulary cannot
  // spell becomes unknown tokens, or nothing if the model has none. If the scratch's fuel ends
  // within the piece, the ids end there, too.
  virtual void Encode(std::string_view piece, ModelScratch* scratch,
                      std::vector<TokenId>* ids) const = 0;
};

}  // namespace quire
