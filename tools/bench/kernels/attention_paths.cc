#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/runner/attention_selector.h"
#include "kernels/attention_checks.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/attention_case.h"
#include "tools/bench/kernels/op_table.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

struct TableCase {
  int32_t num_seqs, query_len, seq_len, head_dim;
  DType kv_dtype;

  AttentionPhase phase() const {
    return query_len == 1 ? AttentionPhase::kDecode : AttentionPhase::kPrefill;
  }
};

std::vector<TableCase> Decodes(DType kv_dtype, int32_t head_dim,
                               const std::vector<int32_t>& batches,
                               const std::vector<int32_t>& lengths) {
  constexpr int64_t kMostTokens = 1 << 20;
  std::vector<TableCase> cases;
  for (const int32_t num_seqs : batches) {
    for (const int32_t seq_len : lengths) {
      if (int64_t{num_seqs} * seq_len > kMostTokens) continue;
      cases.push_back({num_seqs, 1, seq_len, head_dim, kv_dtype});
    }
  }
  return cases;
}

std::vector<TableCase> TableCases(DeviceKind device) {
  if (device == DeviceKind::kCpu) {
    return {{4, 1, 512, 64, DType::kBF16}, {1, 256, 256, 64, DType::kBF16}};
  }
  std::vector<TableCase> cases;
  const auto add = [&](const std::vector<TableCase>& more) {
    cases.insert(cases.end(), more.begin(), more.end());
  };
  for (const DType kv_dtype : {DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    add(Decodes(kv_dtype, 128, {1, 4, 16, 64, 256}, {256, 1024, 4096, 32768}));
  }
  for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3}) {
    for (const int32_t head_dim : {64, 256}) {
      add(Decodes(kv_dtype, head_dim, {1, 16, 256}, {1024, 4096}));
    }
    for (const int32_t head_dim : {64, 128, 256}) {
      for (const int32_t length : {512, 2048, 8192}) {
        cases.push_back({1, length, length, head_dim, kv_dtype});
      }
      cases.push_back({8, 1024, 1024, head_dim, kv_dtype});
      cases.push_back({1, 512, 8192, head_dim, kv_dtype});
    }
  }
  return cases;
}

// As a model of this geometry would be served.
AttentionPath AutoPath(Backend& backend, const TableCase& c, const AttentionShape& shape) {
  std::vector<const AttentionCapabilities*> available;
  for (const AttentionPath path : {AttentionPath::kNative, AttentionPath::kTrtllm}) {
    AttentionBackend* attention = backend.attention(path);
    if (attention != nullptr) available.push_back(&attention->capabilities());
  }
  const AttentionDemand demand = {.geometries = {shape.geometry()},
                                  .max_num_seqs = c.num_seqs,
                                  .sm_version = backend.device().info().sm_version};
  return SelectAttentionPath(c.phase(), {}, demand, available).value_or(AttentionPath::kNative);
}

std::string NameOf(const TableCase& c) {
  const std::string batch =
      c.phase() == AttentionPhase::kDecode ? absl::StrCat("decode ", c.num_seqs, " x ", c.seq_len)
      : c.query_len == c.seq_len           ? absl::StrCat("prefill ", c.num_seqs, " x ", c.seq_len)
                                 : absl::StrCat("prefill ", c.query_len, " of ", c.seq_len);
  return absl::StrCat(DTypeName(c.kv_dtype), ", heads of ", c.head_dim, ", ", batch);
}

AttentionShape ShapeOf(const TableCase& c) {
  return {.name = NameOf(c),
          .num_q_heads = 32,
          .num_kv_heads = 8,
          .head_dim = c.head_dim,
          .block_size = 16,
          .lengths = {std::vector<int32_t>(c.num_seqs, c.query_len),
                      std::vector<int32_t>(c.num_seqs, c.seq_len)},
          .kv_dtype = c.kv_dtype};
}

absl::Status MeasurePaths(GraphTimer& timer, uint64_t seed, const TableCase& c, Json* result) {
  const AttentionShape shape = ShapeOf(c);
  ASSIGN_OR_RETURN(const auto attention, AttentionCase::Create(timer, shape, seed, result));
  if (attention == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<double> us, attention->RunUs());
  Json row = {{"phase", c.phase() == AttentionPhase::kDecode ? "decode" : "prefill"},
              {"kv_dtype", DTypeName(c.kv_dtype)},
              {"head_dim", c.head_dim},
              {"num_seqs", c.num_seqs},
              {"query_len", c.query_len},
              {"seq_len", c.seq_len}};
  std::string times;
  double fastest = 0;
  for (size_t i = 0; i < us.size(); ++i) {
    const std::string& name = attention->names()[i];
    row["us"][name] = us[i];
    absl::StrAppend(&times, i > 0 ? ", " : "", name, " ", us[i]);
    if (name != AttentionCase::kClassic && (fastest == 0 || us[i] < fastest)) fastest = us[i];
  }
  const char* chosen = PathName(AutoPath(timer.backend(), c, shape));
  row["auto"] = chosen;
  row["auto_over_fastest"] = row["us"][chosen].get<double>() / fastest;
  std::printf("  %-44s auto: %-7s %.3f of the fastest's time (us: %s)\n", shape.name.c_str(),
              chosen, row["auto_over_fastest"].get<double>(), times.c_str());
  (*result)[kAttentionPathTable.list].push_back(std::move(row));
  return absl::OkStatus();
}

