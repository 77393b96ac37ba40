// The syntax tree of a regular expression, of nodes that are made once, children first, and in a
// simple form: characters, sequences, alternatives, repeats, and assertions. Groups, flags and
// escapes are resolved. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "server/grammar/regex/char_set.h"

namespace quire {

using RegexNodeId = uint32_t;

struct RegexNode {
  enum class Kind : uint8_t {
    kChars,         // one character of a set
    kConcat,        // the children in order; without children, the empty text
    kAlternation,   // one of the children
    kRepeat,        // the child, min to max times
    kStart,         // only at the start of the text
    kEnd,           // only at its end
    kAfter,         // behind a character of a set
    kStartOrAfter,  // likewise, or at the start of the text
    kLookahead,     // before a text that begins with the child
    kNotLookahead,  // before one that does not
    kWordEdge,      // between a character of words and one that is none, or an end of the text
    kNotWordEdge,
  };
  // The places around a node that its texts depend on.
  enum Needs : uint8_t { kNoNeeds = 0, kAtStart = 1, kAtEnd = 2, kMore = 4 };

  Kind kind = Kind::kConcat;
  uint8_t needs = kNoNeeds;
  bool is_nullable = false;  // has the empty text; true for assertions
  uint32_t set = 0;          // index of the set
  uint32_t min = 0, max = 0;
  std::vector<RegexNodeId> children = {};
};

class RegexTree {
 public:
  RegexNodeId AddChars(const CharSet& chars);
  RegexNodeId AddConcat(std::vector<RegexNodeId> parts);
  RegexNodeId AddAlternation(std::vector<RegexNodeId> branches);
  RegexNodeId AddRepeat(RegexNodeId child, uint32_t min, uint32_t max);
  // kStart, kEnd, kWordEdge or kNotWordEdge.
  RegexNodeId AddEdge(RegexNode::Kind kind);
  // kAfter or kStartOrAfter.
  RegexNodeId AddAfter(RegexNode::Kind kind, const CharSet& chars);
  // kLookahead or kNotLookahead.
  RegexNodeId AddLookahead(RegexNode::Kind kind, RegexNodeId child);

  const RegexNode& node(RegexNodeId id) const { return nodes_[id]; }
  const CharSet& set_of(RegexNodeId id) const { return sets_[nodes_[id].set]; }
  bool is_chars(RegexNodeId id) const { return nodes_[id].kind == RegexNode::Kind::kChars; }
  size_t size() const { return nodes_.size(); }
  // The sets on whose characters before them nodes depend, each once.
  std::vector<CharSet> SetsBefore() const;

 private:
  RegexNodeId Add(RegexNode node);
  uint32_t IndexOf(const CharSet& chars);
  bool MergeLookahead(RegexNodeId lookahead, RegexNodeId* next);

  std::vector<RegexNode> nodes_;
  std::vector<CharSet> sets_;
  std::map<CharSet, uint32_t> index_of_set_;
};

}  // namespace quire
