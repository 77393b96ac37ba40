// ExpertTokens: how many tokens have chosen each expert of a mixture, layer by layer, since serving
// began. Empty unless the engine counts them (EngineConfig::count_experts). Written by the engine's
// thread, read by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/metrics/counter.h"

namespace quire {

class ExpertTokens {
 public:
  // How many experts each layer has, 0 if it has none.
  explicit ExpertTokens(std::vector<int32_t> num_experts);

  const std::vector<int32_t>& num_experts() const { return num_experts_; }
  uint64_t Of(size_t layer, int32_t expert) const { return counts_[At(layer, expert)].value(); }

  // Takes the device's counts so far, [layers, the most experts of a layer]. Call it once before
  // serving, and then after steps.
  void Begin(const int64_t* totals);
  void Update(const int64_t* totals);

 private:
  size_t At(size_t layer, int32_t expert) const { return layer * most_ + expert; }

  std::vector<int32_t> num_experts_;
  size_t most_;
  std::unique_ptr<Counter[]> counts_;  // NOLINT(*-avoid-c-arrays)
  std::vector<int64_t> totals_;        // that are in counts_, or were there before serving
};

}  // namespace quire
