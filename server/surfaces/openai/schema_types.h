// Which types a JSON Schema allows. Pure; any thread.
#pragma once

#include "server/text/answer/call_reader.h"
#include "server/text/json_tree.h"

namespace quire {

// The allowed types of a function's parameters, by its `parameters`: references within, allOf,
// anyOf and oneOf are followed. A parameter of which the schema says nothing is a text. A parameter
// whose reference leads out of the schema, so that nothing is known of it, may be anything.
ToolParameters ParametersOf(const JsonTree& schema);

}  // namespace quire
