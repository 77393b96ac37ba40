// Compressed weights: what comes out of a gemm and of UnpackRow has the bits of the plain
// weight.
#include "kernels/cpu/gemm/compression.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/gemm/gemm.h"
#include "tests/kernels/gemm_targets.h"

namespace quire::cpu {
namespace {

// A plain and a compressed weight of the same values.
struct Pair {
  Pair(int64_t rows, int64_t cols, const std::vector<BFloat16>& values)
      : plain_data(PackedBytes(rows, cols, DType::kBF16) / 64),
        plain{.data = plain_data.data(),
              .dtype = DType::kBF16,
              .out_features = rows,
              .in_features = cols} {
    std::memset(plain.data, 0xA5, plain_data.size() * 64);  // padding is never read
    PackRows(plain, 0, Tensor(const_cast<BFloat16*>(values.data()), DType::kBF16, {rows, cols}));
    compressed_data = plain_data;
    compressed = plain;
    compressed.data = compressed_data.data();
    ThreadPool pool(2);
    Compress(compressed, compressed.data, pool);
  }
  Pair(const Pair&) = delete;

  bool is_compressed() const { return compressed.is_compressed(); }

  std::vector<CacheLine> plain_data;
  std::vector<CacheLine> compressed_data;
  LinearWeight plain;
  LinearWeight compressed;
};

std::vector<BFloat16> NormalValues(int64_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<BFloat16> values(count);
  for (BFloat16& value : values) value = BFloat16(normal(rng));
  return values;
}

// Normal values with a few that no code stands for: near both ends of a row, side by side, in one
// step.
std::vector<BFloat16> ValuesWithExceptions(int64_t rows, int64_t cols, uint32_t seed) {
  std::vector<BFloat16> values = NormalValues(rows * cols, seed);
  std::mt19937 rng(seed);
  for (int64_t i = 0; i < rows * cols / 500; ++i) {
    values[rng() % values.size()] = BFloat16(i % 2 == 0 ? 1e-20f : -3e4f);
  }
  values.front() = BFloat16(1e25f);
  values.back() = BFloat16(-1e-25f);
  values[values.size() / 2].bits = 1;  // the least there is
  values[values.size() / 2 + 1].bits = 0x8000;
  return values;
}

void ExpectSameRows(const Pair& pair) {
  std::vector<BFloat16> expected(pair.plain.in_features), row(pair.plain.in_features);
  for (int64_t r = 0; r < pair.plain.out_features; ++r) {
    UnpackRow(pair.plain, r, expected.data());
    UnpackRow(pair.compressed, r, row.data());
    ASSERT_EQ(std::memcmp(row.data(), expected.data(), row.size() * sizeof(row[0])), 0)
        << "row " << r;
  }
}

TEST(CompressionTest, RowsComeBack) {
  for (int64_t rows : {1, 63, 64, 65, 200}) {
    for (int64_t cols : {301, 512, 2000}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols);
      const Pair pair(rows, cols, ValuesWithExceptions(rows, cols, 3));
      EXPECT_TRUE(pair.is_compressed());
      ExpectSameRows(pair);
    }
  }
}

TEST(CompressionTest, KeepsEveryBitPattern) {
  std::vector<BFloat16> values(65536 * 2, BFloat16(0.5f));
  for (size_t bits = 0; bits < 65536; ++bits) values[bits].bits = static_cast<uint16_t>(bits);
  // All of them in one panel are too many exceptions; a few hundred at a time are not.
  const int64_t cols = 2048;
  for (size_t first = 0; first < 65536; first += 509) {
    std::vector<BFloat16> some(64 * cols, BFloat16(0.5f));
    for (size_t i = 0; i < 509 && first + i < 65536; ++i) some[i * 257] = values[first + i];
    const Pair pair(64, cols, some);
    ASSERT_TRUE(pair.is_compressed()) << first;
    ExpectSameRows(pair);
  }
  const Pair all(64, cols, values);
  EXPECT_FALSE(all.is_compressed());
  ExpectSameRows(all);
}

TEST(CompressionTest, TakesThreeQuarters) {
  const int64_t rows = 640, cols = 1024;
  const Pair pair(rows, cols, NormalValues(rows * cols, 5));
  ASSERT_TRUE(pair.is_compressed());
  const int64_t plain_bytes = PackedBytes(kPanelFeatures, cols, DType::kBF16);
  EXPECT_LT(CompressedPanelBytes(pair.compressed), plain_bytes * 76 / 100);
  EXPECT_LT(pair.compressed.size_bytes(), pair.plain.size_bytes() * 76 / 100);
}

TEST(CompressionTest, ZerosNeedNoExceptions) {
  const Pair zeros(64, 512, std::vector<BFloat16>(64 * 512, BFloat16(0.0f)));
  ASSERT_TRUE(zeros.is_compressed());
  EXPECT_EQ(CompressedPanelOf(zeros.compressed, 0).num_exceptions, 0);
  ExpectSameRows(zeros);
}

// The eight pairs of exponents with the most weights are taken, wherever they are.
TEST(CompressionTest, TakesTheMostFrequentExponents) {
  constexpr float kMagnitudes[] = {1e-30f, 1e-20f, 1e-10f, 1e-3f, 0.0f, 1.0f, 1e10f, 1e20f, 1e30f};
  std::vector<BFloat16> values;
  for (int i = 0; i < 64 * 512; ++i) {
    const float magnitude = i % 4096 == 0 ? 1e-3f : kMagnitudes[i % 9 == 3 ? 5 : i % 9];
    values.emplace_back(i % 2 == 0 ? magnitude : -magnitude);
  }
  const Pair pair(64, 512, values);
  ASSERT_TRUE(pair.is_compressed());
  EXPECT_EQ(CompressedPanelOf(pair.compressed, 0).num_exceptions, 64 * 512 / 4096);
  ExpectSameRows(pair);
}

TEST(CompressionTest, Float32StaysAsItIs) {
  std::vector<CacheLine> data(PackedBytes(64, 8, DType::kF32) / 64);
  LinearWeight weight{
      .data = data.data(), .dtype = DType::kF32, .out_features = 64, .in_features = 8};
  ThreadPool pool(1);
  Compress(weight, weight.data, pool);
  EXPECT_FALSE(weight.is_compressed());
}

// By less than a panel, by some, and to where nothing overlaps.
TEST(CompressionTest, MovesToAPlaceBefore) {
  constexpr int64_t kRows = 64 * 100 + 7, kCols = 66;  // more panels than are compressed at a time
  const Pair pair(kRows, kCols, ValuesWithExceptions(kRows, kCols, 9));
  ASSERT_TRUE(pair.is_compressed());
  const auto num_lines = static_cast<int64_t>(pair.plain_data.size());
  for (int64_t distance : {int64_t{1}, int64_t{200}, num_lines}) {
    SCOPED_TRACE(distance);
    std::vector<CacheLine> data(distance + num_lines);
    std::copy(pair.plain_data.begin(), pair.plain_data.end(), data.begin() + distance);
    LinearWeight weight = pair.plain;
    weight.data = data.data() + distance;
    ThreadPool pool(2);
    Compress(weight, data.data(), pool);
    EXPECT_EQ(weight.data, data.data());
    ASSERT_EQ(weight.compressed_bytes, pair.compressed.compressed_bytes);
    EXPECT_EQ(std::memcmp(weight.data, pair.compressed.data, weight.compressed_bytes), 0);
  }
}

class CompressedLinearTest : public testing::TestWithParam<GemmTarget> {
 protected:
  void SetUp() override {
    if (!gemm_.can_expand()) GTEST_SKIP() << "does not compress";
  }

