#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/cpu/runtime/free_ops.h"
#include "kernels/cpu/state/gated_delta_room.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/state/gated_delta.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kConvChannels = 512;  // that are computed together
constexpr int64_t kMaxConvWidth = GatedDeltaShape::kMaxConvWidth;
constexpr int64_t kMaxHeadDim = GatedDeltaShape::kMaxHeadDim;
constexpr int64_t kTile = 32;  // columns of a state that are computed together, in the L1 cache
constexpr int64_t kVectors = kTile / NumLanes();
// Sums that run side by side, each of every kChains-th row. With a single one, each addition would
// wait for the one before.
constexpr int64_t kChains = kVectors < 8 ? 8 / kVectors : 1;

// As LoadF32 and StoreF32, of a vector that may lie behind the end.
template <typename T>
HWY_INLINE VF32 LoadSome(const T* from, int64_t count) {
  return count > 0 ? LoadF32(from, count) : hn::Zero(F32());
}
template <typename T>
HWY_INLINE void StoreSome(VF32 v, T* to, int64_t count) {
  if (count > 0) StoreF32(v, to, count);
}

// The taps of `count` channels, tap by tap, as those of the widest convolution: the oldest are 0.
void LoadTaps(const GatedDeltaArgs& args, int64_t first, int64_t count,
              float (&taps)[kMaxConvWidth][kConvChannels]) {
  const int64_t width = args.shape.conv_width;
  const float* weight = args.conv_weight.as<float>() + first * width;
  for (int64_t j = 0; j < kMaxConvWidth; ++j) {
    const int64_t tap = j - (kMaxConvWidth - width);
    for (int64_t i = 0; i < count; ++i) taps[j][i] = tap < 0 ? 0 : weight[i * width + tap];
  }
}

// Computes up to kConvChannels channels, from `first` on, of tokens [begin, end).
template <typename T>
void ConvTokens(const GatedDeltaArgs& args, int64_t first, int64_t begin, int64_t end) {
  const int64_t count = std::min(kConvChannels, args.shape.num_channels() - first);
  const T zeros[kConvChannels] = {};
  HWY_ALIGN float taps[kMaxConvWidth][kConvChannels];
  LoadTaps(args, first, count, taps);
  for (int64_t token = begin; token < end; ++token) {
    const int32_t seq = SequenceOf(args.batch, token);
    if (IsPadding(args.batch.sequences[seq])) continue;
    const int64_t index = token - args.batch.cu_seqlens_q[seq];
    const T* inputs[kMaxConvWidth];
    for (int64_t j = 0; j < kMaxConvWidth; ++j) {
      const int64_t back = kMaxConvWidth - 1 - j;
      const std::byte* row =
          back < args.shape.conv_width ? ConvInput(args, seq, index - back) : nullptr;
      inputs[j] = row == nullptr ? zeros : reinterpret_cast<const T*>(row) + first;
    }
    T* out = args.conv_out.as<T>() + token * args.conv_out.row_stride() + first;
    for (int64_t i = 0; i < count; i += NumLanes()) {
      VF32 sum = hn::Zero(F32());
      QUIRE_UNROLL
      for (int64_t j = 0; j < kMaxConvWidth; ++j) {
        sum = hn::MulAdd(LoadF32(inputs[j] + i, count - i), LoadF32(taps[j] + i), sum);
      }
      StoreF32(Silu(sum), out + i, count - i);
    }
  }
}

// The factors of each head of a token's queries and keys.
template <typename T>
void ScaleHeads(const GatedDeltaArgs& args, int64_t token, float* scales) {
  const int64_t num_k_heads = args.shape.num_k_heads, dim = args.shape.k_head_dim;
  const float q_scale = 1.0f / std::sqrt(static_cast<float>(dim));
  const T* heads = args.conv_out.as<T>() + token * args.conv_out.row_stride();
  for (int64_t head = 0; head < 2 * num_k_heads; ++head) {
    VF32 sum = hn::Zero(F32());
    for (int64_t i = 0; i < dim; i += NumLanes()) {
      const VF32 v = LoadF32(heads + head * dim + i, dim - i);
      sum = hn::MulAdd(v, v, sum);
    }
    const float scale = 1.0f / std::sqrt(SumOfLanes(sum) + 1e-6f);
    scales[head] = head < num_k_heads ? scale * q_scale : scale;
  }
}

