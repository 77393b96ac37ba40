#include "server/grammar/match/token_set.h"

#include <utility>

namespace quire {

namespace {

// States with fewer printable bytes are narrow: their walk is short.
constexpr int kWideBytes = 24;
// What an entry takes beside the set.
constexpr size_t kEntryBytes = 128;

bool IsWide(const Automaton& automaton, State state) {
  int num_bytes = 0;
  for (int byte = ' '; byte < 0x7f; ++byte) {
    num_bytes += !automaton.Next(state, static_cast<uint8_t>(byte)).is_dead();
  }
  return num_bytes >= kWideBytes;
}

}  // namespace

std::shared_ptr<const TokenSet> MakeTokenSet(const Automaton& automaton, State state,
                                             const TokenTrie& trie) {
  auto set = std::make_shared<TokenSet>();
  if (!IsWide(automaton, state)) return set;
  set->bits.resize(static_cast<size_t>(trie.vocab_size() + 31) / 32);
  std::vector<State> states(trie.max_depth() + 1);
  states[0] = state;
  const absl::Span<const TokenTrie::Node> nodes = trie.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node node = nodes[i];
    const State next = automaton.Next(states[node.depth - 1], static_cast<uint8_t>(node.byte));
    if (next.is_dead()) {
      i += node.size;
      continue;
    }
    if (node.token_plus_1 != 0) {
      const uint32_t token = static_cast<uint32_t>(node.token_plus_1 - 1);
      set->bits[token / 32] |= uint32_t{1} << (token % 32);
    }
    states[node.depth] = next;
    if (next.is_final() && node.size > 1) set->ends.push_back(static_cast<uint32_t>(i));
    ++i;
  }
  set->ends.shrink_to_fit();
  return set;
}

std::shared_ptr<const TokenSet> TokenSetCache::Get(const Automaton& automaton, State state,
                                                   const TokenTrie& trie) {
  const uint64_t hash = automaton.PlainHash(state);
  if (hash == 0) return nullptr;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(hash);
    if (found != entries_.end()) {
      const auto is_made = [this, hash]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        const auto entry = entries_.find(hash);
        return entry == entries_.end() || entry->second.set != nullptr;
      };
      mutex_.Await(absl::Condition(&is_made));
      if (const auto entry = entries_.find(hash); entry != entries_.end()) {
        uses_.splice(uses_.begin(), uses_, entry->second.use);
        return entry->second.set;
      }
    }
    uses_.push_front(hash);
    entries_[hash] = {nullptr, uses_.begin()};
  }
  std::shared_ptr<const TokenSet> set = MakeTokenSet(automaton, state, trie);
  absl::MutexLock lock(&mutex_);
  if (!automaton.ok()) {  // a part of it may be missing
    uses_.erase(entries_[hash].use);
    entries_.erase(hash);
    return set;
  }
  entries_[hash].set = set;
  num_bytes_ += set->num_bytes() + kEntryBytes;
  while (num_bytes_ > max_bytes_ && uses_.size() > 1) {
    const auto last = entries_.find(uses_.back());
    if (last->second.set == nullptr) break;  // being made by somebody
    num_bytes_ -= last->second.set->num_bytes() + kEntryBytes;
    entries_.erase(last);
    uses_.pop_back();
  }
  return set;
}

}  // namespace quire
