// ExpertsGatedLinear and ExpertsLinear against plain loops in double, on every backend, with
// weights of every format.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/kernels/experts_fixture.h"

namespace quire {
namespace {

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh,
                                       Activation::kClampedSwish};

TEST_P(ExpertsTest, GatedLinearMatchesPlainLoops) {
  constexpr int32_t kExperts = 8, kTopK = 2;
  const HostExperts host(kFloatCase, kExperts, 2 * 44, 264);
  for (DType dtype : activation_dtypes()) {
    const DeviceWeight weight = Load(host, dtype);
    for (int64_t num_tokens : {1, 2, 5, 17, 64, 300}) {
      for (Spread spread : {Spread::kRandom, Spread::kFew, Spread::kSame}) {
        const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, spread, 11);
        ExpectGated(host, weight.weight, routed, kTopK, spread != Spread::kFew,
                    kActivations[num_tokens % 3], 2);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ExpertsTest, LinearMatchesPlainLoops) {
  constexpr int32_t kExperts = 8, kTopK = 3;
  const int64_t rows = 136;
  const HostExperts host(kFloatCase, kExperts, rows, 88);
  for (DType dtype : activation_dtypes()) {
    const DeviceWeight weight = Load(host, dtype);
    for (int64_t num_tokens : {1, 2, 5, 17, 64, 300}) {
      const Added add = {.values = RandomNormal(num_tokens * rows, 1)};
      const Added gated = {.values = add.values, .gates = RandomNormal(num_tokens, 2, 3)};
      const Added in_place = {.values = add.values, .gates = gated.gates, .is_out = true};
      for (Spread spread : {Spread::kRandom, Spread::kFew, Spread::kSame}) {
        const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, spread, 12);
        for (const Added& added : {Added(), add, gated, in_place}) {
          if (spread != Spread::kRandom && !added.is_out) continue;
          ExpectLinear(host, weight.weight, routed, kTopK, spread != Spread::kFew, added, 1);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(ExpertsTest, ManyTokensAndExperts) {
  constexpr int32_t kExperts = 64, kTopK = 4;
  const HostExperts gated(kFloatCase, kExperts, 2 * 16, 32);
  const HostExperts linear(kFloatCase, kExperts, 32, 16);
  const DType dtype = half_dtypes().front();
  const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
  for (Spread spread : {Spread::kRandom, Spread::kSame}) {
    const auto routed = RouteAtRandom(4096, kTopK, kExperts, spread, 13);
    ExpectGated(gated, gated_weight.weight, routed, kTopK, true, Activation::kSilu, 1);
    ExpectLinear(linear, linear_weight.weight, routed, kTopK, true, {}, 1);
  }
}

// So many that a GPU multiplies them by tiles, of sizes that are none of theirs.
TEST_P(ExpertsTest, LargeWeights) {
  constexpr int32_t kExperts = 32, kTopK = 4;
  const HostExperts gated(kFloatCase, kExperts, 2 * 616, 136);
  const HostExperts linear(kFloatCase, kExperts, 1240, 88);
  for (DType dtype : half_dtypes()) {
    const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
    for (int64_t num_tokens : {9, 400}) {
      for (Spread spread : {Spread::kRandom, Spread::kFew}) {
        const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, spread, 19);
        ExpectGated(gated, gated_weight.weight, routed, kTopK, spread == Spread::kFew,
                    kActivations[num_tokens % 3], 1);
        ExpectLinear(linear, linear_weight.weight, routed, kTopK, spread == Spread::kFew, {}, 1);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ExpertsTest, AllTokensToOneExpert) {
  for (DType dtype : activation_dtypes()) {
    const HostExperts gated(kFloatCase, 5, 2 * 40, 72), linear(kFloatCase, 5, 72, 40);
    const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
    for (int64_t num_tokens : {1, 9, 200}) {
      const auto routed = RouteAtRandom(num_tokens, 1, 5, Spread::kSame, 14);
      ExpectGated(gated, gated_weight.weight, routed, 1, true, Activation::kSilu, 1);
      ExpectLinear(linear, linear_weight.weight, routed, 1, true, {}, 1);
    }
  }
}

TEST_P(ExpertsTest, WeightsOfEveryFormat) {
  constexpr int32_t kExperts = 6, kTopK = 2;
  for (const QuantizedCase& c : QuantizedCases()) {
    const HostExperts gated(c, kExperts, 2 * 64, 256), linear(c, kExperts, 72, 128);
    for (DType dtype : activation_dtypes()) {
      if (!Serves(c.format, dtype, true)) continue;
      const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
      for (int64_t num_tokens : {1, 6, 70}) {
        const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, Spread::kRandom, 15);
        const Added add = {.values = RandomNormal(num_tokens * linear.rows, 1)};
        ExpectGated(gated, gated_weight.weight, routed, kTopK, true, kActivations[num_tokens % 3],
                    0.004f);
        ExpectLinear(linear, linear_weight.weight, routed, kTopK, false, add, 0.01f);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ExpertsTest, TheSameCallTwiceHasTheSameBits) {
  constexpr int32_t kExperts = 16, kTopK = 4;
  const HostExperts gated(kFloatCase, kExperts, 2 * 64, 128), linear(kFloatCase, kExperts, 128, 64);
  for (DType dtype : activation_dtypes()) {
    const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
    for (int64_t num_tokens : {1, 7, 100}) {
      const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, Spread::kRandom, 16);
      const auto run = [&] {
        auto out = RunGated(gated_weight.weight, routed, kTopK, RandomNormal(num_tokens * 128, 1),
                            {}, Activation::kSilu);
        const auto sums = RunLinear(linear_weight.weight, routed, kTopK, out, {}, {});
        out.insert(out.end(), sums.begin(), sums.end());
        return out;
      };
      const auto first = run();
      for (int i = 0; i < 3; ++i) ASSERT_EQ(run(), first) << num_tokens;
    }
  }
}

TEST_P(ExpertsTest, ATokensBitsDoNotDependOnItsBatchNorOnThreads) {
  if (GetParam().kind == DeviceKind::kCuda) GTEST_SKIP() << "a CPU's promise";
  constexpr int32_t kExperts = 6, kTopK = 2;
  constexpr int64_t kTokens = 250;
  std::vector<QuantizedCase> cases = QuantizedCases();
  cases.push_back(kFloatCase);
  const auto routed = RouteAtRandom(kTokens, kTopK, kExperts, Spread::kRandom, 17);
  const auto x = RoundTo(DType::kBF16, RandomNormal(kTokens * 128, 1));
  for (const QuantizedCase& c : cases) {
    SCOPED_TRACE(c.name);
    const HostExperts gated(c, kExperts, 2 * 64, 128), linear(c, kExperts, 96, 128);
    std::vector<float> gated_together, sums_together;
    for (int num_threads : {1, 3}) {
      OpenWithThreads(num_threads);
      const DeviceWeight gated_weight = Load(gated, DType::kBF16);
      const DeviceWeight linear_weight = Load(linear, DType::kBF16);
      // The rows of each token's choices, in their order.
      const auto run_gated = [&](const reference::Routed& some, int64_t first) {
        const auto num_pairs = static_cast<int64_t>(some.pairs.size());
        const std::vector<float> some_x(x.begin() + first * 128,
                                        x.begin() + (first + num_pairs / kTopK) * 128);
        const auto rows = RunGated(gated_weight.weight, some, kTopK, some_x, {}, Activation::kSilu);
        std::vector<float> by_pair(rows.size());
        for (int64_t i = 0; i < num_pairs; ++i) {
          std::copy_n(rows.begin() + i * 64, 64, by_pair.begin() + some.pairs[i] * 64);
        }
        return by_pair;
      };
      const auto run_linear = [&](const reference::Routed& some, int64_t first) {
        std::vector<float> some_x;
        for (int32_t pair : some.pairs) {
          const auto row = x.begin() + (first + pair / kTopK) * 128;
          some_x.insert(some_x.end(), row, row + 128);
        }
        return RunLinear(linear_weight.weight, some, kTopK, some_x, {}, {});
      };
      const auto gated_out = run_gated(routed, 0), sums = run_linear(routed, 0);
      if (gated_together.empty()) gated_together = gated_out, sums_together = sums;
      ASSERT_EQ(gated_out, gated_together);
      ASSERT_EQ(sums, sums_together);
      for (int64_t count : {1, 5, 30}) {
        const auto some = TokensOf(routed, 3, count, kTopK);
        ASSERT_EQ(run_gated(some, 3),
                  std::vector<float>(gated_together.begin() + 3 * kTopK * 64,
                                     gated_together.begin() + (3 + count) * kTopK * 64))
            << count;
        ASSERT_EQ(run_linear(some, 3), std::vector<float>(sums_together.begin() + 3 * 96,
                                                          sums_together.begin() + (3 + count) * 96))
            << count;
      }
    }
  }
}

// The others' memory may not be there.
TEST_P(ExpertsTest, OnlyChosenExpertsAreRead) {
  if (GetParam().kind == DeviceKind::kCuda) GTEST_SKIP() << "memory cannot be taken away";
  constexpr int32_t kExperts = 8, kTopK = 2;
  for (const QuantizedCase& c : {kFloatCase, QuantizedCases()[0]}) {
    const HostExperts host(c, kExperts, 2 * 40, 128);
    DeviceWeight weight = Load(host, DType::kBF16);
    const int64_t page = sysconf(_SC_PAGESIZE);
    weight.weight.expert_bytes = RoundUp<int64_t>(weight.weight.expert_bytes, page);
    const int64_t bytes = kExperts * weight.weight.expert_bytes;
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    weight.weight.data = memory;
    LoadExperts(host, weight.weight);
    for (int64_t num_tokens : {1, 20}) {
      const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, Spread::kFew, 18);
      const std::set<int32_t> chosen(routed.experts.begin(), routed.experts.end());
      for (int32_t e = 0; e < kExperts; ++e) {
        const int protection = chosen.contains(e) ? PROT_READ : PROT_NONE;
        ASSERT_EQ(mprotect(weight.weight.Expert(e).data, weight.weight.expert_bytes, protection),
                  0);
      }
      ExpectGated(host, weight.weight, routed, kTopK, true, Activation::kSilu, 0.1f);
    }
    munmap(memory, bytes);
  }
}

// A step with its router, replayed with other logits: all counts are on the device.
TEST_P(ExpertsTest, ACapturedStepRoutesAnew) {
  constexpr int32_t kExperts = 8, kTopK = 2;
  constexpr int64_t kTokens = 12, kHidden = 64, kSize = 32;
  const DType dtype = half_dtypes().front();
  const HostExperts gated(kFloatCase, kExperts, 2 * kSize, kHidden);
  const HostExperts linear(kFloatCase, kExperts, kHidden, kSize);
  const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
  const RouterRule rule = {.num_experts = kExperts, .top_k = kTopK, .renormalise = true};
  const auto x = RoundTo(dtype, RandomNormal(kTokens * kHidden, 1));
  const auto zeros = [&](int64_t rows, int64_t columns) {
    return UploadTensor(std::vector<float>(rows * columns), dtype, {rows, columns});
  };
  const DeviceTensor x_device = UploadTensor(x, dtype, {kTokens, kHidden});
  const DeviceTensor logits =
      UploadTensor(std::vector<float>(kTokens * kExperts), DType::kF32, {kTokens, kExperts});
  const DeviceTensor gate_up = zeros(kTokens * kTopK, 2 * kSize);
  const DeviceTensor middle = zeros(kTokens * kTopK, kSize);
  const DeviceTensor rows = zeros(kTokens * kTopK, kHidden), out = zeros(kTokens, kHidden);
  const DeviceRouting routing =
      UploadRouting(RouteAtRandom(kTokens, kTopK, kExperts, Spread::kSame, 1), kTopK);
  const auto enqueue = [&] {
    ops().Route(stream(), {.logits = logits.tensor, .rule = rule, .out = routing.routing});
    ops().ExpertsGatedLinear(stream(), {.x = x_device.tensor,
                                        .weight = &gated_weight.weight,
                                        .routing = routing.routing,
                                        .gate_up = gate_up.tensor,
                                        .out = middle.tensor});
    ops().ExpertsLinear(stream(), {.x = middle.tensor,
                                   .weight = &linear_weight.weight,
                                   .routing = routing.routing,
                                   .rows = rows.tensor,
                                   .out = out.tensor});
  };
  stream().BeginCapture();
  enqueue();
  const auto graph = stream().EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (uint32_t seed : {1, 2, 3}) {
    Overwrite(logits.buffer, RandomNormal(kTokens * kExperts, seed));
    stream().Launch(**graph);
    const auto replayed = DownloadTensor(out.tensor);
    const auto experts = Download<int32_t>(routing.experts.data(), kTokens * kTopK);
    enqueue();
    ASSERT_EQ(DownloadTensor(out.tensor), replayed);
    // The same with the routing that the device made.
    reference::Routed routed = {.experts = experts, .weights = {}, .pairs = {}, .offsets = {}};
    for (float weight : Download<float>(routing.weights.data(), kTokens * kTopK)) {
      routed.weights.push_back(weight);
    }
    reference::SortPairs(kExperts, &routed);
    const auto middle_values =
        RunGated(gated_weight.weight, routed, kTopK, x, {}, Activation::kSilu);
    ASSERT_EQ(RunLinear(linear_weight.weight, routed, kTopK, middle_values, {}, {}), replayed);
  }
}

TEST_P(ExpertsTest, NoTokensAreNoWork) {
  const HostExperts host(kFloatCase, 4, 2 * 32, 64);
  const DeviceWeight weight = Load(host, half_dtypes().front());
  const reference::Routed none = {
      .experts = {}, .weights = {}, .pairs = {}, .offsets = std::vector<int32_t>(5)};
  EXPECT_TRUE(RunGated(weight.weight, none, 2, {}, {}, Activation::kSilu).empty());
}

INSTANTIATE_TEST_SUITE_P(Targets, ExpertsTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
