// quire-bench kernels: time of each operation of a model's steps, and of attention over well-known
// shapes, against the limits measured in the same run.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/attention_case.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine_run.h"
#include "tools/bench/step_ops.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

struct KernelsFlags {
  EngineFlags engine;
  std::vector<int32_t> batch_sizes = {1, 8, 64, 256};
  int32_t context = 1024;
  int32_t prefill_len = 2048;
  std::string only;
  std::string json_file;
};

struct Limits {
  double bytes_per_s;
  double flops_per_s;

  double Us(double bytes, double flops) const {
    return 1e6 * std::max(bytes / bytes_per_s, flops / flops_per_s);
  }
};

// Calls of one kind in one step.
struct OpGroup {
  std::vector<RecordedOp> calls;
};

std::vector<OpGroup> GroupAlike(std::vector<RecordedOp> ops) {
  std::vector<OpGroup> groups;
  for (RecordedOp& op : ops) {
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const OpGroup& group) {
      return group.calls[0].name == op.name && group.calls[0].shape == op.shape;
    });
    if (alike != groups.end()) {
      alike->calls.push_back(std::move(op));
    } else {
      groups.push_back({{std::move(op)}});
    }
  }
  return groups;
}

// The calls of all layers in turn, which use weights and caches of their own: cold as in the step.
absl::StatusOr<double> GroupUs(GraphTimer& timer, const OpGroup& group) {
  constexpr int kCalls = 64;
  const auto num_layers = static_cast<int>(group.calls.size());
  return timer.MedianUs(RoundUp(std::max(kCalls, num_layers), num_layers),
                        [&](int i) { group.calls[i % num_layers].run(timer.stream()); });
}

Json Row(const std::string& name, const std::string& shape, size_t count, double us, double bytes,
         double flops, const Limits& limits) {
  return {{"op", name},
          {"shape", shape},
          {"count", count},
          {"us", us},
          {"bytes", bytes},
          {"flops", flops},
          {"tb_s", bytes / us * 1e-6},
          {"tflops", flops / us * 1e-6},
          {"limit_us", limits.Us(bytes, flops)},
          {"share_of_limit", limits.Us(bytes, flops) / us}};
}

void PrintRow(const Json& row) {
  std::printf("  %-16s %-34s %5d %10.2f %9.3f %9.2f %7.3f\n", row["op"].get<std::string>().c_str(),
              row["shape"].get<std::string>().c_str(), row["count"].get<int>(),
              row["us"].get<double>(), row["tb_s"].get<double>(), row["tflops"].get<double>(),
              row["share_of_limit"].get<double>());
}

void PrintHeader(const std::string& title) {
  std::printf("%s\n  %-16s %-34s %5s %10s %9s %9s %7s\n", title.c_str(), "operation", "shape",
              "calls", "us a call", "TB/s", "TFLOP/s", "share");
}

absl::StatusOr<Json> MeasureStep(GraphTimer& timer, StepOps& step, const StepShape& shape,
                                 const std::string& title, const Limits& limits) {
  ASSIGN_OR_RETURN(std::vector<RecordedOp> ops, step.Record(shape));
  PrintHeader(title);
  Json rows = Json::array();
  double us = 0, limit_us = 0;
  for (const OpGroup& group : GroupAlike(std::move(ops))) {
    ASSIGN_OR_RETURN(const double call_us, GroupUs(timer, group));
    const RecordedOp& op = group.calls[0];
    const size_t count = group.calls.size();
    rows.push_back(Row(op.name, op.shape, count, call_us, op.bytes, op.flops, limits));
    PrintRow(rows.back());
    us += call_us * static_cast<double>(count);
    limit_us += limits.Us(op.bytes, op.flops) * static_cast<double>(count);
  }
  std::printf("  all of them: %.1f us, limit %.1f us, share %.3f\n\n", us, limit_us, limit_us / us);
  return Json{{"title", title},
              {"num_seqs", shape.num_seqs},
              {"query_len", shape.query_len},
              {"seq_len", shape.seq_len},
              {"us", us},
              {"limit_us", limit_us},
              {"share_of_limit", limit_us / us},
              {"operations", rows}};
}

