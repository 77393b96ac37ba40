// BlockHash: the identity of a full block's contents: SHA-256 chained over the tokens of the block
// and of all blocks before it, starting from a root that holds everything else that changes KV
// (model, dtype, salt). BlockHasher computes it with one reused digest context; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "kernels/base/types.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace quire {

struct BlockHash {
  std::array<uint8_t, 32> bytes = {};
  friend bool operator==(const BlockHash&, const BlockHash&) = default;
};

// The hash's last eight bytes, most significant first: what events name blocks by.
inline uint64_t ShortHash(const BlockHash& hash) {
  uint64_t value = 0;
  for (size_t i = hash.bytes.size() - sizeof(value); i < hash.bytes.size(); ++i) {
    value = value << 8 | hash.bytes[i];
  }
  return value;
}

class BlockHasher {
 public:
  // `context` is mixed into every root.
  explicit BlockHasher(std::string_view context);

  // The hash that the first block of a sequence chains to.
  BlockHash Root(std::string_view salt);

  // The hash of a block with these `tokens` that follows `parent` (a root or a block's hash).
  BlockHash Next(const BlockHash& parent, absl::Span<const TokenId> tokens);

 private:
  struct ContextDeleter {
    void operator()(evp_md_ctx_st* context) const;
  };

  void Begin();
  void Update(const void* data, size_t size_bytes);
  BlockHash End();

  std::unique_ptr<evp_md_ctx_st, ContextDeleter> digest_;
  BlockHash context_hash_;
};

}  // namespace quire
