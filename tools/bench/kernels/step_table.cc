// Each operation of a model's steps, on its own tensors.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/engine/memory_fit.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/op_table.h"
#include "tools/bench/kernels/step_ops.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// Calls of one kind in one step.
using OpGroup = std::vector<RecordedOp>;

std::vector<OpGroup> GroupAlike(std::vector<RecordedOp> ops) {
  std::vector<OpGroup> groups;
  for (RecordedOp& op : ops) {
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const OpGroup& group) {
      return group[0].name == op.name && group[0].shape == op.shape;
    });
    if (alike != groups.end()) {
      alike->push_back(std::move(op));
    } else {
      groups.emplace_back().push_back(std::move(op));
    }
  }
  return groups;
}

// The calls of all layers in turn, which use weights and caches of their own: cold as in the step.
absl::StatusOr<double> GroupUs(GraphTimer& timer, const OpGroup& group, const Progress& progress) {
  constexpr int kEnoughCalls = 64;
  // Only while this operation is measured: the table is printed in between.
  const ProgressPrinter printer(progress, PrintProgressLine, DrawProgress);
  const auto num_layers = static_cast<int>(group.size());
  const auto enqueue = [&](int i) { group[i % num_layers].run(timer.stream()); };
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
    const RecordedOp& op = group[0];
    const size_t count = group.size();
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

NamedSteps StepsToMeasure(const TableRequest& request) {
  NamedSteps steps;
  for (const int32_t batch : request.batch_sizes) {
    steps.push_back({absl::StrCat("decode, batch ", batch, ", context ", request.context),
                     {.num_seqs = batch, .query_len = 1, .seq_len = request.context}});
  }
  steps.push_back(
      {absl::StrCat("prefill of ", request.prefill_len),
       {.num_seqs = 1, .query_len = request.prefill_len, .seq_len = request.prefill_len}});
  return steps;
}

std::vector<StepShape> ShapesOf(const NamedSteps& steps, const std::vector<size_t>& indices) {
  std::vector<StepShape> shapes;
  shapes.reserve(indices.size());
  for (const size_t i : indices) shapes.push_back(steps[i].second);
  return shapes;
}

absl::Status MeasureSteps(GraphTimer& timer, const TableRequest& request, Json* result) {
  const EngineConfig& config = *request.config;
  const NamedSteps steps = StepsToMeasure(request);
  Backend& backend = timer.backend();
  ASSIGN_OR_RETURN(const StartPlan plan, StepOps::Plan(backend, config));
  ASSIGN_OR_RETURN(const MemoryInfo memory, backend.device().Memory());
  const FittingCases fitting =
      ChooseFitting(steps.size(), memory.free_bytes, [&](const std::vector<size_t>& indices) {
        return StepOps::BytesFor(plan, ShapesOf(steps, indices));
      });
  for (const SkippedCase& skipped : fitting.skipped) {
    Skip(steps[skipped.index].first, skipped.needed_bytes, memory.free_bytes, result);
  }
  if (fitting.chosen.empty()) return absl::OkStatus();
  std::unique_ptr<StepOps> ops;
  {
    ShownProgress progress;
    auto created = StepOps::Create(timer, config, plan, ShapesOf(steps, fitting.chosen),
                                   request.seed, progress.get());
    if (Interrupted()) return absl::OkStatus();
    RETURN_IF_ERROR(created.status());
    ops = *std::move(created);
  }
  std::printf("%s, %s\n", ops->model().architecture.c_str(), DTypeName(ops->dtype()));
  for (const size_t i : fitting.chosen) {
    if (Interrupted()) break;
    ASSIGN_OR_RETURN(Json step,
                     MeasureStep(timer, *ops, steps[i].second, steps[i].first, request.limits));
    // An interrupted step lacks some operations.
    if (!Interrupted()) (*result)[kStepTable.list].push_back(std::move(step));
  }
  return absl::OkStatus();
}

}  // namespace

constinit const KernelTable kStepTable = {.name = "steps",
                                          .about = "each operation of a model's steps",
                                          .list = "steps",
                                          .measure = MeasureSteps};

}  // namespace quire::bench
