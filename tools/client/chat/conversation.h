// The messages of a chat, which go with every request. Not thread-safe.
#pragma once

#include <string>

#include "quire/v1/inference.pb.h"

namespace quire::client {

class Conversation {
 public:
  // Sets the system message, which stands first; empty removes it. The other messages stay.
  void SetSystem(const std::string& text);
  void AddUser(const std::string& text);
  void AddAssistant(const std::string& text);
  // Removes the last message: the question whose answer failed.
  void TakeBackLast();
  // Removes every message except the system message.
  void Clear();

  bool HasSystem() const;
  // Whether there is a message other than the system message.
  bool HasTurns() const;
  const v1::Messages& messages() const { return messages_; }

 private:
  v1::Messages messages_;
};

}  // namespace quire::client