  std::vector<float> Run(const Tensor& x, const LinearWeight& weight) {
    std::vector<float> out(x.dim(0) * weight.out_features);
    gemm_.Linear({.x = x,
                  .weight = &weight,
                  .out = Tensor(out.data(), DType::kF32, {x.dim(0), weight.out_features})},
                 pool_);
    return out;
  }

  Gemm gemm_{GetParam().kernel};
  ThreadPool pool_{2};
};

TEST_P(CompressedLinearTest, BitsAreThoseOfPlainWeights) {
  for (int64_t n : {1, 64, 150}) {
    for (int64_t k : {301, 512, 1000, 2501}) {  // the last one is expanded in three parts
      const Pair pair(n, k, ValuesWithExceptions(n, k, 11));
      ASSERT_TRUE(pair.is_compressed());
      for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 29, 48, 129, 600}) {
        std::vector<BFloat16> x = NormalValues(m * k, 12);
        const Tensor input(x.data(), DType::kBF16, {m, k});
        const std::vector<float> expected = Run(input, pair.plain);
        const std::vector<float> out = Run(input, pair.compressed);
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0)
            << "m " << m << " n " << n << " k " << k;
      }
    }
  }
}

// Where weights end within a block of steps, nothing of earlier ones is left in their place.
TEST_P(CompressedLinearTest, BrokenWeightsLeaveNoTrace) {
  const Pair broken(64, 512, std::vector<BFloat16>(64 * 512, BFloat16(NAN)));
  const Pair pair(64, 482, NormalValues(64 * 482, 13));
  ASSERT_TRUE(broken.is_compressed() && pair.is_compressed());
  for (int64_t m : {1, 40}) {
    std::vector<BFloat16> x = NormalValues(m * 512, 14);
    const std::vector<float> nans =
        Run(Tensor(x.data(), DType::kBF16, {m, 512}), broken.compressed);
    EXPECT_TRUE(std::isnan(nans.back()));
    const Tensor input(x.data(), DType::kBF16, {m, 482});
    const std::vector<float> out = Run(input, pair.compressed);
    const std::vector<float> expected = Run(input, pair.plain);
    ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0) << "m " << m;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CompressedLinearTest, testing::ValuesIn(GemmTargets()),
                         [](const auto& info) { return info.param.name; });

