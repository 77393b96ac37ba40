// How kinds of models write reasoning and calls of tools. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

enum class ToolFormat : uint8_t {
  kNone,
  kHermes,      // <tool_call>{"name": ..., "arguments": {...}}</tool_call>
  kLlama3Json,  // {"name": ..., "parameters": {...}}; ...   or one after <|python_tag|>
  kMistral,     // [TOOL_CALLS] [{"name": ..., "arguments": {...}}] or [TOOL_CALLS]NAME[ARGS]{...}
  kQwen3Coder,  // <tool_call><function=NAME><parameter=NAME>...</parameter></function></tool_call>
  kGemma4,      // <|tool_call>call:NAME{KEY:<|"|>...<|"|>}<tool_call|>
  kHarmony,     // gpt-oss's: <|channel|>commentary to=functions.NAME<|message|>{...}<|call|>
};

// Reasoning stands between two tags at the beginning of the answer; reasoning in a channel may
// stand anywhere.
struct ReasoningFormat {
  std::string open;  // empty: there is no reasoning
  std::string close;
  // Answers begin with reasoning although neither they nor the prompt's end have the first tag.
  bool always = false;
  // A text that may stand behind the first tag and is not reasoning.
  std::string label = "";
  // The answer is messages in channels, and the tags belong to one of the channels: harmony.
  bool in_channels = false;

  bool is_none() const { return open.empty(); }
};

// The format by vLLM's names of parsers and by gpt_oss, except auto; it is one of the setting's
// names.
ToolFormat ToolFormatOf(std::string_view parser);
ReasoningFormat ReasoningFormatOf(std::string_view parser);

// The format that the models of these chat templates write; kNone if the templates do not show it.
ToolFormat DetectToolFormat(std::string_view chat_templates);
// Whether these models answer in harmony's messages.
bool DetectHarmony(std::string_view chat_templates);

// The tags around calls: those that begin a call, the one that ends it (may be empty), and those
// within a call that may be tokens.
struct CallTags {
  std::vector<std::string> begin;
  std::string end;
  std::vector<std::string> within = {};
};
CallTags TagsOf(ToolFormat format);

}  // namespace quire
