// Token sets: for a state whose expression calls no rules, the tokens that stay inside it. A mask
// is mostly such a set, so the wide ones are kept, by the hash of the expression, and serve every
// constraint over the vocabulary: a JSON string is the same in all schemas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/grammar/expr/automaton.h"
#include "server/grammar/match/token_trie.h"

namespace quire {

struct TokenSet {
  // [(vocab_size + 31) / 32]: the tokens that may follow and end inside the expression, or with it.
  // Empty for a narrow state, which a walk does faster.
  std::vector<uint32_t> bits;
  // Nodes of the trie, ascending, where the expression may end and tokens go on.
  std::vector<uint32_t> ends;

  size_t num_bytes() const { return (bits.size() + ends.size()) * sizeof(uint32_t); }
};

// Any thread.
class TokenSetCache {
 public:
  explicit TokenSetCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // The set of the state; made, and others dropped, if it is not there. Null if the state's
  // expression calls rules. A set that several threads miss at once is made by one of them.
  std::shared_ptr<const TokenSet> Get(const Automaton& automaton, State state,
                                      const TokenTrie& trie) {
    return Get(automaton, state, trie, true);
  }

 private:
  // Without waiting, also null while the set is being made. Making a set waits for no other: each
  // might be made of the other.
  std::shared_ptr<const TokenSet> Get(const Automaton& automaton, State state,
                                      const TokenTrie& trie, bool may_wait);
  std::shared_ptr<const TokenSet> Make(const Automaton& automaton, State state,
                                       const TokenTrie& trie);

  struct Entry {
    std::shared_ptr<const TokenSet> set;  // null while it is being made
    std::list<uint64_t>::iterator use;
  };

  const size_t max_bytes_;
  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<uint64_t> uses_ ABSL_GUARDED_BY(mutex_);  // the latest first
  size_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
