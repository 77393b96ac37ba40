// ChatTemplate: a model's chat template, compiled once and rendered per request. The result keeps
// apart what the template wrote and what the user sent, so that the tokenizer makes special tokens
// of the former only. Immutable after Compile; any thread may render.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/chat/jinja/tree/statements.h"
#include "server/chat/jinja/values/runtime.h"

namespace quire {

// What a template sees, under the names that transformers gives it.
struct RenderInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;      // Null (none) or an array.
  nlohmann::ordered_json documents;  // Null (none) or an array.
  bool add_generation_prompt = false;
  // The result ends with the content of the last message, which the model goes on with.
  bool continue_final_message = false;
  std::string bos_token;
  std::string eos_token;
  nlohmann::ordered_json kwargs =
      nlohmann::ordered_json::object();  // More variables (chat_template_kwargs).
  std::time_t now = 0;                   // For strftime_now, shown in local time.
  jinja::RenderLimits limits;
};

struct PromptSegment {
  std::string text;
  // The template's own text, bos_token or eos_token: may be a special token. All else came with the
  // request.
  bool from_template;

  bool operator==(const PromptSegment&) const = default;
};

class ChatTemplate {
 public:
  static constexpr size_t kMaxSourceBytes = size_t{1} << 20;

  // INVALID_ARGUMENT with the line for a template that is not valid or uses what is not supported.
  static absl::StatusOr<ChatTemplate> Compile(std::string_view source);

  // Neighbouring segments differ in origin and none is empty. INVALID_ARGUMENT with the line where
  // rendering failed, or with the template's own message where it calls raise_exception().
  absl::StatusOr<std::vector<PromptSegment>> Render(const RenderInput& input) const;

 private:
  explicit ChatTemplate(jinja::Block block)
      : block_(std::make_shared<const jinja::Block>(std::move(block))) {}

  std::shared_ptr<const jinja::Block> block_;
};

}  // namespace quire
