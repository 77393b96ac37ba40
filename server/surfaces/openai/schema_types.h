// Which types a JSON Schema allows. Pure; any thread.
#pragma once

#include "server/text/answer/call_reader.h"
#include "server/text/json_tree.h"

namespace quire {

// The allowed types of a function's parameters, by its `parameters`: references within, allOf,
// anyOf and oneOf are followed. A parameter of which the schema says nothing is a text. A parameter
// of which nothing can be told, because its reference leads out of the schema, may be anything.
ToolParameters ParametersOf(const JsonTree& schema);

}  // namespace quire
