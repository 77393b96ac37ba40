// Finds and compiles the chat templates of a model folder. At start-up, one thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/chat/chat_template.h"
#include "server/text/chat/message_forms.h"

namespace quire {

// A model may have a template of its own for requests with tools. Immutable; any thread.
class ChatTemplateSet {
 public:
  // `without_tools` or `with_tools` may be absent, not both.
  ChatTemplateSet(std::optional<ChatTemplate> without_tools,
                  std::optional<ChatTemplate> with_tools);

  // Uses the template "tool_use" for a request with tools if there is one, else "default", with the
  // messages in forms that it shows. FAILED_PRECONDITION if the model has neither for this request.
  absl::StatusOr<std::vector<PromptSegment>> Render(RenderInput input) const;

  // The text of the template for messages without tools, else the text of the only other one.
  const std::string& main_source() const {
    return (default_ ? default_ : tool_use_)->chat_template.source();
  }
  // The text of all templates.
  std::string Sources() const;

 private:
  struct Known {
    explicit Known(ChatTemplate compiled)
        : chat_template(std::move(compiled)), forms(chat_template) {}
    ChatTemplate chat_template;
    MessageForms forms;
  };
  std::optional<Known> default_;
  std::optional<Known> tool_use_;
};

// Reads chat_template.jinja and additional_chat_templates/*.jinja, which win over the
// "chat_template" of tokenizer_config.json (a string, or a list of {"name", "template"}). NOT_FOUND
// if the model has no chat template, INVALID_ARGUMENT, naming the file, if one is not valid.
absl::StatusOr<ChatTemplateSet> LoadChatTemplate(const std::filesystem::path& model_folder);

// The template of a file that was named by --chat-template. OUT_OF_RANGE, naming the file, if it
// cannot be read or is no template for messages.
absl::StatusOr<ChatTemplateSet> LoadChatTemplateFile(const std::string& path);

}  // namespace quire
