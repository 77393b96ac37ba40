#include "kernels/cpu/attention/attention_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/attention_checks.h"
#include "kernels/base/check.h"

namespace quire::cpu {

namespace {

// Units of work per thread: enough to even out threads, few enough that cutting costs little.
constexpr int64_t kUnitsPerThread = 4;
// Room for partial states, per thread; 2 MiB at head_dim 128.
constexpr int64_t kPartialRowsPerThread = 4096;
// Reading a key and its value costs as much as this many rows of arithmetic on them.
constexpr int64_t kRowsPerKeyRead = 8;

}  // namespace

PlanWorkspace::PlanWorkspace(int num_threads, int64_t max_head_dim)
    : max_partial_rows(kPartialRowsPerThread * num_threads),
      partials(max_partial_rows, PaddedHeadDim(max_head_dim)) {
  for (int i = 0; i < num_threads; ++i) {
    scratch.push_back(std::make_unique<AttentionScratch>(max_head_dim));
  }
}

WorkPlan::WorkPlan(const AttentionGeometry& geometry, const AttentionLimits& limits,
                   std::shared_ptr<PlanWorkspace> workspace, Isa isa)
    : geometry_(geometry),
      group_size_(geometry.num_q_heads / geometry.num_kv_heads),
      tile_queries_(kMaxQueryRows / group_size_),
      with_amx_(isa == Isa::kAmxBf16 && AmxServes(geometry)),
      merges_(limits.merges),
      workspace_(std::move(workspace)) {
  CheckMerges(geometry, limits);
  const int64_t max_tiles = limits.max_num_seqs + limits.max_num_batched_tokens;
  tiles_.reserve(max_tiles);
  cut_tiles_.reserve(max_tiles);
  // A tile of cost c is cut in at most c / fair_cost + 1 pieces.
  pieces_.reserve(2 * max_tiles + kUnitsPerThread * num_threads());
}

void WorkPlan::Build(const AttentionBatch& batch) {
  batch_ = batch;
  tiles_.clear();
  pieces_.clear();
  cut_tiles_.clear();
  num_partial_rows_ = 0;
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) AddTiles(seq);
  CHECK_LE(tiles_.size(), tiles_.capacity()) << "the batch exceeds the plan's limits";

  total_cost_ = 0;
  for (const TileWork& tile : tiles_) total_cost_ += Cost(tile) * geometry_.num_kv_heads;
  const int64_t fair_cost = total_cost_ / (kUnitsPerThread * num_threads()) + 1;
  for (const TileWork& tile : tiles_) CutTile(tile, fair_cost);
  std::sort(pieces_.begin(), pieces_.end(), [this](const TileWork& a, const TileWork& b) {
    return std::tuple(-Cost(a), a.seq, a.first_query, a.first_split) <
           std::tuple(-Cost(b), b.seq, b.first_query, b.first_split);
  });
}

void WorkPlan::AddTiles(int32_t seq) {
  const int32_t num_queries = batch_.cu_seqlens_q[seq + 1] - batch_.cu_seqlens_q[seq];
  // A tile's queries see one key more each: where all see the same, they are tiles of their own.
  const auto tile_queries = static_cast<int32_t>(batch_.causal ? tile_queries_ : 1);
  for (int32_t query = 0; query < num_queries; query += tile_queries) {
    TileWork tile{.seq = seq,
                  .first_query = query,
                  .num_queries = std::min(tile_queries, num_queries - query),
                  .first_split = 0,
                  .end_split = 0,
                  .partial_row = -1};
    const int64_t position = QueryPosition(tile);
    const int64_t last_position = position + tile.num_queries - 1;
    tile.first_split = VisibleKeys(position, geometry_.sliding_window).begin / kKeySplit;
    tile.end_split = CeilDiv(VisibleKeys(last_position, geometry_.sliding_window).end, kKeySplit);
    tiles_.push_back(tile);
  }
}

void WorkPlan::CutTile(const TileWork& tile, int64_t fair_cost) {
  const int64_t num_splits = tile.end_split - tile.first_split;
  const int64_t num_pieces = std::min(num_splits, CeilDiv(Cost(tile), fair_cost));
  const int64_t num_rows = tile.num_queries * group_size_;
  const int64_t num_partial_rows = num_rows * num_splits * geometry_.num_kv_heads;
  if (num_pieces <= 1 || num_partial_rows_ + num_partial_rows > workspace_->max_partial_rows) {
    pieces_.push_back(tile);
    return;
  }
  TileWork whole = tile;
  whole.partial_row = num_partial_rows_;
  num_partial_rows_ += num_partial_rows;
  cut_tiles_.push_back(whole);
  for (int64_t i = 0; i < num_pieces; ++i) {
    TileWork piece = whole;
    piece.first_split = tile.first_split + num_splits * i / num_pieces;
    piece.end_split = tile.first_split + num_splits * (i + 1) / num_pieces;
    piece.partial_row += (piece.first_split - tile.first_split) * num_rows * geometry_.num_kv_heads;
    pieces_.push_back(piece);
  }
}

int64_t WorkPlan::QueryPosition(const TileWork& work) const {
  const int32_t first_token = batch_.cu_seqlens_q[work.seq];
  const int32_t num_queries = batch_.cu_seqlens_q[work.seq + 1] - first_token;
  if (!batch_.causal) return int64_t{batch_.seq_lens[work.seq]} - 1;
  return int64_t{batch_.seq_lens[work.seq]} - num_queries + work.first_query;
}

int64_t WorkPlan::Cost(const TileWork& work) const {
  const int64_t position = QueryPosition(work);
  const int64_t begin = VisibleKeys(position, geometry_.sliding_window).begin;
  const int64_t end = VisibleKeys(position + work.num_queries - 1, geometry_.sliding_window).end;
  const int64_t num_keys =
      std::min(end, work.end_split * kKeySplit) - std::max(begin, work.first_split * kKeySplit);
  return num_keys * (work.num_queries * group_size_ + kRowsPerKeyRead) * geometry_.k_head_dim;
}

AttentionTile WorkPlan::TileOf(const TileWork& work, int64_t kv_head,
                               const AttentionRunArgs& args) const {
  const int64_t first_block = batch_.first_blocks == nullptr ? 0 : batch_.first_blocks[work.seq];
  AttentionTile tile{.geometry = &geometry_,
                     .args = &args,
                     .blocks = batch_.block_tables +
                               batch_.seq_rows[work.seq] * batch_.block_table_stride + first_block,
                     .kv_head = kv_head,
                     .first_token = batch_.cu_seqlens_q[work.seq] + work.first_query,
                     .first_position = QueryPosition(work),
                     .num_queries = work.num_queries,
                     .first_split = work.first_split,
                     .end_split = work.end_split,
                     .partials = {},
                     .partial_stride = 0,
                     .with_amx = with_amx_,
                     .merges = merges_};
  if (work.partial_row >= 0) {
    const int64_t num_rows = work.num_queries * group_size_;
    tile.partials = workspace_->partials.state().FromRow(work.partial_row + kv_head * num_rows,
                                                         PaddedHeadDim(geometry_.v_head_dim));
    tile.partial_stride = num_rows * geometry_.num_kv_heads;
  }
  return tile;
}

}  // namespace quire::cpu
