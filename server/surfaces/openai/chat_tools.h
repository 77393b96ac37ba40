// The tools of a chat: what the template sees of them, and how calls of them are found in the
// answer. Pure functions; any thread. Errors become the reader's status.
#pragma once

#include <string>

#include "server/request/generation.h"
#include "server/surfaces/openai/field_reader.h"
#include "server/surfaces/openai/tool_choice.h"
#include "server/text/answer/answer_parser.h"
#include "server/text/answer/model_answers.h"

namespace quire {

struct ChatTools {
  JsonTree list = {};  // as chats write tools, each tool is sound; null: none were sent
  ToolChoice choice = {};
  bool one_call = false;  // at most one
};

// tools, tool_choice and parallel_tool_calls, as chats write them.
ChatTools ReadChatTools(FieldReader& fields);
// Everything except the tools.
ChatTools ReadToolUse(FieldReader& fields);

// Checks a function's name and description, and its parameters, which are called `schema_key`.
// `prefix` begins the names of its fields.
void CheckFunction(FieldReader& fields, const JsonTree& function, const std::string& prefix,
                   const char* schema_key);

// A function as chats list it among their tools.
JsonTree NewTool(JsonTree function);

// Shows the template the tools that the model may call.
void FillTools(FieldReader& fields, const ChatTools& tools, ChatPrompt* chat);

// The same for an answer; `options` then say how it is taken apart. A call that must be made is
// written as the beginning of the answer.
void FillTools(FieldReader& fields, const ChatTools& tools, const ModelAnswers& answers,
               Generation* asked, AnswerOptions* options);

// A message's tool_calls as templates expect them: OpenAI's clients send the arguments as a text of
// JSON, models see them as JSON. Arguments that are not JSON, or have too many values, stay a text.
void DecodeArguments(JsonTree* tool_calls, size_t* num_values_left);

}  // namespace quire
