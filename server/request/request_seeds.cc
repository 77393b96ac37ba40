#include "server/request/request_seeds.h"

#include <array>
#include <bit>
#include <random>

#include "server/base/random_bytes.h"

namespace quire {

namespace {

uint64_t RandomSeed() {
  std::array<uint8_t, sizeof(uint64_t)> bytes = {};
  FillRandom(absl::MakeSpan(bytes));
  return std::bit_cast<uint64_t>(bytes);
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
