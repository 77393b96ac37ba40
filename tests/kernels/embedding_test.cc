#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/runtime/free_ops.h"

namespace quire::cpu {
namespace {

constexpr int64_t kVocabSize = 150;
constexpr int64_t kHiddenSize = 37;

template <typename T>
class EmbeddingTest : public testing::Test {
 protected:
  EmbeddingTest() : data_(PackedBytes(kVocabSize, kHiddenSize, kDTypeOf<T>)) {
    table_ = {.data = data_.data(),
              .dtype = kDTypeOf<T>,
              .out_features = kVocabSize,
              .in_features = kHiddenSize};
    std::vector<float> values(kVocabSize * kHiddenSize);
    for (size_t i = 0; i < values.size(); ++i) values[i] = Value(i / kHiddenSize, i % kHiddenSize);
    PackRows(table_, 0, Tensor(values.data(), DType::kF32, {kVocabSize, kHiddenSize}));
  }

  static float Value(int64_t token, int64_t i) {
    return static_cast<float>(token) + static_cast<float>(i) / 64;
  }

  void ExpectTokens(const std::vector<int32_t>& ids, const std::vector<int32_t>& last,
                    const std::vector<int32_t>& expected) {
    const int64_t num_tokens = static_cast<int64_t>(ids.size()), stride = kHiddenSize + 3;
    std::vector<T> out(num_tokens * stride, T(-1.0f));
    Embedding(
        {.input_ids = ids.data(),
         .row_last_token = last.data(),
         .table = &table_,
         .out = Tensor(out.data(), kDTypeOf<T>, {num_tokens, kHiddenSize}).WithRowStride(stride)},
        pool_);
    for (int64_t t = 0; t < num_tokens; ++t) {
      for (int64_t i = 0; i < stride; ++i) {
        const float value = i < kHiddenSize ? Value(expected[t], i) : -1.0f;
        ASSERT_EQ(static_cast<float>(out[t * stride + i]), static_cast<float>(T(value)))
            << "token " << t << " element " << i;
      }
    }
  }

  std::vector<char> data_;
  LinearWeight table_;
  ThreadPool pool_{2};
};

using Types = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(EmbeddingTest, Types);

TYPED_TEST(EmbeddingTest, LooksUpRows) {
  this->ExpectTokens({0, 149, 64, 63, 64}, {}, {0, 149, 64, 63, 64});
}

TYPED_TEST(EmbeddingTest, NegativeIdsMeanTheLastTokenOfARow) {
  this->ExpectTokens({~0, 5, ~2, ~1}, {100, 101, 102}, {100, 5, 102, 101});
}

TYPED_TEST(EmbeddingTest, ManyTokens) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 500; ++i) ids.push_back(i * 7 % kVocabSize);
  this->ExpectTokens(ids, {}, ids);
}

using EmbeddingDeathTest = EmbeddingTest<float>;
TEST_F(EmbeddingDeathTest, RefusesATokenOutsideTheVocabulary) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(ExpectTokens({150}, {}, {0}), "token 150 is outside the vocabulary");
}

}  // namespace
}  // namespace quire::cpu