// By the C library's functions: a token has few gates.
template <typename T>
void Gates(const GatedDeltaArgs& args, int64_t token, float* gates) {
  const int64_t num_heads = args.shape.num_v_heads;
  const T* b = args.ba.as<T>() + token * args.ba.row_stride();
  for (int64_t head = 0; head < num_heads; ++head) {
    const float a = static_cast<float>(b[num_heads + head]) + args.dt_bias.as<float>()[head];
    const float softplus = std::max(a, 0.0f) + std::log1p(std::exp(-std::abs(a)));
    gates[head] = std::exp(-std::exp(args.a_log.as<float>()[head]) * softplus);
    gates[num_heads + head] = 1.0f / (1.0f + std::exp(-static_cast<float>(b[head])));
  }
}

template <typename T>
void ScaleTokens(const GatedDeltaArgs& args, const GatedDeltaRoom& room, int64_t begin,
                 int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    if (IsPadding(args.batch.sequences[SequenceOf(args.batch, token)])) continue;
    ScaleHeads<T>(args, token, room.scales(token));
    Gates<T>(args, token, room.gates(token));
  }
}

// Some columns of the state of a v head: all rows of them, in the L1 cache.
class StateTile {
 public:
  StateTile(const GatedDeltaArgs& args, int64_t head, int64_t first_column)
      : view_(args.state),
        num_rows_(args.shape.k_head_dim),
        row_stride_(args.shape.v_head_dim),
        count_(std::min(kTile, args.shape.v_head_dim - first_column)),
        first_(head * num_rows_ * row_stride_ + first_column) {}

  int64_t count() const { return count_; }

  // Zeros for no slot, and in columns that there are not.
  void Load(int32_t slot) {
    if (slot < 0) {
      std::fill_n(rows_, num_rows_ * kTile, 0.0f);
      return;
    }
    const float* from = RecurrentSlot(view_, slot) + first_;
    for (int64_t i = 0; i < num_rows_; ++i) {
      QUIRE_UNROLL
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t at = v * NumLanes();
        StoreF32(LoadSome(from + i * row_stride_ + at, count_ - at), At(i, v));
      }
    }
  }
  void Save(int32_t slot) const {
    float* to = RecurrentSlot(view_, slot) + first_;
    for (int64_t i = 0; i < num_rows_; ++i) {
      QUIRE_UNROLL
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t at = v * NumLanes();
        StoreSome(LoadF32(At(i, v)), to + i * row_stride_ + at, count_ - at);
      }
    }
  }

  // sums = S^T k.
  HWY_INLINE void Recall(const float* k, VF32 (&sums)[kVectors]) const {
    VF32 chains[kChains][kVectors];
    QUIRE_UNROLL
    for (int64_t c = 0; c < kChains; ++c) {
      QUIRE_UNROLL
      for (int64_t v = 0; v < kVectors; ++v) chains[c][v] = hn::Zero(F32());
    }
    for (int64_t i = 0; i < num_rows_; i += kChains) {
      QUIRE_UNROLL
      for (int64_t c = 0; c < kChains; ++c) {
        const VF32 k_i = hn::Set(F32(), k[i + c]);
        QUIRE_UNROLL
        for (int64_t v = 0; v < kVectors; ++v) {
          chains[c][v] = hn::MulAdd(k_i, LoadF32(At(i + c, v)), chains[c][v]);
        }
      }
    }
    QUIRE_UNROLL
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[v] = chains[0][v];
      QUIRE_UNROLL
      for (int64_t c = 1; c < kChains; ++c) sums[v] = hn::Add(sums[v], chains[c][v]);
    }
  }

  // S = decay S + k d^T; o = S^T q.
  HWY_INLINE void Update(float decay, const float* k, const VF32 (&d)[kVectors], const float* q,
                         VF32 (&o)[kVectors]) {
    const VF32 factor = hn::Set(F32(), decay);
    QUIRE_UNROLL
    for (int64_t v = 0; v < kVectors; ++v) o[v] = hn::Zero(F32());
    for (int64_t i = 0; i < num_rows_; ++i) {
      const VF32 k_i = hn::Set(F32(), k[i]), q_i = hn::Set(F32(), q[i]);
      QUIRE_UNROLL
      for (int64_t v = 0; v < kVectors; ++v) {
        const VF32 s = hn::MulAdd(k_i, d[v], hn::Mul(factor, LoadF32(At(i, v))));
        StoreF32(s, At(i, v));
        o[v] = hn::MulAdd(q_i, s, o[v]);
      }
    }
  }

 private:
  const float* At(int64_t row, int64_t vector) const {
    return rows_ + row * kTile + vector * NumLanes();
  }
  float* At(int64_t row, int64_t vector) { return rows_ + row * kTile + vector * NumLanes(); }

  const StateView view_;
  const int64_t num_rows_, row_stride_;  // of a row in a slot
  const int64_t count_;                  // columns; those behind are zeros
  const int64_t first_;                  // element of a slot
  HWY_ALIGN float rows_[kMaxHeadDim * kTile];
};