absl::Status MeasureAttentionTable(GraphTimer& timer, const TableRequest& request, Json* result) {
  std::printf("attention paths, 32/8 heads, blocks of 16, cold caches\n");
  for (const TableCase& c : TableCases(timer.device_kind())) {
    if (Interrupted()) break;
    RETURN_IF_ERROR(MeasurePaths(timer, request.seed, c, result));
  }
  std::printf("\n");
  return absl::OkStatus();
}

absl::Status MeasureCascade(GraphTimer& timer, const TableRequest& request, Json* result) {
  struct Shape {
    int32_t num_seqs, prefix_len, rest_len;
  };
  std::vector<Shape> shapes = {{16, 1024, 256},  {16, 2048, 256},  {32, 1024, 256},
                               {16, 4096, 256},  {32, 2048, 256},  {64, 1024, 256},
                               {64, 2048, 256},  {256, 1024, 256}, {64, 8192, 256},
                               {256, 4096, 256}, {128, 32768, 256}};
  if (timer.device_kind() == DeviceKind::kCpu) shapes = {{4, 256, 32}};
  std::printf("decodes that share a prefix, 32/8 heads of 128, bfloat16, blocks of 16\n");
  for (const auto& [num_seqs, prefix_len, rest_len] : shapes) {
    if (Interrupted()) break;
    AttentionShape shape = ShapeOf({num_seqs, 1, prefix_len + rest_len, 128, DType::kBF16});
    shape.name = absl::StrCat(num_seqs, " x (", prefix_len, " shared + ", rest_len, ")");
    shape.shared_prefix_len = prefix_len;
    ASSIGN_OR_RETURN(const auto attention,
                     AttentionCase::Create(timer, shape, request.seed, result));
    if (attention == nullptr) continue;
    ASSIGN_OR_RETURN(const std::vector<double> us, attention->RunUs());
    std::printf("  %-32s plain %8.1f us, cascade %8.1f us: %.2f times as fast\n",
                shape.name.c_str(), us[0], us[1], us[0] / us[1]);
    (*result)[kCascadeTable.list].push_back({{"num_seqs", num_seqs},
                                             {"prefix_len", prefix_len},
                                             {"rest_len", rest_len},
                                             {"plain_us", us[0]},
                                             {"cascade_us", us[1]},
                                             {"speedup", us[0] / us[1]}});
  }
  std::printf("\n");
  return absl::OkStatus();
}

absl::Status MeasureRagged(GraphTimer& timer, const TableRequest& request, Json* result) {
  struct Shape {
    int32_t num_seqs, query_len, seq_len;
  };
  std::vector<Shape> shapes = {
      {16, 1024, 1024}, {4, 4096, 4096}, {1, 16384, 16384}, {1, 512, 32768}};
  if (timer.device_kind() == DeviceKind::kCpu) {
    shapes = {{1, 64, 256}};
  }
  std::printf("prompts, 32/8 heads of 128, bfloat16, blocks of 16, on the native path\n");
  for (const auto& [num_seqs, query_len, seq_len] : shapes) {
    for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3}) {
      if (Interrupted()) break;
      AttentionShape shape = ShapeOf({num_seqs, query_len, seq_len, 128, kv_dtype});
      shape.has_ragged = true;
      ASSIGN_OR_RETURN(const auto attention,
                       AttentionCase::Create(timer, shape, request.seed, result));
      if (attention == nullptr) continue;
      ASSIGN_OR_RETURN(const std::vector<double> us, attention->RunUs());
      const auto tflops = [&](double one) { return attention->flops() / one * 1e-6; };
      std::printf(
          "  %-44s paged %9.1f us, %6.2f TFLOP/s; ragged %9.1f us, %6.2f TFLOP/s: "
          "%.3f times as fast\n",
          shape.name.c_str(), us[0], tflops(us[0]), us[1], tflops(us[1]), us[0] / us[1]);
      (*result)[kRaggedTable.list].push_back({{"kv_dtype", DTypeName(kv_dtype)},
                                              {"num_seqs", num_seqs},
                                              {"query_len", query_len},
                                              {"seq_len", seq_len},
                                              {"paged_us", us[0]},
                                              {"paged_tflops", tflops(us[0])},
                                              {"ragged_us", us[1]},
                                              {"ragged_tflops", tflops(us[1])},
                                              {"speedup", us[0] / us[1]}});
    }
  }
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace

constinit const KernelTable kAttentionPathTable = {
    .name = "attention-table",
    .about = "attention on each path, which --attention-backend auto follows",
    .list = "attention_table",
    .measure = MeasureAttentionTable};

constinit const KernelTable kCascadeTable = {
    .name = "cascade",
    .about = "decodes that share a prefix, read with each of them and read once",
    .list = "cascade",
    .measure = MeasureCascade};

constinit const KernelTable kRaggedTable = {
    .name = "ragged",
    .about = "prompts whose new tokens are read from the cache, and where a gemm leaves them",
    .list = "ragged",
    .measure = MeasureRagged};

}  // namespace quire::bench
