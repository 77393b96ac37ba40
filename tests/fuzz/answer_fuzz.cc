// A model's answer taken apart: wherever its text is cut, the events are the same, and whatever it
// is, no text is lost but tags and white space. Input: a byte each for the formats, for flags and
// for the cuts, then the text.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/check.h"
#include "server/text/utf8.h"
#include "tests/fuzz/target.h"
#include "tests/server/text/answer/answer_samples.h"

namespace quire::fuzz {
namespace {

constexpr const char* kParsers[] = {"none",        "hermes", "llama3_json", "mistral",
                                    "qwen3_coder", "gemma4", "gpt_oss"};
constexpr const char* kReasoning[] = {"none",    "qwen3",  "deepseek_r1",
                                      "mistral", "gemma4", "gpt_oss"};

size_t IndexOf(const std::string& name, absl::Span<const char* const> names) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::vector<AnswerEvent> Parse(const AnswerOptions& options, bool in_reasoning,
                               std::string_view text, size_t step) {
  AnswerParser parser(options, in_reasoning);
  std::vector<AnswerEvent> all;
  for (size_t begin = 0; begin < text.size(); begin += step) {
    const std::vector<AnswerEvent> events = parser.Append(text.substr(begin, step));
    all.insert(all.end(), events.begin(), events.end());
  }
  const std::vector<AnswerEvent> events = parser.Finish();
  all.insert(all.end(), events.begin(), events.end());
  return all;
}

// What Python's json takes and nlohmann's does not: half a surrogate pair as an escape, and numbers
// beyond those of a double, which have three digits of exponent or very many digits.
bool IsBeyondNlohmann(std::string_view json) {
  constexpr size_t kManyDigits = 300;
  size_t num_digits = 0;
  bool in_exponent = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i);
    if (rest.starts_with("\\ud") || rest.starts_with("\\uD")) return true;
    if (json[i] >= '0' && json[i] <= '9') {
      if (++num_digits >= (in_exponent ? 3 : kManyDigits)) return true;
    } else if (json[i] != '+' && json[i] != '-') {
      in_exponent = json[i] == 'e' || json[i] == 'E';
      num_digits = 0;
    }
  }
  return false;
}

// Each call begins before its arguments do, which are JSON as far as the text is one, and without a
// call the text is all there; harmony's headers are none.
void CheckEvents(const std::vector<AnswerEvent>& events, const AnswerOptions& options,
                 std::string_view text) {
  bool has_call = false;
  std::string content;
  for (const AnswerEvent& event : events) {
    CHECK(event.kind != AnswerEvent::Kind::kArguments || has_call);
    has_call |= event.kind == AnswerEvent::Kind::kCall;
    content += event.text;
  }
  for (const std::string& arguments : ArgumentsOf(events)) {
    CHECK(!IsValidUtf8(text) || IsBeyondNlohmann(arguments) || nlohmann::json::accept(arguments))
        << arguments;
  }
  num_accepted += has_call;
  const bool keeps_tags = options.reasoning.is_none() && !options.is_harmony();
  if (!has_call && keeps_tags) CHECK_EQ(content, text);
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const AnswerSample& sample : AnswerSamples()) {
    std::string seed(3, '\0');
    seed[0] = static_cast<char>(IndexOf(sample.parser, kParsers) +
                                std::size(kParsers) * IndexOf(sample.reasoning, kReasoning));
    seed[1] = static_cast<char>((sample.in_reasoning ? 1 : 0) + (sample.one_call ? 2 : 0));
    seeds.push_back(seed + sample.text);
  }
  return seeds;
}

std::vector<std::string> Dictionary() {
  return {"<tool_call>",
          "</tool_call>",
          "<|python_tag|>",
          "[TOOL_CALLS]",
          "[ARGS]",
          "[CALL_ID]",
          "<function=",
          "</function>",
          "<parameter=",
          "</parameter>",
          "<think>",
          "</think>",
          "<|tool_call>call:now{",
          "}<tool_call|>",
          "<|\"|>",
          "<|channel>thought\n",
          "<channel|>",
          "<|start|>assistant",
          "<|channel|>analysis<|message|>",
          "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{",
          "<|end|>",
          "<|call|>",
          "{\"name\": \"now\", \"arguments\": {}}",
          "\"name\"",
          "\"arguments\"",
          ";",
          ", "};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::fuzz;  // NOLINT(build/namespaces)
  using namespace quire;        // NOLINT(build/namespaces)
  InputReader input(data, size);
  const uint8_t formats = input.TakeByte();
  const uint8_t flags = input.TakeByte();
  const size_t step = 1 + input.TakeByte() % 16;
  AnswerSample sample;
  sample.parser = kParsers[formats % std::size(kParsers)];
  sample.reasoning = kReasoning[formats / std::size(kParsers) % std::size(kReasoning)];
  sample.one_call = (flags & 2) != 0;
  const AnswerOptions options = OptionsOf(sample);
  const bool in_reasoning = (flags & 1) != 0 && !options.reasoning.is_none();
  const std::string_view text = input.rest();
  const std::vector<AnswerEvent> whole = Parse(options, in_reasoning, text, text.size() + 1);
  CheckEvents(whole, options, text);
  CHECK_EQ(Meaning(Parse(options, in_reasoning, text, step)), Meaning(whole));
  return 0;
}