template <typename T>
void ScaledHead(const T* head, float scale, int64_t dim, float* out) {
  for (int64_t i = 0; i < dim; i += NumLanes()) {
    const VF32 v = hn::Mul(LoadF32(head + i, dim - i), hn::Set(F32(), scale));
    StoreF32(v, out + i, dim - i);
  }
}

// One token through a tile: its state becomes the next one, and o goes to the room.
template <typename T>
void TileToken(const GatedDeltaArgs& args, const GatedDeltaRoom& room, int64_t token, int64_t head,
               int64_t first_column, StateTile& tile) {
  const GatedDeltaShape& shape = args.shape;
  const int64_t dim = shape.k_head_dim;
  const int64_t k_head = head / (shape.num_v_heads / shape.num_k_heads);
  const T* y = args.conv_out.as<T>() + token * args.conv_out.row_stride();
  const float* scales = room.scales(token);
  HWY_ALIGN float q[kMaxHeadDim], k[kMaxHeadDim];
  ScaledHead(y + k_head * dim, scales[k_head], dim, q);
  const int64_t k_index = shape.num_k_heads + k_head;
  ScaledHead(y + k_index * dim, scales[k_index], dim, k);

  const float decay = room.gates(token)[head];
  const float beta = room.gates(token)[shape.num_v_heads + head];
  const int64_t column = head * shape.v_head_dim + first_column;
  const T* value = y + 2 * shape.num_k_heads * dim + column;
  VF32 d[kVectors], o[kVectors];
  tile.Recall(k, d);
  QUIRE_UNROLL
  for (int64_t v = 0; v < kVectors; ++v) {
    const int64_t at = v * NumLanes();
    const VF32 recalled = hn::Mul(hn::Set(F32(), decay), d[v]);
    d[v] =
        hn::Mul(hn::Set(F32(), beta), hn::Sub(LoadSome(value + at, tile.count() - at), recalled));
  }
  tile.Update(decay, k, d, q, o);
  QUIRE_UNROLL
  for (int64_t v = 0; v < kVectors; ++v) {
    const int64_t at = v * NumLanes();
    StoreSome(o[v], room.o(token) + column + at, tile.count() - at);
  }
}

// A sequence's tokens that are in the room, through some columns of a head's state.
template <typename T>
void SequenceTile(const GatedDeltaArgs& args, const GatedDeltaRoom& room, int64_t seq, int64_t head,
                  int64_t first_column) {
  const StateAccess& sequence = args.batch.sequences[seq];
  const int64_t start = args.batch.cu_seqlens_q[seq];
  const int64_t begin = std::max(start, room.begin());
  const int64_t end = std::min<int64_t>(args.batch.cu_seqlens_q[seq + 1], room.end());
  if (IsPadding(sequence) || begin >= end) return;
  StateTile tile(args, head, first_column);
  tile.Load(begin == start ? sequence.read : sequence.write);
  for (int64_t token = begin; token < end; ++token) {
    TileToken<T>(args, room, token, head, first_column, tile);
    for (int32_t i = 0; i < sequence.num_snapshots; ++i) {
      const StateSnapshot& snapshot = args.batch.snapshots[sequence.first_snapshot + i];
      if (snapshot.num_tokens == token - start + 1) tile.Save(snapshot.slot);
    }
  }
  tile.Save(sequence.write);
}

