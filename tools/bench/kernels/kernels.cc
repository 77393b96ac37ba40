// quire-bench kernels: time of each operation of a model's steps, and of attention over well-known
// shapes, against the limits measured in the same run.

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/attention_checks.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine/engine_run.h"
#include "tools/bench/engine/memory_fit.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/attention_case.h"
#include "tools/bench/kernels/attention_table.h"
#include "tools/bench/kernels/delta_table.h"
#include "tools/bench/kernels/experts_table.h"
#include "tools/bench/kernels/format_table.h"
#include "tools/bench/kernels/op_table.h"
#include "tools/bench/kernels/sampling_table.h"
#include "tools/bench/kernels/step_ops.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

struct KernelsFlags {
  EngineFlags engine;
  std::vector<int32_t> batch_sizes = {1, 8, 64, 256};
  int32_t context = 1024;
  int32_t prefill_len = 2048;
  std::string only;
  std::string cases;          // those whose names have this, where --only has cases
  std::vector<int64_t> rows;  // of x, of formats; empty: a list for the device
  std::optional<uint64_t> given_seed;
  uint64_t seed = 0;  // the one used
  std::optional<std::string> json_file;
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
absl::StatusOr<double> GroupUs(GraphTimer& timer, const OpGroup& group, const Progress& progress) {
  constexpr int kEnoughCalls = 64;
  // Only while this operation is measured: the table is printed in between.
  const ProgressPrinter printer(progress, PrintProgressLine, DrawProgress);
  const auto num_layers = static_cast<int>(group.calls.size());
  const auto enqueue = [&](int i) { group.calls[i % num_layers].run(timer.stream()); };
  return timer.MedianOfRoundsUs(num_layers, kEnoughCalls, enqueue);
}

absl::StatusOr<Json> MeasureStep(GraphTimer& timer, StepOps& step, const StepShape& shape,
                                 const std::string& title, const Limits& limits) {
  ASSIGN_OR_RETURN(std::vector<RecordedOp> ops, step.Record(shape));
  PrintOpHeader(title);
  Json rows = Json::array();
  double us = 0, limit_us = 0;
  const std::vector<OpGroup> groups = GroupAlike(std::move(ops));
  Progress progress;
  ProgressStage stage(&progress, title + ": operations", static_cast<int64_t>(groups.size()),
                      ProgressUnit::kItems);
  for (const OpGroup& group : groups) {
    if (Interrupted()) break;
    ASSIGN_OR_RETURN(const double call_us, GroupUs(timer, group, progress));
    stage.Add(1);
    const RecordedOp& op = group.calls[0];
    const size_t count = group.calls.size();
    rows.push_back(OpRow(op.name, op.shape, count, call_us, op.bytes, op.flops, limits));
    PrintOpRow(rows.back());
    us += call_us * static_cast<double>(count);
    limit_us += limits.Us(op.bytes, op.flops) * static_cast<double>(count);
  }
  std::printf("  all of them: %.1f us, limit %.1f us, share %s\n\n", us, limit_us,
              ShareText(limit_us / us).c_str());
  return Json{{"title", title},
              {"num_seqs", shape.num_seqs},
              {"query_len", shape.query_len},
              {"seq_len", shape.seq_len},
              {"us", us},
              {"limit_us", limit_us},
              {"share_of_limit", limit_us / us},
              {"operations", rows}};
}

using NamedSteps = std::vector<std::pair<std::string, StepShape>>;

NamedSteps StepsToMeasure(const KernelsFlags& flags) {
  NamedSteps steps;
  for (const int32_t batch : flags.batch_sizes) {
    steps.push_back({absl::StrCat("decode, batch ", batch, ", context ", flags.context),
                     {.num_seqs = batch, .query_len = 1, .seq_len = flags.context}});
  }
  steps.push_back({absl::StrCat("prefill of ", flags.prefill_len),
                   {.num_seqs = 1, .query_len = flags.prefill_len, .seq_len = flags.prefill_len}});
  return steps;
}

// What does not fit the memory, under its name.
void Skip(const std::string& name, int64_t needed_bytes, int64_t free_bytes, Json* result) {
  std::printf("%s\n", SkippedText(name, needed_bytes, free_bytes).c_str());
  (*result)["skipped"].push_back(
      {{"name", name}, {"needed_bytes", needed_bytes}, {"free_bytes", free_bytes}});
}

std::vector<StepShape> ShapesOf(const NamedSteps& steps, const std::vector<size_t>& indices) {
  std::vector<StepShape> shapes;
  shapes.reserve(indices.size());
  for (const size_t i : indices) shapes.push_back(steps[i].second);
  return shapes;
}

absl::Status MeasureSteps(GraphTimer& timer, const KernelsFlags& flags, const EngineConfig& config,
                          const Limits& limits, Json* result) {
  const NamedSteps steps = StepsToMeasure(flags);
  Backend& backend = timer.backend();
  RETURN_IF_ERROR(StepOps::BytesFor(backend, config, {}).status());
  ASSIGN_OR_RETURN(const MemoryInfo memory, backend.device().Memory());
  const FittingCases fitting =
      ChooseFitting(steps.size(), memory.free_bytes, [&](const std::vector<size_t>& indices) {
        return *StepOps::BytesFor(backend, config, ShapesOf(steps, indices));
      });
  for (const SkippedCase& skipped : fitting.skipped) {
    Skip(steps[skipped.index].first, skipped.needed_bytes, memory.free_bytes, result);
  }
  if (fitting.chosen.empty()) return absl::OkStatus();
  std::unique_ptr<StepOps> ops;
  {
    ShownProgress progress;
    auto created =
        StepOps::Create(timer, config, ShapesOf(steps, fitting.chosen), flags.seed, progress.get());
    if (Interrupted()) return absl::OkStatus();
    RETURN_IF_ERROR(created.status());
    ops = *std::move(created);
  }
  std::printf("%s, %s\n", ops->model().architecture.c_str(), DTypeName(ops->dtype()));
  for (const size_t i : fitting.chosen) {
    if (Interrupted()) break;
    ASSIGN_OR_RETURN(Json step, MeasureStep(timer, *ops, steps[i].second, steps[i].first, limits));
    // Of an interrupted step some operations are missing.
    if (!Interrupted()) (*result)["steps"].push_back(std::move(step));
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

absl::Status MeasureAttention(GraphTimer& timer, const KernelsFlags& flags, DType kv_dtype,
                              const Limits& limits, Json* result) {
  Device& device = timer.backend().device();
  PrintOpHeader("attention, 32/8 heads of 128, bfloat16, blocks of 16 (bytes: K and V once)");
  std::map<std::string, double> bf16_us;  // by name
  for (const AttentionShape& shape : WithCaches(AttentionShapes(device.info().kind), kv_dtype)) {
    if (Interrupted()) break;
    if (!absl::StrContains(shape.name, flags.cases)) continue;
    ASSIGN_OR_RETURN(const MemoryInfo memory, device.Memory());
    if (const int64_t needed = AttentionCase::BytesFor(timer, shape); needed > memory.free_bytes) {
      Skip(shape.name, needed, memory.free_bytes, result);
      if (shape.kv_dtype == DType::kBF16) bf16_us.clear();
      continue;
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<AttentionCase> attention,
                     AttentionCase::Create(timer, shape, flags.seed));
    ASSIGN_OR_RETURN(const std::vector<double> us, attention->RunUs());
    for (size_t i = 0; i < us.size(); ++i) {
      const std::string& name = attention->names()[i];
      ASSIGN_OR_RETURN(const double plan_us, attention->PlanUs(i));
      Json row =
          OpRow(name, shape.name, 1, us[i], attention->kv_bytes(), attention->flops(), limits);
      row["plan_us"] = plan_us;
      PrintOpRow(row);
      if (shape.kv_dtype == DType::kBF16) {
        bf16_us[name] = us[i];
      } else if (bf16_us.contains(name)) {
        row["time_over_bfloat16"] = us[i] / bf16_us[name];
        std::printf("%63s of bfloat16's time: %.3f\n", "", us[i] / bf16_us[name]);
      }
      (*result)["attention"].push_back(std::move(row));
    }
  }
  std::printf("\n");
  return absl::OkStatus();
}

// The figures that these rows stand for, where they were measured.
Json Figures(const Json& attention, const Limits& limits) {
  Json figures = {{"read_ceiling_tb_s", limits.bytes_per_s * 1e-12},
                  {"copy_ceiling_tb_s", limits.copied_bytes_per_s * 1e-12},
                  {"gemm_ceiling_tflops", limits.flops_per_s * 1e-12}};
  const auto value = [&](const char* shape, const char* key) {
    for (const Json& row : attention) {
      if (row["shape"] == shape && row["op"] == PathName(AttentionPath::kNative)) {
        return row[key].get<double>();
      }
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

// What was measured before something failed stays in `json`.
absl::Status Measure(const KernelsFlags& flags, const EngineConfig& config,
                     const ModelConfig& model, Backend& backend, Json* json) {
  ASSIGN_OR_RETURN(const std::unique_ptr<GraphTimer> timer, GraphTimer::Create(backend));
  Limits limits = {};
  ASSIGN_OR_RETURN(limits.bytes_per_s, ReadCeiling(*timer));
  ASSIGN_OR_RETURN(limits.flops_per_s, GemmCeiling(*timer));
  ASSIGN_OR_RETURN(limits.copied_bytes_per_s, CopyCeiling(*timer));
  std::printf(
      "limits: reads %.3f TB/s, multiplies bfloat16 matrices at %.2f TFLOP/s; a copy reads "
      "and writes %.3f TB/s\n\n",
      limits.bytes_per_s * 1e-12, limits.flops_per_s * 1e-12, limits.copied_bytes_per_s * 1e-12);
  absl::Status status;
  if (flags.only == "attention-table") {
    status = MeasureAttentionTable(*timer, flags.seed, &(*json)["attention_table"]);
  }
  if (flags.only == "cascade") {
    status = MeasureCascade(*timer, flags.seed, &(*json)["cascade"]);
  }
  if (flags.only == "ragged") {
    status = MeasureRagged(*timer, flags.seed, &(*json)["ragged"]);
  }
  if (flags.only == "sampling") {
    status = MeasureSampling(*timer, model.vocab_size, flags.seed, flags.cases, limits,
                             &(*json)["sampling_table"]);
  }
  if (flags.only == "gated-delta") {
    status = MeasureGatedDelta(*timer, flags.seed, flags.cases, limits, &(*json)["delta_table"]);
  }
  if (flags.only == "experts") {
    status = MeasureExperts(*timer, flags.seed, flags.cases, flags.rows, limits,
                            &(*json)["experts_table"]);
  }
  if (flags.only == "formats") {
    status =
        MeasureFormats(*timer, model, flags.seed, {.cases = flags.cases, .row_counts = flags.rows},
                       limits, &(*json)["format_table"]);
  }
  if (flags.only.empty() || flags.only == "attention") {
    status =
        MeasureAttention(*timer, flags, config.kv_cache_dtype.value_or(DType::kBF16), limits, json);
  }
  if ((flags.only.empty() || flags.only == "steps") && status.ok()) {
    status = MeasureSteps(*timer, flags, config, limits, json);
  }
  (*json)["interrupted"] = Interrupted();
  (*json)["figures"] = Figures((*json)["attention"], limits);
  if (Interrupted()) std::printf("interrupted; these are the results so far\n");
  std::printf("%s\n", (*json)["figures"].dump().c_str());
  return status;
}

// Before anything is measured.
absl::Status CheckContext(const KernelsFlags& flags, const ModelConfig& model) {
  const int64_t max_len = MaxSequenceLength(model);
  for (const auto& [flag, length] :
       {std::pair("--context", flags.context), std::pair("--prefill-len", flags.prefill_len)}) {
    if (length <= max_len) continue;
    return UsageError(absl::StrCat(flag, ": ", length, " is more than the model's context of ",
                                   max_len, " tokens"));
  }
  return absl::OkStatus();
}

// Before anything is measured.
absl::Status CheckCases(const KernelsFlags& flags, DeviceKind device, DType kv_dtype,
                        int64_t vocab_size) {
  if (!flags.rows.empty() && flags.only != "formats" && flags.only != "experts") {
    return UsageError("--rows is of --only formats and --only experts");
  }
  if (flags.cases.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  if (flags.only == "sampling") {
    names = SamplingCaseNames(device, vocab_size);
  } else if (flags.only == "gated-delta") {
    names = DeltaCaseNames(device);
  } else if (flags.only == "experts") {
    names = MixtureNames();
  } else if (flags.only == "formats") {
    names = FormatNames();
  } else if (flags.only.empty() || flags.only == "attention") {
    for (const AttentionShape& shape : WithCaches(AttentionShapes(device), kv_dtype)) {
      names.push_back(shape.name);
    }
  } else {
    return UsageError(
        "--cases chooses of attention, gated-delta, experts, formats and sampling, not of " +
        flags.only);
  }
  for (const std::string& name : names) {
    if (absl::StrContains(name, flags.cases)) return absl::OkStatus();
  }
  return UsageError(absl::StrCat("--cases: no case has '", flags.cases, "' in its name: there are ",
                                 absl::StrJoin(names, "; ")));
}

absl::Status Kernels(KernelsFlags& flags) {
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const BenchEngineConfig bench,
                   MakeEngineConfig(flags.engine, /*progress=*/nullptr));
  const auto model = LoadModelConfig(bench.config.model_folder);
  if (!model.ok()) return StartFailure(model.status());
  if (flags.only.empty() || flags.only == "steps") RETURN_IF_ERROR(CheckContext(flags, *model));
  const auto backend = OpenBackend(bench.config.backend_options());
  if (!backend.ok()) return StartFailure(backend.status());
  const DType kv_dtype = bench.config.kv_cache_dtype.value_or(DType::kBF16);
  RETURN_IF_ERROR(CheckCases(flags, (*backend)->device().info().kind, kv_dtype, model->vocab_size));
  flags.seed = ChooseSeed(flags.given_seed);
  const std::string& device = (*backend)->device().info().name;
  const std::string model_text = model->architecture +
                                 (flags.engine.shape.empty() ? "" : ", " + flags.engine.shape) +
                                 ", random weights";
  Print({.command = "kernels",
         .what = "each operation of a model's steps, and attention, against the device's limits",
         .lines = {{"model", model_text}, {"device", device}, {"seed", SeedText(flags.seed)}}});
  Json json = RunJson("kernels");
  json["model"] = model_text;
  json["device"] = device;
  json["seed"] = flags.seed;
  for (const char* list :
       {"steps", "attention", "attention_table", "cascade", "ragged", "format_table",
        "sampling_table", "delta_table", "experts_table", "skipped"}) {
    json[list] = Json::array();
  }
  const InterruptibleRun interruptible;
  absl::Status status = Measure(flags, bench.config, *model, **backend, &json);
  if (!status.ok()) status = StartFailure(status);
  if (json_file != nullptr) status.Update(json_file->Write(json.dump(2) + "\n"));
  return status;
}

}  // namespace

Command AddKernels(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "kernels", "Each operation of a model's steps against the device's limits");
  command->footer(
      "Cases that do not fit the free memory are skipped by name.\n\n"
      "Examples:\n"
      "  quire-bench kernels --shape qwen3-0.6b\n"
      "  quire-bench kernels --only attention --kv-cache-dtype fp8_e4m3 --cases prefill\n"
      "  quire-bench kernels --only attention-table --device cuda\n"
      "  quire-bench kernels --only formats --shape llama-3-8b --cases fp8 --rows 1,64\n"
      "  quire-bench kernels --only sampling --shape llama-3-8b --cases greedy\n"
      "  quire-bench kernels --only steps --batch-sizes 1,16 --context 512 --json kernels.json");
  const auto flags = std::make_shared<KernelsFlags>();
  command->add_option("--batch-sizes", flags->batch_sizes, "Sequences of the decode steps")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--context", flags->context, "Tokens of each decoding sequence")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--prefill-len", flags->prefill_len, "Tokens of the prefill step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option(
          "--only", flags->only,
          "Only a model's steps, or only attention, or instead the paths side by side, which "
          "--attention-backend auto follows, or decodes that share a prefix, or prompts whose new "
          "tokens are read where a gemm leaves them, or the layers' gemms by the weights' format, "
          "or sampling of the model's vocabulary, or gated delta nets, or "
          "mixtures of experts")
      ->check(CLI::IsMember({"steps", "attention", "attention-table", "cascade", "ragged",
                             "formats", "sampling", "gated-delta", "experts"}));
  command
      ->add_option("--cases", flags->cases,
                   "Of attention, gated-delta, experts, formats and sampling, only what has this "
                   "text in its name")
      ->type_name("TEXT");
  command
      ->add_option("--rows", flags->rows,
                   "Of formats and experts, the numbers of rows that weights are multiplied with "
                   "(default: from 1 to 64, on a GPU to some thousand)")
      ->delimiter(',')
      ->check(CLI::Range(1, 16384));
  AddJsonFlag(*command, &flags->json_file);
  AddSeedFlag(*command, &flags->given_seed);
  AddEngineFlags(*command, &flags->engine);
  return [flags] { return Finish(Kernels(*flags)); };
}

}  // namespace quire::bench
