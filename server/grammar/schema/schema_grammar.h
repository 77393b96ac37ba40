// From JSON Schema to a grammar of the texts whose values are valid. Members are written in the
// order in which the schema first names them, then those that it requires without declaring them,
// then others. docs/structured.md says what is enforced; other keywords that ask for something are
// errors.
#pragma once

#include "absl/status/statusor.h"
#include "server/grammar/expr/grammar.h"
#include "server/grammar/schema/schema_shapes.h"
#include "server/text/json_tree.h"

namespace quire {

struct SchemaOptions {
  bool has_white_space = true;  // false: only the least, as in {"a":1}
  SchemaLimits limits = {};
};

// Adds rules for the schema; returns the rule of its values. INVALID_ARGUMENT, UNIMPLEMENTED and
// RESOURCE_EXHAUSTED name the place in the schema.
absl::StatusOr<RuleId> AddJsonSchema(Grammar* grammar, const JsonTree& schema,
                                     const SchemaOptions& options);

}  // namespace quire
