// A model's gemms, the head's too, by the weights' type and the number of rows, beside reading the
// weight and beside another library's gemm of the same shape.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/gemm_case.h"
#include "tools/bench/kernels/gemm_peer.h"
#include "tools/bench/kernels/op_table.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

struct NamedKind {
  const char* name;
  GemmKind kind;
};

std::vector<NamedKind> KindsFor(DeviceKind device) {
  std::vector<NamedKind> kinds = {{"bfloat16", {}}};
  if (device == DeviceKind::kCpu) {
    kinds.push_back({"compressed", {.is_sealed = true}});
    kinds.push_back({"float32", {.dtype = DType::kF32}});
  }
  return kinds;
}

// Gates and ups without their activation, which no other library has.
std::vector<GemmShape> LinearShapes(const ModelConfig& model) {
  std::vector<GemmShape> shapes = GemmShapesOf(model);
  for (GemmShape& shape : shapes) shape.gated = shape.normed = false;
  shapes.push_back(
      {.out_features = model.vocab_size, .in_features = model.hidden_size, .is_head = true});
  return shapes;
}

std::vector<int64_t> LinearRows(const TableRequest& request, const GemmShape& shape) {
  constexpr int64_t kMostHeadRows = 64;  // logits are made of few rows
  std::vector<int64_t> rows = request.row_counts;
  if (rows.empty()) rows = {1, 2, 8, 16, 64, 512};
  if (shape.is_head) std::erase_if(rows, [](int64_t count) { return count > kMostHeadRows; });
  return rows;
}

// One row of the table; the peer takes turns with our own.
absl::Status MeasureLinearRow(GemmCase& gemm, GemmPeer* peer, const std::string& kind,
                              int64_t num_rows, const TableRequest& request, Json* rows) {
  ASSIGN_OR_RETURN(double us, gemm.Us(num_rows));
  GemmPeer::Result other = {"", 0};
  if (peer != nullptr) {
    ASSIGN_OR_RETURN(other, peer->Measure(gemm, num_rows));
    ASSIGN_OR_RETURN(const double after_us, gemm.Us(num_rows));
    us = std::min(us, after_us);
  }
  const std::string shape = absl::StrCat(gemm.shape().Text(), ", ", Counted(num_rows, "row"));
  Json row = OpRow(kind, shape, 1, us, static_cast<double>(gemm.weight_bytes()),
                   gemm.Flops(num_rows), request.limits);
  PrintOpRow(row);
  row["rows"] = num_rows;
  if (peer != nullptr) {
    row["peer"] = other.name;
    row["peer_us"] = other.us;
    row["times_as_fast"] = other.us / us;
    std::printf("%63s %s %.2f us: %.2f times as fast\n", "", other.name.c_str(), other.us,
                other.us / us);
  }
  if (peer != nullptr && request.all_candidates) {
    ASSIGN_OR_RETURN(const auto candidates, peer->MeasureCandidates(gemm, num_rows));
    for (const GemmPeer::Result& one : candidates) {
      row["candidates"].push_back({{"name", one.name}, {"us", one.us}});
      std::printf("%63s %-24s %9.2f us\n", "", one.name.c_str(), one.us);
    }
  }
  rows->push_back(std::move(row));
  return absl::OkStatus();
}

absl::Status MeasureLinear(GraphTimer& timer, const TableRequest& request, Json* result) {
  ASSIGN_OR_RETURN(const std::unique_ptr<GemmPeer> peer, GemmPeer::Create(timer));
  PrintOpHeader(absl::StrCat("gemms, cold weights (bytes: the weight once)",
                             peer == nullptr ? "; no other library to compare with" : ""));
  for (const NamedKind& kind : KindsFor(timer.device_kind())) {
    if (!absl::StrContains(kind.name, request.cases)) continue;
    for (const GemmShape& shape : LinearShapes(*request.model)) {
      const std::vector<int64_t> row_counts = LinearRows(request, shape);
      if (row_counts.empty()) continue;
      ASSIGN_OR_RETURN(
          const auto gemm,
          GemmCase::Create(timer, shape, kind.kind,
                           *std::max_element(row_counts.begin(), row_counts.end()), request.seed));
      if (kind.kind.is_sealed && !gemm->is_compressed()) continue;
      for (const int64_t num_rows : row_counts) {
        if (Interrupted()) return absl::OkStatus();
        RETURN_IF_ERROR(MeasureLinearRow(*gemm, peer.get(), kind.name, num_rows, request,
                                         &(*result)[kLinearTable.list]));
      }
    }
  }
  std::printf("\n");
  return absl::OkStatus();
}

std::vector<std::string> LinearNames(DeviceKind device, const EngineConfig&, const ModelConfig&) {
  return NamesOf(KindsFor(device));
}

}  // namespace

constinit const KernelTable kLinearTable = {
    .name = "linear",
    .about =
        "the model's gemms beside another library's: cuBLASLt's on a GPU, else oneDNN's, where "
        "the build has it",
    .list = "linear_table",
    .case_names = LinearNames,
    .has_rows = true,
    .measure = MeasureLinear};

}  // namespace quire::bench
