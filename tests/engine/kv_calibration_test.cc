// Scales that a model's own keys and values give its 8-bit cache.
#include "engine/runner/kv_calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/sequence_runner.h"

namespace quire {
namespace {

// Two layer groups: the last layer sees a window.
constexpr char kConfigJson[] = R"({"model_type": "gemma3_text", "vocab_size": 500,
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "sliding_window": 16, "sliding_window_pattern": 2})";

class KvCalibrationTest : public testing::Test {
 protected:
  KvCalibrationTest() { folder_.Write("config.json", kConfigJson); }

  // A model whose values are `magnitude` times as large as others'.
  std::unique_ptr<SequenceRunner> Open(DType kv_dtype, float magnitude) {
    auto runner = SequenceRunner::Create(folder_.path(),
                                         {.kv_dtype = kv_dtype, .format = LoadFormat::kDummy});
    EXPECT_TRUE(runner.ok()) << runner.status();
    for (size_t layer = 0; layer < (*runner)->config().layers.size(); ++layer) {
      const Tensor& norm = (*runner)->weights().layer(static_cast<int>(layer)).input_norm;
      for (int64_t i = 0; i < norm.num_elements(); ++i) norm.as<float>()[i] *= magnitude;
    }
    return *std::move(runner);
  }

  static double MeanError(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
    return sum / static_cast<double>(a.size());
  }

  const TempFolder folder_;
  const std::vector<TokenId> tokens_ = {5,  17,  400, 3,   99,  250, 7,   8,  61, 300,
                                        2,  444, 33,  12,  90,  80,  70,  60, 50, 40,
                                        30, 20,  10,  499, 498, 1,   111, 222};
};

// Neither what is far beyond an 8-bit type's largest number nor what is far below its least one is
// lost, for either type, and with scales of 1 it would be.
TEST_F(KvCalibrationTest, FitsWhatTheModelMakes) {
  for (const DType kv_dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (const float magnitude : {1e8f, 1e-8f}) {
      SCOPED_TRACE(testing::Message() << DTypeName(kv_dtype) << " x " << magnitude);
      const auto exact = Open(DType::kF32, magnitude)->Append(tokens_);
      const double plain = MeanError(Open(kv_dtype, magnitude)->Append(tokens_), exact);
      const auto runner = Open(kv_dtype, magnitude);
      ASSERT_TRUE(runner->CalibrateKvScales(DType::kF32, 64).ok());
      const double calibrated = MeanError(runner->Append(tokens_), exact);
      EXPECT_LT(calibrated, 0.2 * plain);
      EXPECT_LT(calibrated, 0.1);
    }
  }
}

TEST_F(KvCalibrationTest, GivesTheSameScalesAgainAndOthersToOtherHeads) {
  std::vector<std::vector<float>> scales;
  for (int run = 0; run < 2; ++run) {
    const auto runner = Open(DType::kF8E4M3, 1);
    ASSERT_TRUE(runner->CalibrateKvScales(DType::kF32, 64).ok());
    const Tensor& v_scales = runner->weights().layer(2).gqa.v_scales;
    scales.push_back({v_scales.as<float>(), v_scales.as<float>() + 2});
  }
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_NE(scales[0][0], scales[0][1]);
}

}  // namespace
}  // namespace quire
