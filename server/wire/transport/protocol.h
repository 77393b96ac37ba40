// Tells the protocols of the one port apart by a connection's first bytes. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace quire {

enum class Protocol : uint8_t {
  kUndecided,  // more bytes are needed
  kHttp2,      // in the clear, with prior knowledge
  kHttp1,      // everything else: HTTP/1.1 can answer what is wrong with it
};

// The beginning of the HTTP/2 connection preface; no HTTP/1.1 method begins in this way.
inline constexpr std::string_view kHttp2Start = "PRI ";

inline Protocol DetectProtocol(std::string_view first_bytes) {
  const size_t size = std::min(first_bytes.size(), kHttp2Start.size());
  if (first_bytes.substr(0, size) != kHttp2Start.substr(0, size)) return Protocol::kHttp1;
  return size == kHttp2Start.size() ? Protocol::kHttp2 : Protocol::kUndecided;
}

}  // namespace quire
