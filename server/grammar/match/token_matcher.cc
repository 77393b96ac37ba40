#include "server/grammar/match/token_matcher.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

TokenMatcher::TokenMatcher(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                           std::shared_ptr<const Automaton> automaton)
    : vocabulary_(std::move(vocabulary)),
      automaton_(std::move(automaton)),
      parser_(automaton_.get()),
      states_(vocabulary_->trie.max_depth() + 1) {
  history_.push_back(parser_.start());
}

absl::Status TokenMatcher::status() const {
  if (!automaton_->ok()) return automaton_->status();
  if (parser_.gave_up()) {
    return absl::ResourceExhaustedError(
        "the constraint is too ambiguous: too many readings of one text");
  }
  return absl::OkStatus();
}

void TokenMatcher::FillMask(absl::Span<uint32_t> mask) {
  std::fill(mask.begin(), mask.end(), 0);
  mask_ = mask;
  if (ended_) return;
  parser_.Refuel();
  const Parser::Position position = this->position();
  std::vector<Parser::Item> narrow;
  for (size_t i = 0; i < parser_.items(position).size(); ++i) {
    const Parser::Item item = parser_.items(position)[i];
    const std::shared_ptr<const TokenSet> set =
        vocabulary_->token_sets.Get(*automaton_, item.state, vocabulary_->trie);
    if (set == nullptr || set->bits.empty()) {
      narrow.push_back(item);
    } else {
      UseTokenSet(*set, item.call);
    }
  }
  if (!narrow.empty()) Walk(parser_.Only(position, narrow), 0, vocabulary_->trie.nodes().size());
  for (const auto& [token, twin] : vocabulary_->trie.twins()) {
    if ((mask[static_cast<size_t>(token) / 32] >> (token % 32)) & 1)
      Set(static_cast<uint32_t>(twin));
  }
  if (position.is_complete) {
    for (const TokenId end : vocabulary_->end_tokens) Set(static_cast<uint32_t>(end));
  }
}

void TokenMatcher::UseTokenSet(const TokenSet& set, uint32_t call) {
  for (size_t i = 0; i < set.bits.size(); ++i) mask_[i] |= set.bits[i];
  const Parser::Position after = parser_.EndOf(position(), call);
  if (after.items_begin == after.items_end) return;
  const absl::Span<const TokenTrie::Node> nodes = vocabulary_->trie.nodes();
  for (const uint32_t end : set.ends) Walk(after, end + 1, end + nodes[end].size);
}

void TokenMatcher::Walk(const Parser::Position& position, size_t begin, size_t end) {
  const absl::Span<const TokenTrie::Node> nodes = vocabulary_->trie.nodes();
  for (size_t i = begin; i < end; i += nodes[i].size) {
    const TokenTrie::Node node = nodes[i];
    const Parser::Position next = parser_.Next(position, static_cast<uint8_t>(node.byte));
    if (next.is_dead()) continue;
    if (node.token_plus_1 != 0) Set(static_cast<uint32_t>(node.token_plus_1 - 1));
    if (node.size == 1) continue;
    const absl::Span<const Parser::Item> items = parser_.items(next);
    if (items.size() == 1 && items[0].state.is_plain()) {
      WalkPlain(next, items[0], i + 1, i + node.size);
    } else {
      Walk(next, i + 1, i + node.size);
    }
  }
}

// A walk from a single item, through states where nothing ends and nothing is called: the parser is
// asked only where that is different.
void TokenMatcher::WalkPlain(const Parser::Position& position, Parser::Item item, size_t begin,
                             size_t end) {
  const absl::Span<const TokenTrie::Node> nodes = vocabulary_->trie.nodes();
  states_[nodes[begin].depth - 1] = item.state;
  for (size_t i = begin; i < end;) {
    const TokenTrie::Node node = nodes[i];
    const State next = automaton_->Next(states_[node.depth - 1], static_cast<uint8_t>(node.byte));
    if (next.is_dead()) {
      i += node.size;
      continue;
    }
    if (node.token_plus_1 != 0) Set(static_cast<uint32_t>(node.token_plus_1 - 1));
    if (next.is_plain()) {
      states_[node.depth] = next;
      ++i;
      continue;
    }
    if (node.size > 1) {
      const Parser::Position after = parser_.Enter(position, {next, item.call});
      if (!after.is_dead()) Walk(after, i + 1, i + node.size);
    }
    i += node.size;
  }
}

bool TokenMatcher::Accept(TokenId token) {
  if (ended_) return false;
  parser_.Refuel();
  Parser::Position position = this->position();
  const std::string_view bytes = vocabulary_->trie.BytesOf(token);
  const std::vector<TokenId>& ends = vocabulary_->end_tokens;
  const bool is_end = std::find(ends.begin(), ends.end(), token) != ends.end();
  if (is_end || bytes.empty()) {
    if (!is_end || !position.is_complete) return false;
    ended_ = true;
    history_.push_back(position);
    return true;
  }
  for (const char byte : bytes) {
    position = parser_.Next(position, static_cast<uint8_t>(byte));
    if (position.is_dead()) return false;
  }
  history_.push_back(position);
  return true;
}

size_t TokenMatcher::CountAccepted(absl::Span<const TokenId> tokens) {
  size_t count = 0;
  while (count < tokens.size() && Accept(tokens[count])) ++count;
  GoBack(count);
  return count;
}

void TokenMatcher::GoBack(size_t num_tokens) {
  CHECK(num_tokens < history_.size());
  if (num_tokens == 0) return;
  history_.resize(history_.size() - num_tokens);
  ended_ = false;
}

}  // namespace quire
