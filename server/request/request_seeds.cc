#include "server/request/request_seeds.h"

#include <openssl/rand.h>

#include <array>
#include <random>

#include "kernels/base/check.h"

namespace quire {

namespace {

// Of OpenSSL's generator: std::random_device takes tens of microseconds where it is the
// processor's.
uint64_t RandomSeed() {
  uint64_t seed = 0;
  CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(&seed), sizeof(seed)), 1)
      << "the system has no random numbers";
  return seed;
}

}  // namespace

uint64_t RequestSeeds::Next() {
  if (!seed_.has_value()) return RandomSeed();
  const uint64_t n = num_drawn_.fetch_add(1, std::memory_order_relaxed);
  std::seed_seq sequence = {static_cast<uint32_t>(*seed_), static_cast<uint32_t>(*seed_ >> 32),
                            static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32)};
  std::array<uint32_t, 2> words = {};
  sequence.generate(words.begin(), words.end());
  return static_cast<uint64_t>(words[0]) << 32 | words[1];
}

}  // namespace quire
