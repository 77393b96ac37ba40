// quire-bench kernels: time of each operation of a model's steps, and of attention over well-known
// shapes, against the limits measured in the same run.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine/engine_run.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/op_table.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr const KernelTable* kTables[] = {
    &kAttentionTable, &kStepTable,   &kAttentionPathTable, &kCascadeTable,    &kRaggedTable,
    &kLinearTable,    &kFormatTable, &kSamplingTable,      &kGatedDeltaTable, &kExpertsTable};

struct KernelsFlags {
  EngineFlags engine;
  TableRequest request = {.batch_sizes = {1, 8, 64, 256}, .context = 1024, .prefill_len = 2048};
  std::string only;  // empty: attention and steps
  std::optional<uint64_t> given_seed;
  std::optional<std::string> json_file;

  bool HasTable(const KernelTable& table) const {
    if (only.empty()) return &table == &kAttentionTable || &table == &kStepTable;
    return only == table.name;
  }
};

// The names of those tables that `has` holds of: "a, b and c".
std::string TablesThat(bool (*has)(const KernelTable& table)) {
  std::vector<std::string> names;
  for (const KernelTable* table : kTables) {
    if (has(*table)) names.emplace_back(table->name);
  }
  const std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

std::string TablesWithCases() {
  return TablesThat([](const KernelTable& table) { return table.case_names != nullptr; });
}

std::string TablesWithRows() {
  return TablesThat([](const KernelTable& table) { return table.has_rows; });
}

// Rows that were measured before something failed stay in `json`.
absl::Status Measure(const KernelsFlags& flags, TableRequest request, Backend& backend,
                     Json* json) {
  ASSIGN_OR_RETURN(const std::unique_ptr<GraphTimer> timer, GraphTimer::Create(backend));
  Limits& limits = request.limits;
  ASSIGN_OR_RETURN(limits.bytes_per_s, ReadCeiling(*timer));
  ASSIGN_OR_RETURN(limits.flops_per_s, GemmCeiling(*timer));
  ASSIGN_OR_RETURN(limits.copied_bytes_per_s, CopyCeiling(*timer));
  std::printf(
      "limits: reads %.3f TB/s, multiplies bfloat16 matrices at %.2f TFLOP/s; a copy reads "
      "and writes %.3f TB/s\n\n",
      limits.bytes_per_s * 1e-12, limits.flops_per_s * 1e-12, limits.copied_bytes_per_s * 1e-12);
  (*json)["figures"] = {{"read_ceiling_tb_s", limits.bytes_per_s * 1e-12},
                        {"copy_ceiling_tb_s", limits.copied_bytes_per_s * 1e-12},
                        {"gemm_ceiling_tflops", limits.flops_per_s * 1e-12}};
  absl::Status status;
  for (const KernelTable* table : kTables) {
    if (flags.HasTable(*table) && status.ok()) status = table->measure(*timer, request, json);
  }
  (*json)["interrupted"] = Interrupted();
  if (Interrupted()) std::printf("interrupted; these are the results so far\n");
  std::printf("%s\n", (*json)["figures"].dump().c_str());
  return status;
}

// Before anything is measured.
absl::Status CheckContext(const TableRequest& request, const ModelConfig& model) {
  const int64_t max_len = MaxSequenceLength(model);
  for (const auto& [flag, length] :
       {std::pair("--context", request.context), std::pair("--prefill-len", request.prefill_len)}) {
    if (length <= max_len) continue;
    return UsageError(absl::StrCat(flag, ": ", length, " is more than the model's context of ",
                                   max_len, " tokens"));
  }
  return absl::OkStatus();
}

// Before anything is measured.
absl::Status CheckCases(const KernelsFlags& flags, DeviceKind device) {
  const TableRequest& request = flags.request;
  std::vector<std::string> names;
  bool has_rows = false;
  for (const KernelTable* table : kTables) {
    if (!flags.HasTable(*table)) continue;
    has_rows = has_rows || table->has_rows;
    if (table->case_names == nullptr) continue;
    for (std::string& name : table->case_names(device, *request.config, *request.model))
      names.push_back(std::move(name));
  }
  if (!request.row_counts.empty() && !has_rows) {
    return UsageError(absl::StrCat("--rows is of --only ", TablesWithRows()));
  }
  if (request.all_candidates && (flags.only != kLinearTable.name || device != DeviceKind::kCuda)) {
    return UsageError("--candidates is of --only linear on a GPU");
  }
  if (request.cases.empty()) return absl::OkStatus();
  if (names.empty()) {
    return UsageError(
        absl::StrCat("--cases chooses of ", TablesWithCases(), ", not of ", flags.only));
  }
  for (const std::string& name : names) {
    if (absl::StrContains(name, request.cases)) return absl::OkStatus();
  }
  return UsageError(absl::StrCat("--cases: no case has '", request.cases,
                                 "' in its name: there are ", absl::StrJoin(names, "; ")));
}

// Prints the header before anything is measured, and returns it.
Json HeaderOf(const std::string& model, const std::string& device, uint64_t seed) {
  Print({.command = "kernels",
         .what = "each operation of a model's steps, and attention, against the device's limits",
         .lines = {{"model", model}, {"device", device}, {"seed", SeedText(seed)}}});
  Json json = RunJson("kernels");
  json["model"] = model;
  json["device"] = device;
  json["seed"] = seed;
  for (const KernelTable* table : kTables) json[table->list] = Json::array();
  json["skipped"] = Json::array();
  return json;
}

absl::Status Kernels(KernelsFlags& flags) {
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const BenchEngineConfig bench,
                   MakeEngineConfig(flags.engine, /*progress=*/nullptr));
  const auto model = LoadModelConfig(bench.config.model_folder);
  if (!model.ok()) return StartFailure(model.status());
  if (flags.HasTable(kStepTable)) RETURN_IF_ERROR(CheckContext(flags.request, *model));
  const auto backend = OpenBackend(bench.config.backend_options());
  if (!backend.ok()) return StartFailure(backend.status());
  TableRequest& request = flags.request;
  request.config = &bench.config;
  request.model = &*model;
  RETURN_IF_ERROR(CheckCases(flags, (*backend)->device().info().kind));
  request.seed = ChooseSeed(flags.given_seed);
  const std::string model_text = model->architecture +
                                 (flags.engine.shape.empty() ? "" : ", " + flags.engine.shape) +
                                 ", random weights";
  Json json = HeaderOf(model_text, (*backend)->device().info().name, request.seed);
  const InterruptibleRun interruptible;
  absl::Status status = Measure(flags, request, **backend, &json);
  if (!status.ok()) status = StartFailure(status);
  status.Update(WriteJson(json, json_file.get()));
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
      "  quire-bench kernels --only linear --shape qwen3-0.6b --device cpu --rows 1,16\n"
      "  quire-bench kernels --only sampling --shape llama-3-8b --cases greedy\n"
      "  quire-bench kernels --only steps --batch-sizes 1,16 --context 512 --json kernels.json");
  const auto flags = std::make_shared<KernelsFlags>();
  TableRequest& request = flags->request;
  FlagGroup add(*command);
  add.Count("--batch-sizes", &request.batch_sizes, 1, 4096, "Sequences of the decode steps")
      ->delimiter(',')
      ->capture_default_str();
  add.Count("--context", &request.context, 1, 1 << 20, "Tokens of each decoding sequence")
      ->capture_default_str();
  add.Count("--prefill-len", &request.prefill_len, 1, 1 << 20, "Tokens of the prefill step")
      ->capture_default_str();
  std::vector<std::string> names;
  std::string about = "Only this, in place of attention and steps:";
  for (const KernelTable* table : kTables) {
    names.emplace_back(table->name);
    absl::StrAppend(&about, "\n", table->name, ": ", table->about);
  }
  add.OneOf("--only", &flags->only, names, about);
  add.Text("--cases", &request.cases, "TEXT",
           absl::StrCat("Of ", TablesWithCases(), ", only what has this text in its name"));
  add.Count("--rows", &request.row_counts, 1, 16384,
            absl::StrCat("Of ", TablesWithRows(),
                         ", the numbers of rows that weights are multiplied with (default: from 1 "
                         "to 64, of linear to 512, on a GPU to some thousand)"))
      ->delimiter(',');
  add.Switch("--candidates", &request.all_candidates,
             "Of linear on a GPU, also each kernel that can compute a gemm");
  add.Json(&flags->json_file);
  AddSeedFlag(*command, &flags->given_seed);
  AddEngineFlags(*command, &flags->engine);
  return [flags] { return Finish(Kernels(*flags)); };
}

}  // namespace quire::bench
