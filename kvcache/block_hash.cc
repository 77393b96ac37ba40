#include "kvcache/block_hash.h"

#include <openssl/evp.h>

#include "kernels/base/check.h"

namespace quire {

void BlockHasher::ContextDeleter::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

BlockHasher::BlockHasher(std::string_view context) : digest_(EVP_MD_CTX_new()) {
  CHECK(digest_ != nullptr);
  CHECK_EQ(EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr), 1);
  Update(context.data(), context.size());
  context_hash_ = End();
}

// Hashing the context first gives it a fixed length, so no salt can imitate the end of a context.
BlockHash BlockHasher::Root(std::string_view salt) {
  Begin();
  Update(context_hash_.bytes.data(), context_hash_.bytes.size());
  Update(salt.data(), salt.size());
  return End();
}

BlockHash BlockHasher::Next(const BlockHash& parent, absl::Span<const TokenId> tokens) {
  CHECK(!tokens.empty());
  Begin();
  Update(parent.bytes.data(), parent.bytes.size());
  Update(tokens.data(), tokens.size() * sizeof(TokenId));
  return End();
}

void BlockHasher::Begin() {
  // A null digest type keeps SHA-256 and only resets the state.
  CHECK_EQ(EVP_DigestInit_ex(digest_.get(), nullptr, nullptr), 1);
}

void BlockHasher::Update(const void* data, size_t size_bytes) {
  CHECK_EQ(EVP_DigestUpdate(digest_.get(), data, size_bytes), 1);
}

BlockHash BlockHasher::End() {
  BlockHash hash;
  unsigned int size = 0;
  CHECK_EQ(EVP_DigestFinal_ex(digest_.get(), hash.bytes.data(), &size), 1);
  CHECK_EQ(size, hash.bytes.size());
  return hash;
}

}  // namespace quire
