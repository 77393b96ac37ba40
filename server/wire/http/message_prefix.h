// The five bytes that gRPC puts before each message. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace quire {

inline constexpr size_t kMessagePrefixBytes = 5;

struct MessagePrefix {
  bool is_compressed;
  size_t num_bytes;  // of the message
};

inline MessagePrefix ParseMessagePrefix(absl::string_view bytes) {  // kMessagePrefixBytes of them
  size_t num_bytes = 0;
  for (size_t i = 1; i < kMessagePrefixBytes; ++i) {
    num_bytes = num_bytes << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return {bytes[0] != 0, num_bytes};
}

inline void AppendMessagePrefix(size_t num_bytes, std::string* out) {
  out->push_back(0);
  for (int shift = 24; shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(num_bytes >> shift));
  }
}

}  // namespace quire
