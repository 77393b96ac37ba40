// A query's bits are its own: they depend neither on the chunk it came in, nor on the other
// sequences of the step, nor on the number of threads or where its blocks lie. On CUDA a query may
// differ by rounding from the same query in a prompt, or in the company of other sequences, because
// contexts are cut so that the device is full; all else holds there too.
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "tests/kernels/attention_fixture.h"

namespace quire {
namespace {

constexpr uint32_t kSeed = 21;

// Results of the query at position kv_len - 1 of a lone sequence, computed as a decode, by kv_len.
using DecodedByLength = std::map<int32_t, std::vector<float>>;

class AttentionBitsTest : public AttentionTest {
 protected:
  // In the company of others.
  static void ExpectSame(const std::vector<float>& alone, const std::vector<float>& together) {
    if (GetParam().kind == DeviceKind::kCpu) {
      EXPECT_EQ(alone, together);
      return;
    }
    ASSERT_EQ(alone.size(), together.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      ASSERT_NEAR(alone[i], together[i], 0x1p-8 * (1 + std::abs(alone[i]))) << "element " << i;
    }
  }

  DecodedByLength Decode(const AttentionGeometry& geometry, const std::vector<int32_t>& kv_lens) {
    DecodedByLength results;
    for (int32_t kv_len : kv_lens) {
      const auto batch = MakePagedBatch(geometry, {{1, kv_len}}, KvOrder::kNhd, kSeed, kv_len);
      results[kv_len] = Run(batch).Token(0, 1);
    }
    return results;
  }
};

TEST_P(AttentionBitsTest, ChunkedEqualsDecodedForEveryChunkSize) {
  struct Case {
    DType dtype;
    int32_t head_dim;
    int64_t window;
  };
  // On CUDA tensor cores serve bfloat16, whose decode shares out keys in another way.
  std::vector<Case> cases = {{DType::kF32, 40, 0}};
  if (GetParam().kind == DeviceKind::kCpu) {
    cases.insert(cases.end(),
                 {{DType::kBF16, 40, 50}, {DType::kBF16, 64, 0}, {DType::kBF16, 64, 50}});
  } else {
    cases.push_back({DType::kF32, 40, 50});
  }
  for (const auto& [dtype, head_dim, window] : cases) {
    SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " window " << window);
    AttentionGeometry geometry = Geometry(3, 1, head_dim, dtype);
    geometry.sliding_window = window;
    const int32_t last_len = 1100;  // beyond one split
    std::vector<int32_t> kv_lens;
    for (int32_t len = 960; len <= last_len; len += len < 1070 ? 13 : 2) kv_lens.push_back(len);
    const DecodedByLength decoded = Decode(geometry, kv_lens);
    // Up to more than two tiles of queries.
    for (int32_t chunk = 2; chunk <= 140; chunk += chunk < 30 ? 1 : 11) {
      const PagedBatch batch =
          MakePagedBatch(geometry, {{chunk, last_len}}, KvOrder::kNhd, kSeed, 3);
      const AttentionOutput output = Run(batch);
      for (const auto& [kv_len, expected] : decoded) {
        const int32_t token = chunk - 1 - (last_len - kv_len);
        if (token < 0) continue;
        ASSERT_EQ(output.Token(token, chunk), expected)
            << "token " << token << " of a chunk of " << chunk;
      }
    }
  }
}

TEST_P(AttentionBitsTest, WholePromptEqualsDecodedTokenByToken) {
  if (GetParam().kind == DeviceKind::kCuda) {
    GTEST_SKIP() << "on CUDA decode tiles and prefill tiles share out keys in different ways";
  }
  const AttentionGeometry geometry = Geometry(4, 2, 64, DType::kBF16);
  const int32_t len = 200;
  const AttentionOutput prompt =
      Run(MakePagedBatch(geometry, {{len, len}}, KvOrder::kNhd, kSeed, 1));
  const DecodedByLength decoded =
      Decode(geometry, {1, 2, 3, 15, 16, 17, 31, 32, 33, 34, 63, 64, 65, 66, 100, 128, 129, 200});
  for (const auto& [kv_len, expected] : decoded) {
    ASSERT_EQ(prompt.Token(kv_len - 1, len), expected) << "token " << kv_len - 1;
  }
}

TEST_P(AttentionBitsTest, CompanyDoesNotMatter) {
  const AttentionGeometry geometry = Geometry(14, 2, 64, DType::kBF16);
  for (const SeqShape shape : {SeqShape{1, 3000}, SeqShape{33, 1500}}) {
    // The first sequence of a batch has the same contents whatever follows.
    const AttentionOutput alone = Run(MakePagedBatch(geometry, {shape}, KvOrder::kNhd, kSeed, 1));
    const std::vector<SeqShape> company = {shape,  {1, 5000},  {1, 1},
                                           {1, 0}, {200, 200}, {64, 2500}};
    const PagedBatch batch = MakePagedBatch(geometry, company, KvOrder::kNhd, kSeed, 2);
    const AttentionOutput together = Run(batch);
    const int32_t num_tokens = batch.cu_seqlens_q.back();
    for (int32_t i = 0; i < shape.query_len; ++i) {
      ExpectSame(alone.Token(i, shape.query_len), together.Token(i, num_tokens));
    }
  }
}

TEST_P(AttentionBitsTest, ThreadsLayoutAndBlockSizeDoNotMatter) {
  AttentionGeometry geometry = Geometry(4, 2, 64, DType::kBF16);
  const std::vector<SeqShape> seqs = {{1, 9000}, {1, 300}, {80, 3000}};
  const AttentionOutput first = Run(MakePagedBatch(geometry, seqs, KvOrder::kNhd, kSeed, 1));
  for (int num_threads : {1, 3, 8}) {
    SCOPED_TRACE(num_threads);
    OpenWithThreads(num_threads);
    for (int32_t block_size : {16, 64}) {
      geometry.block_size = block_size;
      const AttentionOutput again = Run(MakePagedBatch(geometry, seqs, KvOrder::kHnd, kSeed, 2));
      EXPECT_EQ(first.out, again.out);
      EXPECT_EQ(first.lse, again.lse);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionBitsTest, testing::ValuesIn(AttentionTargets()),
                         TargetName);

}  // namespace
}  // namespace quire
