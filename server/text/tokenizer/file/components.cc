#include "server/text/tokenizer/file/components.h"

#include "kernels/base/status_macros.h"
#include "server/text/tokenizer/file/errors.h"

namespace quire {

absl::StatusOr<PatternSpec> GetPattern(const nlohmann::json& object, std::string_view where) {
  const nlohmann::json& pattern = Member(object, "pattern");
  const bool is_regex = pattern.is_object() && pattern.contains("Regex");
  ASSIGN_OR_RETURN(std::string text,
                   GetString(pattern, is_regex ? "Regex" : "String", Concat(where, ".pattern")));
  if (text.empty()) return InvalidArgument(where, ": pattern must not be empty");
  return PatternSpec{is_regex, std::move(text)};
}

}  // namespace quire
