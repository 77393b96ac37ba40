// One layer's attention over well-known lengths, on each path that serves it.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/attention_case.h"
#include "tools/bench/kernels/op_table.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

AttentionShape Uniform(const std::string& name, int32_t count, int32_t query_len, int32_t seq_len,
                       int32_t num_q_heads = 32, int32_t head_dim = 128, int32_t block_size = 16) {
  return {
      .name = name,
      .num_q_heads = num_q_heads,
      .num_kv_heads = 8,
      .head_dim = head_dim,
      .block_size = block_size,
      .lengths = {std::vector<int32_t>(count, query_len), std::vector<int32_t>(count, seq_len)}};
}

// The same with all heads of a token together (NHD), where a cache has all tokens of a head
// together.
AttentionShape TokenMajor(AttentionShape shape) {
  shape.is_token_major = true;
  return shape;
}

constexpr char kDecode[] = "decode 128 x 4096";
constexpr char kSkewed[] = "decode 63 x 512 + 1 x 32768";
constexpr char kEven[] = "decode 64 x 1016";  // as many tokens as kSkewed
constexpr char kPrefill[] = "prefill 4 x 4096";

// 32 query and 8 KV heads of 128, bfloat16, blocks of 16, unless the name says otherwise.
std::vector<AttentionShape> AttentionShapes(DeviceKind device) {
  AttentionShape skewed = Uniform(kSkewed, 64, 1, 512);
  skewed.lengths.seq_lens[40] = 32768;
  if (device == DeviceKind::kCpu) {
    return {Uniform("decode 4 x 1024", 4, 1, 1024), Uniform("prefill 1 x 512", 1, 512, 512),
            TokenMajor(Uniform("decode 4 x 1024, tokens first", 4, 1, 1024)),
            TokenMajor(Uniform("prefill 1 x 512, tokens first", 1, 512, 512))};
  }
  return {Uniform(kDecode, 128, 1, 4096),
          skewed,
          Uniform(kEven, 64, 1, 1016),
          Uniform(kPrefill, 4, 4096, 4096),
          Uniform("decode 1 x 1024", 1, 1, 1024),
          Uniform("decode 1 x 8192", 1, 1, 8192),
          Uniform("decode 1 x 32768", 1, 1, 32768),
          Uniform("decode 8 x 8192", 8, 1, 8192),
          Uniform("decode 64 x 1024", 64, 1, 1024),
          Uniform("decode 64 x 2048", 64, 1, 2048),
          Uniform("decode 256 x 1024", 256, 1, 1024),
          Uniform("decode 64 x 1024, 16 q heads", 64, 1, 1024, 16),
          Uniform("prefill 16 x 1024", 16, 1024, 1024),
          Uniform("prefill 1 x 16384", 1, 16384, 16384),
          Uniform("prefill 1 x 2048", 1, 2048, 2048),
          Uniform("prefill 1 x 2048, 16 q heads", 1, 2048, 2048, 16),
          Uniform("prefill 1 x 512 of 32768", 1, 512, 32768),
          Uniform("prefill 1 x 2048 of 32768", 1, 2048, 32768),
          Uniform("decode 128 x 4096, blocks of 64", 128, 1, 4096, 32, 128, 64),
          Uniform("decode 64 x 2048, 4 tokens each", 64, 4, 2048),
          Uniform("prefill 4 x 4096, blocks of 64", 4, 4096, 4096, 32, 128, 64),
          Uniform("prefill 4 x 4096, head size 64", 4, 4096, 4096, 32, 64),
          Uniform("prefill 4 x 4096, head size 256", 4, 4096, 4096, 32, 256),
          Uniform("decode 64 x 1024, head size 512", 64, 1, 1024, 32, 512),
          Uniform("decode 1 x 8192, head size 512", 1, 1, 8192, 32, 512),
          Uniform("prefill 4 x 4096, head size 512", 4, 4096, 4096, 32, 512)};
}

