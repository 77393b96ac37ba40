// JSON on standard output, for programs to read. Pure, except PrintJson; any thread.
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "nlohmann/json_fwd.hpp"

namespace quire::client {

// The fields of a message by their names in the .proto file, unset ones with their defaults; 64-bit
// integers are numbers (protobuf's own JSON makes strings of them). For messages without maps.
nlohmann::ordered_json MessageToJson(const google::protobuf::Message& message);

// A token's bytes, which need not be a text: a list of numbers.
nlohmann::ordered_json BytesToJson(const std::string& bytes);

// Prints it on one line; bytes that are not UTF-8 become U+FFFD.
void PrintJson(const nlohmann::ordered_json& json);

}  // namespace quire::client
