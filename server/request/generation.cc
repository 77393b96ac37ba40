#include "server/request/generation.h"

namespace quire {

namespace {

struct Counter {
  size_t operator()(std::monostate) const { return 0; }
  size_t operator()(const TextPrompt& prompt) const { return prompt.text.size(); }
  size_t operator()(const TokenIdsPrompt& ids) const { return ids.size() * sizeof(uint32_t); }
  size_t operator()(const ChatPrompt& chat) const { return NumBytes(chat); }
};

}  // namespace

size_t NumBytes(const ChatPrompt& chat) {
  size_t num_bytes = NumBytes(chat.tools) + NumBytes(chat.template_kwargs);
  for (const JsonTree& message : chat.messages) num_bytes += NumBytes(message);
  return num_bytes;
}

size_t NumBytes(const Prompt& prompt) { return std::visit(Counter(), prompt); }

size_t NumMessages(const Prompt& prompt) {
  const auto* chat = std::get_if<ChatPrompt>(&prompt);
  return chat == nullptr ? 0 : chat->messages.size();
}

}  // namespace quire
