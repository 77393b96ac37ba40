#include "kvcache/block_hash.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cstring>
#include <string>
#include <vector>

namespace quire {
namespace {

BlockHash Sha256(const std::string& bytes) {
  BlockHash hash;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash.bytes.data());
  return hash;
}

std::string Bytes(const BlockHash& hash) {
  return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

TEST(BlockHashTest, RootIsSha256OfHashedContextAndSalt) {
  BlockHasher hasher("model-a/bfloat16");
  const std::string context = Bytes(Sha256("model-a/bfloat16"));
  EXPECT_EQ(hasher.Root("tenant"), Sha256(context + "tenant"));
}

TEST(BlockHashTest, BlocksChainParentAndTokens) {
  BlockHasher hasher("c");
  const std::vector<TokenId> tokens = {1, -2, 300000};
  std::string token_bytes(tokens.size() * sizeof(TokenId), '\0');
  std::memcpy(token_bytes.data(), tokens.data(), token_bytes.size());
  const BlockHash root = hasher.Root("");
  const BlockHash first = hasher.Next(root, tokens);
  EXPECT_EQ(first, Sha256(Bytes(root) + token_bytes));
  EXPECT_EQ(hasher.Next(first, tokens), Sha256(Bytes(first) + token_bytes));
}

TEST(BlockHashTest, EverythingThatChangesKvChangesTheHash) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  BlockHasher hasher("model-a");
  BlockHasher other_model("model-b");
  const BlockHash hash = hasher.Next(hasher.Root("x"), tokens);
  EXPECT_NE(hash, other_model.Next(other_model.Root("x"), tokens));
  EXPECT_NE(hash, hasher.Next(hasher.Root("y"), tokens));
  EXPECT_NE(hash, hasher.Next(hasher.Root("x"), {1, 2, 4, 3}));
  EXPECT_NE(hash, hasher.Next(hash, tokens));
}

// Moving characters from the context to the salt must not give the same root.
TEST(BlockHashTest, ContextAndSaltDoNotRunIntoEachOther) {
  EXPECT_NE(BlockHasher("ab").Root("c"), BlockHasher("a").Root("bc"));
}

TEST(BlockHashTest, TheSameInputGivesTheSameHashAgain) {
  BlockHasher hasher("c");
  const BlockHash root = hasher.Root("s");
  const BlockHash first = hasher.Next(root, {7, 8});
  hasher.Next(first, {9, 10});
  EXPECT_EQ(hasher.Root("s"), root);
  EXPECT_EQ(hasher.Next(root, {7, 8}), first);
}

}  // namespace
}  // namespace quire
