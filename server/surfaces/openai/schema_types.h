// Which types a JSON Schema allows. Pure; any thread.
#pragma once

#include "server/text/answer/call_reader.h"
#include "server/text/json_tree.h"

namespace quire {

// What the parameters of a function may be whose `parameters` these are: references within, allOf,
// anyOf and oneOf are followed. A parameter of which nothing is said is a text, and one of which
// nothing can be told, as its reference leads out of the schema, may be anything.
ToolParameters ParametersOf(const JsonTree& schema);

}  // namespace quire