absl::Status MeasureSteps(GraphTimer& timer, const KernelsFlags& flags, const EngineConfig& config,
                          const Limits& limits, Json* result) {
  std::vector<std::pair<std::string, StepShape>> steps;
  for (const int32_t batch : flags.batch_sizes) {
    steps.push_back({absl::StrCat("decode, batch ", batch, ", context ", flags.context),
                     {.num_seqs = batch, .query_len = 1, .seq_len = flags.context}});
  }
  steps.push_back({absl::StrCat("prefill of ", flags.prefill_len),
                   {.num_seqs = 1, .query_len = flags.prefill_len, .seq_len = flags.prefill_len}});
  std::vector<StepShape> shapes;
  shapes.reserve(steps.size());
  for (const auto& [title, shape] : steps) shapes.push_back(shape);
  ASSIGN_OR_RETURN(const std::unique_ptr<StepOps> ops, StepOps::Create(timer, config, shapes));
  std::printf("%s, %s\n", ops->model().architecture.c_str(), DTypeName(ops->dtype()));
  for (const auto& [title, shape] : steps) {
    ASSIGN_OR_RETURN(Json step, MeasureStep(timer, *ops, shape, title, limits));
    result->push_back(std::move(step));
  }
  return absl::OkStatus();
}

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

constexpr char kDecode[] = "decode 128 x 4096";
constexpr char kSkewed[] = "decode 63 x 512 + 1 x 32768";
constexpr char kEven[] = "decode 64 x 1016";  // as many tokens as kSkewed
constexpr char kPrefill[] = "prefill 4 x 4096";

// 32 query and 8 KV heads of 128, bfloat16, blocks of 16, unless the name says otherwise.
std::vector<AttentionShape> AttentionShapes(DeviceKind device) {
  AttentionShape skewed = Uniform(kSkewed, 64, 1, 512);
  skewed.lengths.seq_lens[40] = 32768;
  if (device == DeviceKind::kCpu) {
    return {Uniform("decode 4 x 1024", 4, 1, 1024), Uniform("prefill 1 x 512", 1, 512, 512)};
  }
  return {Uniform(kDecode, 128, 1, 4096),
          skewed,
          Uniform(kEven, 64, 1, 1016),
          Uniform(kPrefill, 4, 4096, 4096),
          Uniform("decode 1 x 8192", 1, 1, 8192),
          Uniform("decode 8 x 8192", 8, 1, 8192),
          Uniform("decode 64 x 2048", 64, 1, 2048),
          Uniform("decode 256 x 1024", 256, 1, 1024),
          Uniform("decode 64 x 1024, 16 q heads", 64, 1, 1024, 16),
          Uniform("prefill 16 x 1024", 16, 1024, 1024),
          Uniform("prefill 1 x 16384", 1, 16384, 16384),
          Uniform("prefill 1 x 2048", 1, 2048, 2048),
          Uniform("prefill 1 x 512 of 32768", 1, 512, 32768),
          Uniform("decode 128 x 4096, blocks of 64", 128, 1, 4096, 32, 128, 64),
          Uniform("prefill 4 x 4096, blocks of 64", 4, 4096, 4096, 32, 128, 64),
          Uniform("prefill 4 x 4096, head size 64", 4, 4096, 4096, 32, 64),
          Uniform("prefill 4 x 4096, head size 256", 4, 4096, 4096, 32, 256)};
}

