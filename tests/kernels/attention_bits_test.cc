// A query's bits are its own: they depend neither on the chunk it came in, nor on the other
// sequences of the step, nor on the number of threads or where its blocks lie.
#include <functional>
#include <utility>
#include <vector>

#include "tests/kernels/attention_fixture.h"

namespace quire {
namespace {

class AttentionBitsTest : public AttentionTest {};

constexpr uint32_t kSeed = 21;

// The result of the query at position kv_len - 1 of a lone sequence, computed as a decode.
std::vector<std::vector<float>> DecodeEach(
    const AttentionGeometry& geometry, int32_t first_len, int32_t last_len,
    const std::function<AttentionOutput(const PagedBatch&)>& run) {
  std::vector<std::vector<float>> results;
  for (int32_t kv_len = first_len; kv_len <= last_len; ++kv_len) {
    const PagedBatch batch = MakePagedBatch(geometry, {{1, kv_len}}, KvOrder::kNhd, kSeed, kv_len);
    results.push_back(run(batch).Token(0, 1));
  }
  return results;
}

TEST_P(AttentionBitsTest, ChunkedEqualsDecodedForEveryChunkSize) {
  for (auto [dtype, window] : {std::pair(DType::kF32, 0), {DType::kBF16, 50}}) {
    SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " window " << window);
    AttentionGeometry geometry = Geometry(3, 1, 40, dtype);
    geometry.sliding_window = window;
    const int32_t last_len = 1100;  // beyond one split
    const int32_t max_chunk = 140;  // beyond two tiles of queries
    const auto decoded = DecodeEach(geometry, last_len - max_chunk + 1, last_len,
                                    [this](const PagedBatch& batch) { return Run(batch); });
    for (int32_t chunk = 2; chunk <= max_chunk; chunk += chunk < 30 ? 1 : 11) {
      const PagedBatch batch =
          MakePagedBatch(geometry, {{chunk, last_len}}, KvOrder::kNhd, kSeed, 3);
      const AttentionOutput output = Run(batch);
      for (int32_t i = 0; i < chunk; ++i) {
        ASSERT_EQ(output.Token(i, chunk), decoded[max_chunk - chunk + i])
            << "token " << i << " of a chunk of " << chunk;
      }
    }
  }
}

TEST_P(AttentionBitsTest, WholePromptEqualsDecodedTokenByToken) {
  const AttentionGeometry geometry = Geometry(4, 2, 64, DType::kBF16);
  const int32_t len = 200;
  const AttentionOutput prompt =
      Run(MakePagedBatch(geometry, {{len, len}}, KvOrder::kNhd, kSeed, 1));
  const auto decoded =
      DecodeEach(geometry, 1, len, [this](const PagedBatch& batch) { return Run(batch); });
  for (int32_t i = 0; i < len; ++i) ASSERT_EQ(prompt.Token(i, len), decoded[i]) << "token " << i;
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
      ASSERT_EQ(alone.Token(i, shape.query_len), together.Token(i, num_tokens)) << "token " << i;
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

INSTANTIATE_TEST_SUITE_P(Targets, AttentionBitsTest, testing::ValuesIn(KernelTargets()),
                         TargetName);

}  // namespace
}  // namespace quire
