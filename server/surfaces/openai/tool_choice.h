// tool_choice: whether a model may call tools, must, and which. What must be called is written as
// the beginning of the answer. Pure functions; any thread. What is wrong is the reader's status.
#pragma once

#include <string>

#include "quire/v1/inference.pb.h"
#include "server/surfaces/openai/field_reader.h"
#include "server/text/answer/answer_parser.h"
#include "server/text/answer/model_answers.h"

namespace quire {

struct ToolChoice {
  bool may_call = true;
  bool must_call = false;
  std::string function = {};  // the only one to be called
};

// As chats and as responses write it.
ToolChoice ReadToolChoice(FieldReader& fields);

// Makes the answer begin with a call, where the choice says so. `options` has what the tools are,
// `messages` the rest of the request.
void ForceCall(FieldReader& fields, const ToolChoice& choice, const ModelAnswers& answers,
               v1::Messages* messages, AnswerOptions* options);

}  // namespace quire
