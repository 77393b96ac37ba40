// The file of measured choices: what is written is read back, what is damaged or of another machine
// is refused, and a device that tunes goes on without it.
#include "kernels/cuda/gemm/tuning_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cuda/gemm/gemv.h"
#include "kernels/cuda/gemm/hopper/hopper_gemm.h"
#include "kernels/cuda/gemm/known_gemms.h"
#include "kernels/cuda/gemm/quantized/quantized_gemm.h"

namespace quire::cuda {
namespace {

namespace fs = std::filesystem;

const char kMachine[] = "NVIDIA H200, driver 13000, cuBLASLt 130100";

GemmKey Key(int64_t num_rows) {
  return {.num_rows = num_rows,
          .out_features = 6144,
          .in_features = 4096,
          .dtype = DType::kBF16,
          .x_dtype = DType::kBF16,
          .out_dtype = DType::kF32,
          .fused_bias = true,
          .x_alignment = 256,
          .weight_alignment = 128,
          .out_alignment = 2};
}

GemmChoices SomeChoices() {
  GemmChoices choices;
  choices[Key(1)] = {.kernel = GemmKernel::kGemv, .variant = kNumGemvVariants - 1};
  choices[Key(64)] = {.kernel = GemmKernel::kHopper, .variant = FindHopperGemmVariant("64x2x110")};
  GemmKey quantized = Key(8);
  quantized.format = {.value = WeightValue::kInt4, .group_columns = 128, .zero_points = true};
  choices[quantized] = {.kernel = GemmKernel::kQuantized,
                        .variant = FindQuantizedGemmVariant("gemv4x8x74")};
  quantized.format = {.value = WeightValue::kFloat8};
  choices[quantized] = {.kernel = GemmKernel::kQuantized,
                        .variant = FindQuantizedGemmVariant("gemm1x1x112")};
  quantized.activations.value = ActivationValue::kFloat8;
  choices[quantized] = {.kernel = GemmKernel::kQuantized,
                        .variant = FindQuantizedGemmVariant("gemm64-2x1x112")};
  quantized.x_dtype = DType::kF8E4M3;
  choices[quantized] = {.kernel = GemmKernel::kQuantized,
                        .variant = FindQuantizedGemmVariant("gemv2x8x112")};
  choices[Key(24)] = {.algorithm = {0, 1, ~uint64_t{0}, 0x0123456789abcdef, 4, 5, 6, 7}};
  return choices;
}

class TuningCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("tuning_cache_" +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "deeper" / "gemms.txt").string(); }

  fs::path folder_;
};

TEST(RowBucketTest, GrowsByAtMostTwoFromSixteenOnByHalf) {
  for (auto [num_rows, bucket] : {std::pair<int64_t, int64_t>(1, 1),
                                  {2, 2},
                                  {3, 4},
                                  {5, 8},
                                  {9, 16},
                                  {16, 16},
                                  {17, 24},
                                  {24, 24},
                                  {25, 32},
                                  {33, 48},
                                  {49, 64},
                                  {1537, 2048},
                                  {1536, 1536}}) {
    EXPECT_EQ(RowBucket(num_rows), bucket) << num_rows;
    EXPECT_EQ(RowBucket(bucket), bucket);
  }
}

TEST_F(TuningCacheTest, ReadsWhatItWrote) {
  EXPECT_TRUE(absl::IsNotFound(ReadChoices(path(), kMachine).status()));
  ASSERT_TRUE(WriteChoices(path(), kMachine, SomeChoices()).ok());
  EXPECT_EQ(ReadChoices(path(), kMachine).value(), SomeChoices());
  ASSERT_TRUE(WriteChoices(path(), kMachine, {}).ok());
  EXPECT_EQ(ReadChoices(path(), kMachine).value(), GemmChoices());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deeper"), {}), 1);  // nothing beside
}

TEST_F(TuningCacheTest, AnotherMachinesFileIsRefused) {
  const std::string text = FormatChoices(kMachine, SomeChoices());
  const auto choices = ParseChoices(text, MachineName("NVIDIA H200", 13000, 130101));
  EXPECT_TRUE(absl::IsFailedPrecondition(choices.status())) << choices.status();
}

TEST_F(TuningCacheTest, EveryDamageIsFound) {
  const std::string text = FormatChoices(kMachine, SomeChoices());
  ASSERT_TRUE(ParseChoices(text, kMachine).ok());
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(ParseChoices(text.substr(0, i), kMachine).ok()) << "cut off at " << i;
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_FALSE(ParseChoices(changed, kMachine).ok()) << "changed at " << i;
  }
  EXPECT_FALSE(ParseChoices(text + "x", kMachine).ok());
  EXPECT_FALSE(ParseChoices("", kMachine).ok());
}

TEST_F(TuningCacheTest, AFolderThatCannotBeWrittenIsAnError) {
  std::ofstream(folder_.string()) << "a file where the folder should be";
  EXPECT_FALSE(WriteChoices(path(), kMachine, SomeChoices()).ok());
  fs::remove(folder_);
  fs::create_directories(path());  // a folder where the file should be
  EXPECT_FALSE(WriteChoices(path(), kMachine, SomeChoices()).ok());
  EXPECT_FALSE(ReadChoices(path(), kMachine).ok());
}

