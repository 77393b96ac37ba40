// The common part of the tests of an Engine with a tiny model.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "engine/engine.h"
#include "tests/engine/graph_backend.h"
#include "tests/engine/tiny_engine.h"

namespace quire {

// The device that computes, and whether decode steps are captured and replayed.
struct EngineTarget {
  std::string name;
  DeviceKind device;
  bool replays;
};

inline std::vector<EngineTarget> EngineTargets() {
  std::vector<EngineTarget> targets = {{"Eager", DeviceKind::kCpu, false},
                                       {"Replayed", DeviceKind::kCpu, true}};
  if (CudaAvailable()) {
    targets.push_back({"CudaEager", DeviceKind::kCuda, false});
    targets.push_back({"CudaReplayed", DeviceKind::kCuda, true});
  }
  return targets;
}

class EngineTest : public ::testing::TestWithParam<EngineTarget> {
 protected:
  bool is_cpu() const { return GetParam().device == DeviceKind::kCpu; }

  EngineConfig Config() const {
    EngineConfig config = testing::TinyConfig(folder_);
    config.device = GetParam().device;
    config.enforce_eager = !GetParam().replays;
    return config;
  }
  std::unique_ptr<Engine> Open(const EngineConfig& config) {
    const bool counts = is_cpu() && GetParam().replays;
    auto engine = counts ? Engine::Open(config, std::make_unique<testing::GraphBackend>(counts_))
                         : Engine::Open(config);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }
  // A stream's last event can be read before the engine's thread has published its status.
  static EngineStatus IdleStatus(Engine& engine) {
    EXPECT_TRUE(engine.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
    engine.FlushPrefixCache();  // runs between two steps: what came before has been published
    return engine.status();
  }
  // The CPU's bits are the same in any batch; a GPU's results within rounding, which here never
  // decides which token is the likeliest.
  void ExpectSame(const testing::Answer& answer, const testing::Answer& expected) const {
    EXPECT_EQ(answer.tokens, expected.tokens);
    ASSERT_EQ(answer.logprobs.size(), expected.logprobs.size());
    for (size_t i = 0; i < answer.logprobs.size(); ++i) {
      EXPECT_NEAR(answer.logprobs[i].logprob, expected.logprobs[i].logprob, is_cpu() ? 0 : 1e-3);
      if (is_cpu()) {
        EXPECT_EQ(answer.logprobs[i].top, expected.logprobs[i].top);
      }
    }
  }

  const std::string folder_ = testing::MakeTinyModelFolder();
  const std::shared_ptr<testing::StreamCounts> counts_ = std::make_shared<testing::StreamCounts>();
};

}  // namespace quire
