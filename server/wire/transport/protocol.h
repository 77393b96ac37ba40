// Tells the protocols of the one port apart by a connection's first bytes. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace quire {

enum class Protocol : uint8_t {
  kUndecided,  // more bytes are needed
  kHttp2,      // in the clear, with prior knowledge
  kHttp1,      // everything else: whoever speaks HTTP/1.1 can say what is wrong with it
};

// What the HTTP/2 connection preface begins with; no HTTP/1.1 method does.
inline constexpr std::string_view kHttp2Start = "PRI ";

inline Protocol DetectProtocol(std::string_view first_bytes) {
  const size_t size = std::min(first_bytes.size(), kHttp2Start.size());
  if (first_bytes.substr(0, size) != kHttp2Start.substr(0, size)) return Protocol::kHttp1;
  return size == kHttp2Start.size() ? Protocol::kHttp2 : Protocol::kUndecided;
}

}  // namespace quire
