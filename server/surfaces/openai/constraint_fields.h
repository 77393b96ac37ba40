// What an answer must look like, as clients of OpenAI, vLLM, llama.cpp and SGLang say it. Pure
// functions; any thread. Errors become the reader's status.
#pragma once

#include "absl/strings/string_view.h"
#include "server/request/generation.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

// response_format, structured_outputs, guided_json and so on, json_schema, grammar, regex and ebnf.
// At most one of them.
void FillConstraint(FieldReader& fields, Generation* asked);

// An object with a type: text, json_object, json_schema and others. `field` is its name.
void FillFormat(FieldReader& fields, const JsonTree& format, absl::string_view field,
                Generation* asked);

}  // namespace quire