// Weights of `rows[i]` x 1024 in one allocation, filled with random values and sealed.
class SealedWeights {
 public:
  SealedWeights(CpuBackend& backend, const std::vector<int64_t>& rows) : weights(rows.size()) {
    int64_t bytes = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      weights[i] = {.dtype = DType::kBF16, .out_features = rows[i], .in_features = 1024};
      bytes += backend.weight_store().BytesOf(weights[i]);
    }
    memory = *backend.device().Allocate(bytes);
    auto stream = *backend.device().CreateStream();
    std::vector<LinearWeight*> pointers;
    char* data = memory.as<char>();
    for (LinearWeight& weight : weights) {
      weight.data = std::exchange(data, data + backend.weight_store().BytesOf(weight));
      backend.weight_store().Fill(*stream, weight,
                                  {.seed = 1, .tensor_id = pointers.size(), .stddev = 0.03f});
      pointers.push_back(&weight);
    }
    EXPECT_TRUE(stream->Synchronize().ok());
    const std::vector<BFloat16> expected = Values();
    backend.weight_store().Seal(*stream, pointers, &memory, nullptr);
    EXPECT_TRUE(stream->Synchronize().ok());
    const std::vector<BFloat16> values = Values();
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * 2), 0);
  }

  std::vector<LinearWeight> weights;
  DeviceBuffer memory;

 private:
  std::vector<BFloat16> Values() const {
    int64_t num_rows = 0;
    for (const LinearWeight& weight : weights) num_rows += weight.out_features;
    std::vector<BFloat16> values(num_rows * 1024);
    BFloat16* out = values.data();
    for (const LinearWeight& weight : weights) {
      for (int64_t row = 0; row < weight.out_features; ++row, out += 1024) {
        UnpackRow(weight, row, out);
      }
    }
    return values;
  }
};

TEST(SealLinearsTest, CompressesWhatMemoryMustBeReadFor) {
  const bool can_expand = Gemm(BestIsa()).can_expand();
  CpuBackend backend(2);
  const SealedWeights sealed(backend, {1100, 900, 2000});  // the second is under 2 MiB
  EXPECT_EQ(sealed.weights[0].is_compressed(), can_expand);
  EXPECT_FALSE(sealed.weights[1].is_compressed());
  EXPECT_EQ(sealed.weights[2].is_compressed(), can_expand);
}