// The gated norm of a token's heads.
template <typename T>
void NormTokens(const GatedDeltaArgs& args, const GatedDeltaRoom& room, int64_t begin,
                int64_t end) {
  const F32 d;
  const int64_t dim = args.shape.v_head_dim;
  const float* weight = args.norm_weight.as<float>();
  for (int64_t token = begin; token < end; ++token) {
    if (IsPadding(args.batch.sequences[SequenceOf(args.batch, token)])) continue;
    const T* z = args.qkvz.as<T>() + token * args.qkvz.row_stride() + args.shape.num_channels();
    T* out = args.out.as<T>() + token * args.out.row_stride();
    for (int64_t first = 0; first < args.shape.v_size(); first += dim) {
      const float* o = room.o(token) + first;
      VF32 sum = hn::Zero(d);
      for (int64_t i = 0; i < dim; i += NumLanes()) {
        const VF32 v = LoadF32(o + i, dim - i);
        sum = hn::MulAdd(v, v, sum);
      }
      const float mean = SumOfLanes(sum) / static_cast<float>(dim);
      const VF32 scale = hn::Set(d, 1.0f / std::sqrt(mean + args.norm_eps));
      for (int64_t i = 0; i < dim; i += NumLanes()) {
        const VF32 normal =
            hn::Mul(hn::Mul(LoadF32(o + i, dim - i), scale), LoadF32(weight + i, dim - i));
        const VF32 gate = Silu(LoadF32(z + first + i, dim - i));
        StoreF32(hn::Mul(normal, gate), out + first + i, dim - i);
      }
    }
  }
}

void ConvTokensImpl(const GatedDeltaArgs& args, int64_t block, int64_t begin, int64_t end) {
  args.qkvz.dtype() == DType::kF32 ? ConvTokens<float>(args, block * kConvChannels, begin, end)
                                   : ConvTokens<BFloat16>(args, block * kConvChannels, begin, end);
}

void ScaleTokensImpl(const GatedDeltaArgs& args, const GatedDeltaRoom& room, int64_t begin,
                     int64_t end) {
  args.qkvz.dtype() == DType::kF32 ? ScaleTokens<float>(args, room, begin, end)
                                   : ScaleTokens<BFloat16>(args, room, begin, end);
}

// Tiles [begin, end) of all v heads of the sequences from `first_seq` on.
void TilesImpl(const GatedDeltaArgs& args, const GatedDeltaRoom& room, int64_t first_seq,
               int64_t begin, int64_t end) {
  const int64_t tiles_per_head = CeilDiv<int64_t>(args.shape.v_head_dim, kTile);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first_column = i % tiles_per_head * kTile;
    const int64_t head = i / tiles_per_head % args.shape.num_v_heads;
    const int64_t seq = first_seq + i / tiles_per_head / args.shape.num_v_heads;
    args.qkvz.dtype() == DType::kF32 ? SequenceTile<float>(args, room, seq, head, first_column)
                                     : SequenceTile<BFloat16>(args, room, seq, head, first_column);
  }
}

