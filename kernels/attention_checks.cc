#include "kernels/attention_checks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/check.h"

namespace quire {

namespace {

template <typename T>
bool Contains(const std::vector<T>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Empty when the types fit, each by itself and to each other.
std::string WhyTypesUnsupported(const AttentionCapabilities& path,
                                const AttentionGeometry& geometry) {
  const DType query = geometry.query_dtype, kv = geometry.kv_dtype;
  if (!Contains(path.query_dtypes, query)) {
    return absl::StrCat("does not take query_dtype ", DTypeName(query));
  }
  if (!Contains(path.kv_dtypes, kv)) {
    return absl::StrCat("does not take kv_dtype ", DTypeName(kv));
  }
  if (!IsFloat8(kv) && (query == DType::kF16) != (kv == DType::kF16)) {
    return absl::StrCat("does not take query_dtype ", DTypeName(query), " with kv_dtype ",
                        DTypeName(kv));
  }
  return "";
}

// Empty when the heads fit.
std::string WhyHeadsUnsupported(const AttentionCapabilities& path,
                                const AttentionGeometry& geometry) {
  if (geometry.num_q_heads <= 0 || geometry.num_kv_heads <= 0 ||
      geometry.num_q_heads % geometry.num_kv_heads != 0) {
    return absl::StrCat("needs num_q_heads (", geometry.num_q_heads,
                        ") to be a multiple of num_kv_heads (", geometry.num_kv_heads, ")");
  }
  const int32_t group_size = geometry.num_q_heads / geometry.num_kv_heads;
  if (path.max_group_size > 0 && group_size > path.max_group_size) {
    return absl::StrCat("takes at most ", path.max_group_size, " query heads of a KV head, not ",
                        group_size);
  }
  const int32_t head_dim = geometry.k_head_dim;
  if (head_dim != geometry.v_head_dim) {
    return absl::StrCat("takes keys and values of one head_dim, not of ", head_dim, " and ",
                        geometry.v_head_dim);
  }
  if (!path.head_dims.empty()) {
    if (Contains(path.head_dims, static_cast<int>(head_dim))) return "";
    return absl::StrCat("takes head_dim ", absl::StrJoin(path.head_dims, ", "), ", not ", head_dim);
  }
  if (head_dim > 0 && head_dim % 8 == 0 && head_dim <= path.max_head_dim) return "";
  return absl::StrCat("takes head_dim in multiples of 8 up to ", path.max_head_dim, ", not ",
                      head_dim);
}

}  // namespace

const char* PathName(AttentionPath path) {
  switch (path) {
    case AttentionPath::kNative:
      return "native";
    case AttentionPath::kTrtllm:
      return "trtllm";
  }
  return "";
}

std::string WhyUnsupported(const AttentionCapabilities& path, const AttentionGeometry& geometry) {
  if (std::string why = WhyTypesUnsupported(path, geometry); !why.empty()) return why;
  if (!Contains(path.block_sizes, static_cast<int>(geometry.block_size))) {
    return absl::StrCat("takes block_size ", absl::StrJoin(path.block_sizes, ", "), ", not ",
                        geometry.block_size, " (--block-size)");
  }
  if (std::string why = WhyHeadsUnsupported(path, geometry); !why.empty()) return why;
  if (!(geometry.scale > 0)) return absl::StrCat("needs a scale above 0, not ", geometry.scale);
  if (geometry.sliding_window < 0 || !(geometry.soft_cap >= 0)) {
    return absl::StrCat("takes no negative sliding_window (", geometry.sliding_window,
                        ") or soft_cap (", geometry.soft_cap, ")");
  }
  if (geometry.sliding_window > 0 && !path.sliding_window) return "has no sliding window";
  if (geometry.soft_cap > 0 && !path.soft_cap) return "has no soft cap";
  if (geometry.sinks && !path.sinks) return "has no attention sinks";
  return "";
}

std::string WhyUnsupported(const AttentionCapabilities& path, int64_t max_num_seqs) {
  if (path.max_num_seqs == 0 || max_num_seqs <= path.max_num_seqs) return "";
  return absl::StrCat("takes at most ", path.max_num_seqs, " sequences in a step, not ",
                      max_num_seqs, " (--max-num-seqs)");
}

void CheckMerges(const AttentionGeometry& geometry, const AttentionLimits& limits) {
  if (!limits.merges) return;
  CHECK(limits.only_phase == AttentionPhase::kPrefill);
  CHECK(!geometry.sinks);
}

void CheckArgs(const AttentionGeometry& geometry, bool merges, const AttentionRunArgs& args) {
  const KvCacheView& kv = args.kv_cache;
  CHECK(args.q.dtype() == geometry.query_dtype && args.out.dtype() == geometry.query_dtype);
  CHECK(kv.dtype == geometry.kv_dtype);
  CHECK_EQ(args.q.dim(1), geometry.num_q_heads);
  CHECK_EQ(args.q.dim(2), geometry.k_head_dim);
  CHECK_EQ(args.out.dim(2), geometry.v_head_dim);
  CHECK_EQ(kv.k.head_dim, geometry.k_head_dim);
  CHECK(kv.v.IsLaidOutAs(kv.k));  // paths read one set of strides
  CHECK_EQ(kv.num_kv_heads, geometry.num_kv_heads);
  CHECK_EQ(kv.block_size, geometry.block_size);
  CHECK((kv.k.scales == nullptr && kv.v.scales == nullptr) || IsFloat8(kv.dtype));
  CHECK_EQ(args.sinks != nullptr, geometry.sinks);
  CHECK(!merges || args.lse != nullptr);
}

}  // namespace quire
