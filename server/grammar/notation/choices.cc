#include <algorithm>
#include <string>
#include <vector>

#include "server/grammar/notation/grammar_text.h"
#include "server/text/concat.h"

namespace quire {

namespace {

// The texts of a sorted list, as a tree of their common beginnings: a state of it has no more
// alternatives than next bytes.
class ChoiceTree {
 public:
  explicit ChoiceTree(ExprStore* store) : store_(store) { Open(0); }

  void Add(std::string_view text) {
    const size_t shared = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), last_.begin(), last_.end()).first - text.begin());
    CloseTo(shared);
    if (path_.back().size < shared) Open(shared);
    if (text.size() > shared) Open(text.size());
    path_.back().rests.push_back(ExprStore::kEmpty);
    last_ = text;
  }

  ExprId Finish() {
    CloseTo(0);
    return store_->Or(path_.back().rests);
  }

 private:
  // A beginning of the last text.
  struct Beginning {
    size_t size = 0;
    std::vector<ExprId> rests;  // what may follow it
  };

  void Open(size_t size) { path_.push_back({size, {}}); }

  // Closes the beginnings that are longer than `size`. One that the others hang from may have to be
  // made on the way.
  void CloseTo(size_t size) {
    while (path_.back().size > size) {
      const Beginning closed = std::move(path_.back());
      path_.pop_back();
      if (path_.back().size < size) Open(size);
      const size_t begin = path_.back().size;
      path_.back().rests.push_back(store_->Concat(
          store_->Literal(last_.substr(begin, closed.size - begin)), store_->Or(closed.rests)));
    }
  }

  ExprStore* const store_;
  std::string_view last_;
  std::vector<Beginning> path_;
};

}  // namespace

absl::StatusOr<RuleId> AddChoices(Grammar* grammar, absl::Span<const std::string> choices) {
  if (choices.empty()) return absl::InvalidArgumentError("there are no choices");
  if (choices.size() > kMaxChoices) {
    return absl::InvalidArgumentError(
        Concat("there are ", choices.size(), " choices; at most ", kMaxChoices));
  }
  size_t num_bytes = 0;
  for (const std::string& choice : choices) num_bytes += choice.size();
  if (num_bytes > kMaxChoicesBytes) {
    return absl::InvalidArgumentError(
        Concat("the choices have ", num_bytes, " bytes; at most ", kMaxChoicesBytes));
  }
  std::vector<std::string_view> sorted(choices.begin(), choices.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  ChoiceTree tree(&grammar->store);
  for (const std::string_view choice : sorted) tree.Add(choice);
  const RuleId rule = grammar->AddRule(tree.Finish());
  if (grammar->store.overflowed())
    return absl::InvalidArgumentError("the choices need more memory than allowed");
  return rule;
}

}  // namespace quire