void NormTokensImpl(const GatedDeltaArgs& args, const GatedDeltaRoom& room, int64_t begin,
                    int64_t end) {
  args.qkvz.dtype() == DType::kF32 ? NormTokens<float>(args, room, begin, end)
                                   : NormTokens<BFloat16>(args, room, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(ConvTokensImpl);
HWY_EXPORT(ScaleTokensImpl);
HWY_EXPORT(TilesImpl);
HWY_EXPORT(NormTokensImpl);

namespace {

// y of tokens [begin, end): in blocks of channels, and of tokens where there are many.
void Convolve(const GatedDeltaArgs& args, int64_t begin, int64_t end, ThreadPool& pool) {
  constexpr int64_t kTokens = 64;
  const int64_t num_tokens = end - begin;
  const int64_t num_blocks =
      CeilDiv<int64_t>(args.shape.num_channels(), HWY_NAMESPACE::kConvChannels);
  const int64_t blocks_per_range = std::max<int64_t>(1, kTokens / std::max<int64_t>(1, num_tokens));
  pool.ParallelFor(num_blocks * CeilDiv(num_tokens, kTokens), blocks_per_range,
                   [&](int64_t first, int64_t last, int) {
                     for (int64_t i = first; i < last; ++i) {
                       const int64_t from = begin + i / num_blocks * kTokens;
                       HWY_DYNAMIC_DISPATCH(ConvTokensImpl)
                       (args, i % num_blocks, from, std::min(end, from + kTokens));
                     }
                   });
}

// Leaves in a slot the last inputs of the convolution after the first `num_tokens` of a sequence's
// tokens. The slot may be the one that the sequence reads: then later rows move to the front, in
// order.
void SaveConvInputs(const GatedDeltaArgs& args, int64_t seq, int64_t num_tokens, int64_t slot) {
  const int64_t num_rows = args.shape.conv_width - 1;
  const int64_t row_bytes = args.shape.num_channels() * DTypeBytes(args.qkvz.dtype());
  for (int64_t row = 0; row < num_rows; ++row) {
    std::byte* to = ConvSlot(args.state, slot) + row * row_bytes;
    const std::byte* from = ConvInput(args, seq, num_tokens - num_rows + row);
    if (from == nullptr) {
      std::memset(to, 0, row_bytes);
    } else {
      std::memcpy(to, from, row_bytes);
    }
  }
}

// After the convolution of all tokens, which reads the slots.
void SaveAllConvInputs(const GatedDeltaArgs& args, ThreadPool& pool) {
  constexpr int64_t kSeqsPerRange = 4;
  const StateBatch& batch = args.batch;
  pool.ParallelFor(batch.num_seqs, kSeqsPerRange, [&](int64_t begin, int64_t end, int) {
    for (int64_t seq = begin; seq < end; ++seq) {
      const StateAccess& sequence = batch.sequences[seq];
      if (IsPadding(sequence)) continue;
      for (int32_t i = 0; i < sequence.num_snapshots; ++i) {
        const StateSnapshot& snapshot = batch.snapshots[sequence.first_snapshot + i];
        SaveConvInputs(args, seq, snapshot.num_tokens, snapshot.slot);
      }
      const int64_t num_tokens = batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq];
      SaveConvInputs(args, seq, num_tokens, sequence.write);
    }
  });
}

// The tokens of the room, from y to `out`.
void RunRoom(const GatedDeltaArgs& args, const GatedDeltaRoom& room, ThreadPool& pool) {
  constexpr int64_t kTokensPerRange = 4;
  constexpr int64_t kTilesPerRange = 4;  // one token's are some microseconds
  const int64_t num_tokens = room.end() - room.begin();
  pool.ParallelFor(num_tokens, kTokensPerRange, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ScaleTokensImpl)(args, room, room.begin() + begin, room.begin() + end);
  });
  const int64_t first_seq = SequenceOf(args.batch, room.begin());
  const int64_t num_seqs = SequenceOf(args.batch, room.end() - 1) + 1 - first_seq;
  const int64_t num_tiles = num_seqs * args.shape.num_v_heads *
                            CeilDiv<int64_t>(args.shape.v_head_dim, HWY_NAMESPACE::kTile);
  pool.ParallelFor(num_tiles, num_tokens < 2 * num_seqs ? kTilesPerRange : 1,
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(TilesImpl)(args, room, first_seq, begin, end);
                   });
  pool.ParallelFor(num_tokens, kTokensPerRange, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(NormTokensImpl)(args, room, room.begin() + begin, room.begin() + end);
  });
}

}  // namespace

void GatedDelta(const GatedDeltaArgs& args, ThreadPool& pool) {
  const int64_t first = args.batch.cu_seqlens_q[0];
  const int64_t last = args.batch.cu_seqlens_q[args.batch.num_seqs];
  CHECK(first >= 0 && first <= last && last <= args.qkvz.dim(0)) << first << " .. " << last;
  const int64_t room_bytes = args.room.empty() ? 0 : args.room.num_bytes();
  CHECK_GE(room_bytes, GatedDeltaRoomBytes(args.shape, last - first, DeviceKind::kCpu));
  Convolve(args, first, last, pool);
  SaveAllConvInputs(args, pool);
  for (int64_t begin = first; begin < last; begin += kGatedDeltaRoomTokens) {
    RunRoom(args, GatedDeltaRoom(args, begin, std::min(last, begin + kGatedDeltaRoomTokens)), pool);
  }
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
