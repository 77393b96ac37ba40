// ChatTemplate: a model's chat template, compiled once and rendered per request. The result keeps
// the template's text apart from the user's, so that the tokenizer makes special tokens only of the
// template's. Immutable after Compile; any thread may render.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/fuel.h"
#include "server/text/chat/jinja/tree/statements.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire {

// The variables that a template sees, under the names that transformers gives them.
struct RenderInput {
  jinja::Value messages = EmptyList();
  jinja::Value tools = jinja::None{};      // Or a list.
  jinja::Value documents = jinja::None{};  // Or a list.
  bool add_generation_prompt = false;
  // The result ends with the content of the last message, which the model goes on with.
  bool continue_final_message = false;
  std::string bos_token;
  std::string eos_token;
  jinja::Value kwargs = jinja::None{};  // Or a dict of more variables (chat_template_kwargs).
  std::time_t now = 0;                  // For strftime_now, shown in local time.
  Fuel* fuel = nullptr;                 // Null: kMaxSteps of its own.
  size_t max_text_bytes = jinja::kMaxTextBytes;

  static constexpr size_t kMaxSteps = 5'000'000;
  static jinja::Value EmptyList() {
    return jinja::Value(
        std::make_shared<const jinja::List>(jinja::ListKind::kList, std::vector<jinja::Value>()));
  }
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

  // INVALID_ARGUMENT with the line for a template that is not valid or uses a feature that is not
  // supported.
  static absl::StatusOr<ChatTemplate> Compile(std::string_view source);

  // Neighbouring segments differ in origin and none is empty. INVALID_ARGUMENT with the line where
  // rendering failed, or with the template's own message if it calls raise_exception(); CANCELLED
  // if the fuel says so.
  absl::StatusOr<std::vector<PromptSegment>> Render(const RenderInput& input) const;

  const std::string& source() const { return *source_; }

 private:
  ChatTemplate(std::string_view source, jinja::Block block)
      : source_(std::make_shared<const std::string>(source)),
        block_(std::make_shared<const jinja::Block>(std::move(block))) {}

  std::shared_ptr<const std::string> source_;
  std::shared_ptr<const jinja::Block> block_;
};

}  // namespace quire
