#include "server/grammar/schema/schema_grammar.h"

#include "kernels/base/status_macros.h"
#include "server/grammar/schema/schema_document.h"
#include "server/grammar/schema/value_rules.h"

namespace quire {

absl::StatusOr<RuleId> AddJsonSchema(Grammar* grammar, const JsonTree& schema,
                                     const SchemaOptions& options) {
  ASSIGN_OR_RETURN(const SchemaDocument document, SchemaDocument::Create(schema));
  SchemaShapes shapes(&grammar->store, &document, options.limits);
  ValueRules rules(grammar, &shapes, options.has_white_space);
  const RuleId root = rules.RuleOf(shapes.FormulaOf(schema));
  RETURN_IF_ERROR(rules.Finish());
  return root;
}

}  // namespace quire
