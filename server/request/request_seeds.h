// RequestSeeds: the seeds of requests that bring none. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace quire {

class RequestSeeds {
 public:
  // With `seed` the n-th request has the same seed in every run; without it, nobody can foretell
  // the seed.
  explicit RequestSeeds(std::optional<uint64_t> seed) : seed_(seed) {}

  uint64_t Next();

 private:
  const std::optional<uint64_t> seed_;
  std::atomic<uint64_t> num_drawn_ = 0;
};

}  // namespace quire
