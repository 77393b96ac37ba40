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

// A walk of a state through the trie, from nothing or from what another state's set has.
class TokenSetWalk {
 public:
  TokenSetWalk(const Automaton& automaton, const TokenTrie& trie)
      : automaton_(automaton), trie_(trie), nodes_(trie.nodes()), states_(trie.max_depth() + 1) {}

  std::shared_ptr<const TokenSet> All(State state) {
    set_ = std::make_shared<TokenSet>();
    set_->bits.resize(static_cast<size_t>(trie_.vocab_size() + 31) / 32);
    states_[0] = state;
    for (size_t i = 0; i < nodes_.size();) {
      const TokenTrie::Node node = nodes_[i];
      const State next = automaton_.Next(states_[node.depth - 1], static_cast<uint8_t>(node.byte));
      if (next.is_dead()) {
        i += node.size;
      } else {
        Visit(i, next);
        ++i;
      }
    }
    set_->ends.shrink_to_fit();
    return set_;
  }

  // The set of `state`, from that of `base`: below a node where both have come to the same state,
  // or to states that differ only by counts that no token reaches, the sets are the same.
  std::shared_ptr<const TokenSet> Changed(State state, State base, const TokenSet& base_set) {
    set_ = std::make_shared<TokenSet>();
    set_->bits = base_set.bits;
    std::vector<State> base_states(trie_.max_depth() + 1);
    states_[0] = state;
    base_states[0] = base;
    auto end = base_set.ends.begin();
    for (size_t i = 0; i < nodes_.size();) {
      const TokenTrie::Node node = nodes_[i];
      const uint8_t byte = static_cast<uint8_t>(node.byte);
      const State next = automaton_.Next(states_[node.depth - 1], byte);
      const State base_next = automaton_.Next(base_states[node.depth - 1], byte);
      const bool is_same = IsSame(next, base_next, trie_.HeightOf(i));
      if (is_same || next.is_dead()) {
        const size_t behind = i + node.size;
        for (; end != base_set.ends.end() && *end < behind; ++end) {
          if (is_same && *end >= i) set_->ends.push_back(*end);
        }
        if (!is_same && !base_next.is_dead()) Clear(i);
        i = behind;
        continue;
      }
      Visit(i, next);
      base_states[node.depth] = base_next;
      ++i;
    }
    set_->ends.shrink_to_fit();
    return set_;
  }

 private:
  void Visit(size_t i, State next) {
    const TokenTrie::Node node = nodes_[i];
    if (node.token_plus_1 != 0) {
      const uint32_t token = static_cast<uint32_t>(node.token_plus_1 - 1);
      set_->bits[token / 32] |= uint32_t{1} << (token % 32);
    }
    states_[node.depth] = next;
    if (next.is_final() && node.size > 1) set_->ends.push_back(static_cast<uint32_t>(i));
  }
  void Clear(size_t i) {
    for (size_t last = i + nodes_[i].size; i < last; ++i) {
      if (nodes_[i].token_plus_1 == 0) continue;
      const uint32_t token = static_cast<uint32_t>(nodes_[i].token_plus_1 - 1);
      set_->bits[token / 32] &= ~(uint32_t{1} << (token % 32));
    }
  }
  bool IsSame(State state, State base, uint32_t height) const {
    if (state == base) return true;
    if (state.is_dead() || base.is_dead() || state.is_final() != base.is_final()) return false;
    const Automaton::RelaxedState relaxed = automaton_.Relaxed(state);
    return relaxed.state == base && relaxed.slack > height;
  }

  const Automaton& automaton_;
  const TokenTrie& trie_;
  const absl::Span<const TokenTrie::Node> nodes_;
  std::vector<State> states_;  // by depth
  std::shared_ptr<TokenSet> set_;
};

// Whether most letters lead both states to the same place, after a few of them.
bool AreClose(const Automaton& automaton, State state, State base) {
  int num_same = 0;
  for (int byte = 'a'; byte <= 'z'; ++byte) {
    State a = state, b = base;
    for (int i = 0; i < 2; ++i) {
      a = automaton.Next(a, static_cast<uint8_t>(byte));
      b = automaton.Next(b, static_cast<uint8_t>(byte));
    }
    num_same += !a.is_dead() && a == b;
  }
  return num_same > 16;
}

}  // namespace

std::shared_ptr<const TokenSet> TokenSetCache::Make(const Automaton& automaton, State state,
                                                    const TokenTrie& trie) {
  if (!IsWide(automaton, state)) return std::make_shared<TokenSet>();
  State base = automaton.Relaxed(state).state;
  if (base == state || base.is_dead()) {
    base = state;
    for (const State landmark : automaton.landmarks()) {
      if (landmark != state && AreClose(automaton, state, landmark)) base = landmark;
    }
  }
  TokenSetWalk walk(automaton, trie);
  if (base != state) {
    const std::shared_ptr<const TokenSet> set = Get(automaton, base, trie, false);
    if (set != nullptr && !set->bits.empty()) return walk.Changed(state, base, *set);
  }
  automaton.AddLandmark(state);
  return walk.All(state);
}

std::shared_ptr<const TokenSet> TokenSetCache::Get(const Automaton& automaton, State state,
                                                   const TokenTrie& trie, bool may_wait) {
  const uint64_t hash = automaton.PlainHash(state);
  if (hash == 0) return nullptr;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(hash);
    if (found != entries_.end()) {
      if (!may_wait && found->second.set == nullptr) return nullptr;
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
  std::shared_ptr<const TokenSet> set = Make(automaton, state, trie);
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