TEST(SealLinearsTest, GivesBackTheMemoryThatIsLeft) {
  if (!Gemm(BestIsa()).can_expand()) GTEST_SKIP() << "weights are not compressed here";
  CpuBackend backend(2);
  const SealedWeights sealed(backend, {32768, 900, 32768});
  int64_t packed_bytes = 0;
  const char* end = sealed.memory.as<char>();
  for (const LinearWeight& weight : sealed.weights) {
    EXPECT_EQ(weight.data, end);
    const int64_t packed = backend.weight_store().BytesOf(weight);
    end += weight.is_compressed() ? weight.compressed_bytes : packed;
    packed_bytes += packed;
  }
  EXPECT_EQ(sealed.memory.as<char>() + sealed.memory.size_bytes(), end);
  EXPECT_LT(sealed.memory.size_bytes(), packed_bytes * 77 / 100);
  const char* const page =
      sealed.memory.as<char>() + RoundUp<int64_t>(sealed.memory.size_bytes(), 4096);
  unsigned char is_resident;
  EXPECT_EQ(mincore(const_cast<char*>(page) - 4096, 4096, &is_resident), 0);
  EXPECT_EQ(mincore(const_cast<char*>(page), 4096, &is_resident), -1) << "still mapped";
}

TEST(SealLinearsTest, ExpertsMoveAsTheyAre) {
  if (!Gemm(BestIsa()).can_expand()) GTEST_SKIP() << "weights are not compressed here";
  CpuBackend backend(2);
  WeightStore& store = backend.weight_store();
  constexpr int64_t kCols = 1024, kExperts = 3;
  LinearWeight first = {.dtype = DType::kBF16, .out_features = 1100, .in_features = kCols};
  LinearWeight experts = first, last = first;
  experts.num_experts = kExperts;
  experts.expert_bytes = store.BytesOf(experts.Expert(0)) + 64;
  const int64_t first_bytes = store.BytesOf(first), bytes = kExperts * experts.expert_bytes;
  DeviceBuffer memory = *backend.device().Allocate(2 * first_bytes + bytes);
  first.data = memory.data();
  experts.data = memory.as<char>() + first_bytes;
  last.data = memory.as<char>() + first_bytes + bytes;
  const auto stream = *backend.device().CreateStream();
  std::vector<LinearWeight> matrices = {first, last};
  for (int64_t e = 0; e < kExperts; ++e) matrices.push_back(experts.Expert(e));
  const auto values_of = [&](const LinearWeight& weight) {
    std::vector<BFloat16> values(weight.out_features * kCols);
    for (int64_t row = 0; row < weight.out_features; ++row) {
      UnpackRow(weight, row, values.data() + row * kCols);
    }
    return values;
  };
  std::vector<std::vector<BFloat16>> expected;
  for (const LinearWeight& matrix : matrices) {
    store.Fill(*stream, matrix, {.seed = 1, .tensor_id = expected.size(), .stddev = 0.03f});
    ASSERT_TRUE(stream->Synchronize().ok());
    expected.push_back(values_of(matrix));
  }
  const std::vector<LinearWeight*> weights = {&first, &experts, &last};
  store.Seal(*stream, weights, &memory, nullptr);
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_TRUE(first.is_compressed() && last.is_compressed() && !experts.is_compressed());
  EXPECT_EQ(experts.data, memory.as<char>() + first.compressed_bytes);
  matrices = {first, last};
  for (int64_t e = 0; e < kExperts; ++e) matrices.push_back(experts.Expert(e));
  for (size_t i = 0; i < matrices.size(); ++i) {
    const auto values = values_of(matrices[i]);
    EXPECT_EQ(std::memcmp(values.data(), expected[i].data(), 2 * values.size()), 0) << i;
  }
}

TEST(SealLinearsTest, LeavesWeightsAloneIfToldTo) {
  CpuBackend backend(1, BestIsa(), /*compress_weights=*/false);
  CpuBackend generic(1, Isa::kGeneric);
  for (CpuBackend* each : {&backend, &generic}) {
    const SealedWeights sealed(*each, {1100});
    EXPECT_FALSE(sealed.weights[0].is_compressed());
    EXPECT_EQ(sealed.weights[0].data, sealed.memory.data());
  }
}

}  // namespace
}  // namespace quire::cpu
