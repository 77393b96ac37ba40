#include "tools/bench/load/openai_events.h"

#include <array>
#include <string>

#include "engine/json/parse_json.h"
#include "nlohmann/json.hpp"
#include "tools/bench/json_values.h"

namespace quire::bench {

namespace {

using ParsedJson = nlohmann::json;

// Knows of each level of the JSON under which key it is; lists have none.
class ChunkReader final : public ParsedJson::json_sax_t {
 public:
  ChunkReader(bool keeps_answer, AnswerSoFar* answer)
      : keeps_answer_(keeps_answer), answer_(*answer) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return TakeNumber(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return TakeNumber(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return TakeReal(value); }
  bool string(string_t& value) override {
    if (IsText()) {
      if (value.empty()) return true;
      ++answer_.num_tokens;
      if (keeps_answer_) answer_.text.append(value);
    } else if (depth_ == 3 && keys_[0] == "choices" && keys_[2] == "finish_reason") {
      answer_.finish_reason = value;
    } else if (depth_ == 2 && keys_[0] == "error" && keys_[1] == "message") {
      answer_.problem = value;
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool key(string_t& value) override {
    keys_[depth_ - 1].assign(value);
    return true;
  }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  static bool RefuseNul(size_t) { return false; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  // choices, each, logprobs, content, each, top_logprobs, each.
  static constexpr size_t kMaxDepth = 16;

  bool Enter() {
    if (depth_ == kMaxDepth) return false;
    keys_[depth_++].clear();
    return true;
  }
  bool Leave() {
    --depth_;
    return true;
  }
  // choices[i].text, choices[i].delta.content, choices[i].delta.tool_calls[j].function.arguments.
  bool IsText() const {
    if (depth_ < 3 || keys_[0] != "choices") return false;
    if (depth_ == 3) return keys_[2] == "text";
    if (keys_[2] != "delta") return false;
    if (depth_ == 4) {
      return keys_[3] == "content" || keys_[3] == "reasoning_content" || keys_[3] == "reasoning";
    }
    return depth_ == 7 && keys_[3] == "tool_calls" && keys_[6] == "arguments";
  }
  // choices[i].logprobs.token_logprobs[j], choices[i].logprobs.content[j].logprob; the first token
  // of an echoed prompt has null.
  bool TakeReal(double value) {
    if (!keeps_answer_ || depth_ < 5 || keys_[0] != "choices" || keys_[2] != "logprobs")
      return true;
    const bool is_completions = depth_ == 5 && keys_[3] == "token_logprobs";
    const bool is_chats = depth_ == 6 && keys_[3] == "content" && keys_[5] == "logprob";
    if (is_completions || is_chats) answer_.logprobs.push_back(static_cast<float>(value));
    return true;
  }
  bool TakeNumber(int64_t value) {
    if (depth_ > 0 && keys_[0] == "choices") {
      // vLLM's: choices[i].token_ids[j].
      if (keeps_answer_ && depth_ == 4 && keys_[2] == "token_ids") {
        answer_.token_ids.push_back(static_cast<int32_t>(value));
      }
      return TakeReal(static_cast<double>(value));
    }
    if (depth_ < 2 || keys_[0] != "usage") return true;
    if (depth_ == 2 && keys_[1] == "prompt_tokens") answer_.prompt_tokens = value;
    if (depth_ == 2 && keys_[1] == "completion_tokens") answer_.completion_tokens = value;
    if (depth_ == 3 && keys_[2] == "cached_tokens") answer_.cached_tokens = value;
    return true;
  }

  const bool keeps_answer_;
  AnswerSoFar& answer_;
  std::array<std::string, kMaxDepth> keys_;
  size_t depth_ = 0;
};

}  // namespace

void TakeOpenAiChunk(std::string_view data, bool keeps_answer, AnswerSoFar* answer) {
  ChunkReader reader(keeps_answer, answer);
  const bool is_whole = ReadJsonEvents(data, &reader);
  if (!is_whole && answer->problem.empty())
    answer->problem = "the answer has an event that is no JSON";
}

std::string OpenAiErrorText(std::string_view body) {
  const auto json = ParseJson<nlohmann::ordered_json>(body);
  const nlohmann::ordered_json& error = MemberOf(json, "error");
  for (const char* key : {"message", "detail"}) {
    const nlohmann::ordered_json& text = MemberOf(error.is_object() ? error : json, key);
    if (!text.is_null()) return text.is_string() ? text.get<std::string>() : LineOf(text);
  }
  constexpr size_t kBeginning = 200;
  return std::string(body.substr(0, kBeginning));
}

}  // namespace quire::bench
