// From a syntax tree to an expression. A node is compiled together with what follows it, so that
// "the end is here" and lookaheads are exact: they are intersections with the texts that may
// follow. The expression of the rest depends on the character before (the start of the text,
// a character of a word, ...), so there is one for each such context. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/grammar/regex/regex_language.h"
#include "server/grammar/regex/regex_tree.h"

namespace quire {

class RegexCompiler {
 public:
  // Both outlive this. The tree gets nodes of its own.
  RegexCompiler(ExprStore* store, RegexTree* tree, Spelling spelling);

  // The texts that match from their start to their end.
  absl::StatusOr<ExprId> Whole(RegexNodeId root);
  // The texts with a part that matches.
  absl::StatusOr<ExprId> Anywhere(RegexNodeId root);

 private:
  // The expressions of the rest, by context; the first context is the start of the text.
  struct Rest {
    std::vector<ExprId> exprs;  // [num_contexts]
    // How deep alternatives and intersections of rests stand in one another: derivatives call
    // themselves as deep.
    int depth = 0;

    size_t size() const { return exprs.size(); }
    ExprId& operator[](size_t context) { return exprs[context]; }
    ExprId operator[](size_t context) const { return exprs[context]; }
  };
  // Texts that are not empty and end with a character of the set.
  using Ending = absl::FunctionRef<ExprId(const CharSet& last)>;
  using Sequence = std::vector<CharSet>;

  size_t num_contexts() const { return contexts_.size() + 1; }
  Rest Same(ExprId id, int depth = 0) const {
    return {.exprs = std::vector<ExprId>(num_contexts(), id), .depth = depth};
  }
  static bool IsUniform(const Rest& rest);
  // Whether every text may follow.
  bool IsOpen(const Rest& rest) const;

  absl::StatusOr<ExprId> Result(ExprId id) const;
  void Refuse(std::string_view what);
  Rest Compile(RegexNodeId id, const Rest& rest);
  Rest CompilePlain(RegexNodeId id, const Rest& rest);
  Rest CompileRepeat(const RegexNode& node, const Rest& rest);
  Rest CompileAnchored(RegexNodeId child, uint32_t min, uint32_t max, const Rest& rest);
  std::optional<Rest> CompileTempered(const RegexNode& node, const Rest& rest);
  Rest CompileAlternation(const RegexNode& node, const Rest& rest);
  Rest CompileLookahead(const RegexNode& node, const Rest& rest);
  Rest CompileEdge(bool at_edge, const Rest& rest);
  Rest After(ExprId first, const Rest& rest);
  ExprId ByLastChar(const Rest& rest, Ending ending);
  Rest OrRest(bool is_nullable, ExprId some, const Rest& rest);
  bool AddSequences(RegexNodeId id, std::vector<Sequence>* sequences) const;
  ExprId SpellSequence(absl::Span<const CharSet> sequence);
  std::optional<ExprId> Avoid(ExprId texts, const std::vector<Sequence>& sequences, ExprId rest);
  ExprId NotEmpty(ExprId id);
  RegexNodeId WithoutNeedlessStart(RegexNodeId id);
  bool EndsAtEnd(RegexNodeId id) const;
  bool HasOneLength(RegexNodeId root) const;

  ExprStore* const store_;
  RegexTree* const tree_;
  RegexLanguage language_;
  const ExprId any_text_;
  std::vector<CharSet> contexts_;  // of the character before: together every character
  bool no_end_here_ = false;       // $ does not match
  size_t num_steps_ = 0;
  absl::Status status_;
};

}  // namespace quire
