#include "server/text/answer/answer_format.h"

#include <iterator>

#include "kernels/base/check.h"
#include "server/text/answer/gemma_call.h"
#include "server/text/answer/harmony_header.h"
#include "server/text/answer/parameter_call.h"

namespace quire {

namespace {

constexpr char kAnalysisTag[] = "<|channel|>analysis<|message|>";
constexpr char kAnalysisEnd[] = "<|end|><|start|>assistant";

}  // namespace

ToolFormat ToolFormatOf(std::string_view parser) {
  if (parser == "hermes") return ToolFormat::kHermes;
  if (parser == "llama3_json") return ToolFormat::kLlama3Json;
  if (parser == "mistral") return ToolFormat::kMistral;
  if (parser == "gemma4") return ToolFormat::kGemma4;
  if (parser == "gpt_oss" || parser == "openai") return ToolFormat::kHarmony;
  if (parser == "qwen3_coder") return ToolFormat::kQwen3Coder;
  CHECK(parser == "none") << parser;
  return ToolFormat::kNone;
}

ReasoningFormat ReasoningFormatOf(std::string_view parser) {
  if (parser == "qwen3") return {"<think>", "</think>"};
  if (parser == "deepseek_r1") return {"<think>", "</think>", /*always=*/true};
  if (parser == "mistral") return {"[THINK]", "[/THINK]"};
  if (parser == "gemma4") return {"<|channel>", "<channel|>", /*always=*/false, "thought\n"};
  if (parser == "gpt_oss" || parser == "openai_gptoss") {
    return {.open = kAnalysisTag, .close = kAnalysisEnd, .in_channels = true};
  }
  CHECK(parser == "none") << parser;
  return {};
}

bool DetectHarmony(std::string_view chat_templates) {
  return chat_templates.find(kAnalysisTag) != std::string_view::npos;
}

ToolFormat DetectToolFormat(std::string_view chat_templates) {
  const auto has = [chat_templates](std::string_view text) {
    return chat_templates.find(text) != std::string_view::npos;
  };
  if (has("[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (has(GemmaCallReader::kBeginTag) && has(GemmaCallReader::kEndTag)) return ToolFormat::kGemma4;
  if (DetectHarmony(chat_templates)) return ToolFormat::kHarmony;
  if (has("<tool_call>")) {
    if (has("<function=")) return ToolFormat::kQwen3Coder;
    // GLM and Hunyuan have the tag for something else.
    return has("<arg_key>") || has("<tool_sep>") ? ToolFormat::kNone : ToolFormat::kHermes;
  }
  const bool is_llama = has("<|start_header_id|>") && has("\"parameters\"");
  return is_llama ? ToolFormat::kLlama3Json : ToolFormat::kNone;
}

CallTags TagsOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kHermes:
      return {{"<tool_call>"}, "</tool_call>"};
    case ToolFormat::kLlama3Json:
      return {{"<|python_tag|>"}, ""};
    case ToolFormat::kMistral:
      return {{"[TOOL_CALLS]"}, "", {"[ARGS]", "[CALL_ID]"}};
    case ToolFormat::kGemma4:
      return {{std::string(GemmaCallReader::kBeginTag)},
              std::string(GemmaCallReader::kEndTag),
              {std::string(GemmaCallReader::kQuote)}};
    case ToolFormat::kQwen3Coder:
      return {{"<tool_call>", std::string(ParameterCallReader::kFunctionTag)}, "</tool_call>"};
    case ToolFormat::kHarmony:
      return {
          .begin = {}, .end = "", .within = {std::begin(harmony::kTags), std::end(harmony::kTags)}};
    case ToolFormat::kNone:
      break;
  }
  return {};
}

}  // namespace quire
