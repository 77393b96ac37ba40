#include "tools/client/chat/conversation.h"

namespace quire::client {

namespace {

constexpr char kSystem[] = "system";

void Add(const char* role, const std::string& text, v1::Messages* messages) {
  v1::Message* message = messages->add_messages();
  message->set_role(role);
  message->set_content(text);
}

}  // namespace

bool Conversation::HasSystem() const {
  return messages_.messages_size() > 0 && messages_.messages(0).role() == kSystem;
}

bool Conversation::HasTurns() const { return messages_.messages_size() > (HasSystem() ? 1 : 0); }

void Conversation::SetSystem(const std::string& text) {
  v1::Messages rest;
  if (!text.empty()) Add(kSystem, text, &rest);
  for (int i = HasSystem() ? 1 : 0; i < messages_.messages_size(); ++i) {
    *rest.add_messages() = messages_.messages(i);
  }
  messages_ = std::move(rest);
}

void Conversation::AddUser(const std::string& text) { Add("user", text, &messages_); }

void Conversation::AddAssistant(const std::string& text) { Add("assistant", text, &messages_); }

void Conversation::TakeBackLast() { messages_.mutable_messages()->RemoveLast(); }

void Conversation::Clear() {
  const int kept = HasSystem() ? 1 : 0;
  messages_.mutable_messages()->DeleteSubrange(kept, messages_.messages_size() - kept);
}

}  // namespace quire::client