// Every shape with a cache in bfloat16, then, if it is one of 8 bits, with one in `kv_dtype`, and
// how its time compares.
std::vector<AttentionShape> WithCaches(const std::vector<AttentionShape>& shapes, DType kv_dtype) {
  std::vector<AttentionShape> result;
  for (const AttentionShape& shape : shapes) {
    result.push_back(shape);
    if (!IsFloat8(kv_dtype)) continue;
    result.push_back(shape);
    result.back().kv_dtype = kv_dtype;
    absl::StrAppend(&result.back().name, ", ", DTypeName(kv_dtype));
  }
  return result;
}

DType CacheType(const EngineConfig& config) { return config.kv_cache_dtype.value_or(DType::kBF16); }

// The figures that some of these rows stand for, where they were measured.
void AddFigures(const Json& rows, const Limits& limits, Json* figures) {
  const auto value = [&](const char* shape, const char* key) {
    for (const Json& row : rows) {
      if (row["shape"] == shape && row["op"] == PathName(AttentionPath::kNative)) {
        return row[key].get<double>();
      }
    }
    return 0.0;
  };
  if (value(kDecode, "us") > 0) {
    (*figures)["decode_attn_read_ratio"] = value(kDecode, "tb_s") * 1e12 / limits.bytes_per_s;
  }
  if (value(kEven, "us") > 0) {
    (*figures)["decode_attn_skew_ratio"] = value(kSkewed, "tb_s") / value(kEven, "tb_s");
  }
  if (value(kPrefill, "us") > 0) (*figures)["prefill_attn_tflops"] = value(kPrefill, "tflops");
}

absl::Status MeasureAttention(GraphTimer& timer, const TableRequest& request, Json* result) {
  PrintOpHeader("attention, 32/8 heads of 128, bfloat16, blocks of 16 (bytes: K and V once)");
  const std::vector<AttentionShape> shapes =
      WithCaches(AttentionShapes(timer.device_kind()), CacheType(*request.config));
  std::map<std::string, double> bf16_us;  // by name
  for (const AttentionShape& shape : shapes) {
    if (Interrupted()) break;
    if (!absl::StrContains(shape.name, request.cases)) continue;
    ASSIGN_OR_RETURN(const std::unique_ptr<AttentionCase> attention,
                     AttentionCase::Create(timer, shape, request.seed, result));
    if (attention == nullptr) {
      if (shape.kv_dtype == DType::kBF16) bf16_us.clear();
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<double> us, attention->RunUs());
    for (size_t i = 0; i < us.size(); ++i) {
      const std::string& name = attention->names()[i];
      ASSIGN_OR_RETURN(const double plan_us, attention->PlanUs(i));
      Json row = OpRow(name, shape.name, 1, us[i], attention->kv_bytes(), attention->flops(),
                       request.limits);
      row["plan_us"] = plan_us;
      PrintOpRow(row);
      if (shape.kv_dtype == DType::kBF16) {
        bf16_us[name] = us[i];
      } else if (bf16_us.contains(name)) {
        row["time_over_bfloat16"] = us[i] / bf16_us[name];
        std::printf("%63s of bfloat16's time: %.3f\n", "", us[i] / bf16_us[name]);
      }
      (*result)[kAttentionTable.list].push_back(std::move(row));
    }
  }
  std::printf("\n");
  AddFigures((*result)[kAttentionTable.list], request.limits, &(*result)["figures"]);
  return absl::OkStatus();
}

std::vector<std::string> AttentionNames(DeviceKind device, const EngineConfig& config,
                                        const ModelConfig&) {
  return NamesOf(WithCaches(AttentionShapes(device), CacheType(config)));
}

}  // namespace

constinit const KernelTable kAttentionTable = {
    .name = "attention",
    .about = "one layer's attention over well-known lengths",
    .list = "attention",
    .case_names = AttentionNames,
    .measure = MeasureAttention};

}  // namespace quire::bench