// Rows that were measured before something failed stay in `rows`.
absl::Status MeasureAttention(GraphTimer& timer, const Limits& limits, Json* rows) {
  PrintHeader("attention, 32/8 heads of 128, bfloat16, blocks of 16 (bytes: K and V once)");
  for (const AttentionShape& shape : AttentionShapes(timer.backend().device().info().kind)) {
    ASSIGN_OR_RETURN(const std::unique_ptr<AttentionCase> attention,
                     AttentionCase::Create(timer, shape));
    ASSIGN_OR_RETURN(const double us, attention->RunUs());
    ASSIGN_OR_RETURN(const double plan_us, attention->PlanUs());
    Json row =
        Row("attention", shape.name, 1, us, attention->kv_bytes(), attention->flops(), limits);
    row["plan_us"] = plan_us;
    PrintRow(row);
    rows->push_back(std::move(row));
  }
  std::printf("\n");
  return absl::OkStatus();
}

// The figures that these rows stand for, where they were measured.
Json Figures(const Json& attention, const Limits& limits) {
  Json figures = {{"read_ceiling_tb_s", limits.bytes_per_s * 1e-12},
                  {"matmul_ceiling_tflops", limits.flops_per_s * 1e-12}};
  const auto value = [&](const char* shape, const char* key) {
    for (const Json& row : attention) {
      if (row["shape"] == shape) return row[key].get<double>();
    }
    return 0.0;
  };
  if (value(kDecode, "us") > 0) {
    figures["decode_attn_read_ratio"] = value(kDecode, "tb_s") * 1e12 / limits.bytes_per_s;
  }
  if (value(kEven, "us") > 0) {
    figures["decode_attn_skew_ratio"] = value(kSkewed, "tb_s") / value(kEven, "tb_s");
  }
  if (value(kPrefill, "us") > 0) figures["prefill_attn_tflops"] = value(kPrefill, "tflops");
  return figures;
}

absl::Status Measure(KernelsFlags& flags, const EngineConfig& config, Backend& backend) {
  ASSIGN_OR_RETURN(const std::unique_ptr<GraphTimer> timer, GraphTimer::Create(backend));
  ASSIGN_OR_RETURN(const double bytes_per_s, ReadCeiling(*timer));
  ASSIGN_OR_RETURN(const double flops_per_s, MatmulCeiling(*timer));
  const Limits limits = {bytes_per_s, flops_per_s};
  std::printf("%s: reads %.3f TB/s, multiplies bfloat16 matrices at %.2f TFLOP/s\n\n",
              backend.device().info().name.c_str(), bytes_per_s * 1e-12, flops_per_s * 1e-12);
  Json json = {{"device", backend.device().info().name},
               {"steps", Json::array()},
               {"attention", Json::array()}};
  absl::Status status;
  if (flags.only != "steps") status = MeasureAttention(*timer, limits, &json["attention"]);
  if (flags.only != "attention" && status.ok()) {
    status = MeasureSteps(*timer, flags, config, limits, &json["steps"]);
  }
  json["figures"] = Figures(json["attention"], limits);
  std::printf("%s\n", json["figures"].dump().c_str());
  if (!flags.json_file.empty()) std::ofstream(flags.json_file) << json.dump(2) << "\n";
  return status;
}

int Kernels(KernelsFlags& flags) {
  auto bench = MakeEngineConfig(flags.engine);
  if (!bench.ok()) return Fail(std::string(bench.status().message()));
  const auto backend = OpenBackend(bench->config.backend_options());
  if (!backend.ok()) return Fail(std::string(backend.status().message()));
  const absl::Status status = Measure(flags, bench->config, **backend);
  return status.ok() ? 0 : Fail(std::string(status.message()));
}

}  // namespace

Command AddKernels(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "kernels",
      "Each operation of a step against the device's limits; further flags are quire-server's");
  const auto flags = std::make_shared<KernelsFlags>();
  command->add_option("--batch-sizes", flags->batch_sizes, "Of the decode steps")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--context", flags->context, "Tokens of each decoding sequence")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--prefill-len", flags->prefill_len, "Tokens of the prefill step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--only", flags->only, "Only a model's steps, or only attention")
      ->check(CLI::IsMember({"steps", "attention"}));
  command->add_option("--json", flags->json_file, "Write the results to this file");
  AddEngineFlags(*command, &flags->engine);
  return [flags] { return Kernels(*flags); };
}

}  // namespace quire::bench