TEST_F(TuningCacheTest, TheFolderComesFromTheEnvironment) {
  setenv("HOME", "/home/one", 1);
  setenv("XDG_CACHE_HOME", "", 1);
  unsetenv("QUIRE_CACHE_DIR");
  EXPECT_EQ(DefaultCacheFolder(), "/home/one/.cache/quire");
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(DefaultCacheFolder(), "/caches/quire");
  setenv("QUIRE_CACHE_DIR", "/other", 1);
  EXPECT_EQ(DefaultCacheFolder(), "/other");
  setenv("QUIRE_CACHE_DIR", "", 1);
  EXPECT_EQ(DefaultCacheFolder(), "");
  EXPECT_EQ(TuningCachePath("/other", "NVIDIA H200, driver 1"),
            "/other/gemms-NVIDIA-H200--driver-1.txt");
}

TEST(GemvVariantTest, NamesLeadBack) {
  for (int i = 0; i < kNumGemvVariants; ++i) EXPECT_EQ(FindGemvVariant(GemvVariantName(i)), i);
  EXPECT_EQ(FindGemvVariant("2x8"), -1);
  EXPECT_EQ(HopperGemmVariantName(FindHopperGemmVariant("64x2x110")), "64x2x110");
  EXPECT_EQ(FindHopperGemmVariant("64x3x110"), -1);
}

// The files that come with the program are whole, and each is for the machine that it names.
TEST(KnownGemmsTest, AreKnownForTheirMachineAlone) {
  for (const absl::string_view file : KnownGemmFiles()) {
    const std::vector<std::string> lines = absl::StrSplit(file, '\n');
    ASSERT_GT(lines.size(), 4u);
    const std::string& machine = lines[1];
    const size_t driver = machine.find(", driver "), library = machine.find(", cuBLASLt ");
    ASSERT_NE(driver, std::string::npos) << machine;
    ASSERT_NE(library, std::string::npos) << machine;
    const std::string device = machine.substr(0, driver);
    size_t version = 0;
    ASSERT_TRUE(absl::SimpleAtoi(machine.substr(library + 11), &version)) << machine;
    // All but two lines above and the checksum below.
    EXPECT_EQ(KnownGemms(device, version).size(), lines.size() - 4) << machine;
    EXPECT_TRUE(KnownGemms(device, version + 1).empty());
    EXPECT_TRUE(KnownGemms(device.substr(1), version).empty());
  }
}

// On a device: measured once, kept, and measured again when the file is damaged.
TEST_F(TuningCacheTest, TuningKeepsItsChoicesAndReplacesADamagedFile) {
  if (!CudaAvailable()) GTEST_SKIP() << "no CUDA device";
  setenv("QUIRE_CACHE_DIR", folder_.c_str(), 1);
  const auto backend = OpenBackend({.kind = DeviceKind::kCuda}).value();
  const auto stream = backend->device().CreateStream().value();
  const DeviceBuffer memory = backend->device().Allocate(512 * 256 * 2).value();
  const LinearWeight weight = {
      .data = memory.data(), .dtype = DType::kBF16, .out_features = 512, .in_features = 256};
  backend->weight_store().Fill(*stream, weight, {.seed = 1, .tensor_id = 2, .stddev = 1.0f});
  const std::vector<LinearGroup> groups = {{.weights = {&weight}, .max_num_rows = 64}};
  const auto tune = [&] { return backend->weight_store().Tune(*stream, groups, nullptr); };
  ASSERT_TRUE(tune().ok());
  const fs::path file = fs::directory_iterator(folder_)->path();
  const auto read = [&] {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  };
  const std::string first = read();
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 3 + 9);  // 1, 2, 4, ... 48, 64 rows
  ASSERT_TRUE(tune().ok());
  EXPECT_EQ(read(), first);
  // Another build had gemvs for 64 rows.
  const std::vector<std::string> lines = absl::StrSplit(first, '\n');
  GemmChoices choices = ReadChoices(file, lines[1]).value();
  for (auto& [key, choice] : choices) {
    if (key.num_rows == 64) choice = {.kernel = GemmKernel::kGemv};
  }
  ASSERT_TRUE(WriteChoices(file, lines[1], choices).ok());
  ASSERT_TRUE(tune().ok());
  const GemmChoices measured = ReadChoices(file, lines[1]).value();
  for (const auto& [key, choice] : measured) {
    EXPECT_TRUE(key.num_rows < 64 || choice.kernel != GemmKernel::kGemv);
  }
  EXPECT_EQ(measured.size(), 9u);
  std::ofstream(file) << first.substr(0, first.size() / 2);
  ASSERT_TRUE(tune().ok());
  const std::string replaced = read();
  EXPECT_EQ(std::count(replaced.begin(), replaced.end(), '\n'), 3 + 9);
  fs::remove_all(folder_);
  std::ofstream(folder_.string()) << "a file where the folder should be";
  EXPECT_TRUE(tune().ok());
}

}  // namespace
}  // namespace quire::cuda
