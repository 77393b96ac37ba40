#include <string>
#include <vector>

#include "server/grammar/expr/text_list.h"
#include "server/grammar/notation/grammar_text.h"
#include "server/text/concat.h"

namespace quire {

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
  const RuleId rule =
      grammar->AddRule(OneOfTexts(&grammar->store, {choices.begin(), choices.end()}));
  if (grammar->store.overflowed())
    return absl::InvalidArgumentError("the choices need more memory than allowed");
  return rule;
}

}  // namespace quire
