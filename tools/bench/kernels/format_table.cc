#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/gemm_case.h"
#include "tools/bench/kernels/op_table.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

struct NamedFormat {
  const char* name;
  LinearFormat format;
};

const std::vector<NamedFormat>& Formats() {
  using enum WeightValue;
  static const auto* const formats = new std::vector<NamedFormat>{
      {"fp8-channel", {{.value = kFloat8}, {.value = ActivationValue::kFloat8}}},
      {"fp8-block",
       {{.value = kFloat8, .group_columns = 128}, {.value = ActivationValue::kFloat8}}},
      {"awq", {{.value = kInt4, .group_columns = 128, .zero_points = true}}},
      {"gptq", {{.value = kInt4, .group_columns = 128}}},
      {"gptq-group32", {{.value = kInt4, .group_columns = 32}}},
      {"int8", {{.value = kInt8}, {.value = ActivationValue::kInt8}}},
      {"int8-group128", {{.value = kInt8, .group_columns = 128}}},
      {"mxfp4", {{.value = kFloat4, .scale = ScaleValue::kPowerOfTwo, .group_columns = 32}}},
      {"nvfp4", {{.value = kFloat4, .scale = ScaleValue::kFloat8, .group_columns = 16}}}};
  return *formats;
}

std::vector<int64_t> FormatRows(const TableRequest& request, DeviceKind device) {
  if (!request.row_counts.empty()) return request.row_counts;
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 32, 64};
  if (device == DeviceKind::kCuda) rows.insert(rows.end(), {128, 256, 512, 1024, 2048, 4096});
  return rows;
}

// In turns, because a machine's speed drifts.
absl::Status MeasureRow(GemmCase& plain, GemmCase& quantized, const std::string& format,
                        int64_t num_rows, const Limits& limits, Json* rows) {
  ASSIGN_OR_RETURN(const double before_us, plain.Us(num_rows));
  ASSIGN_OR_RETURN(const double us, quantized.Us(num_rows));
  ASSIGN_OR_RETURN(const double after_us, plain.Us(num_rows));
  const double plain_us = (before_us + after_us) / 2;
  const double read_us = limits.Us(static_cast<double>(quantized.weight_bytes()), 0);
  const double tflops = quantized.Flops(num_rows) / us * 1e-6;
  const std::string shape = quantized.shape().Text();
  std::printf(
      "%-28s %-13s %5d rows %9.1f us, bfloat16 %9.1f us: %5.2f times as fast; reading "
      "%.3f of it; %.0f TFLOP/s\n",
      shape.c_str(), format.c_str(), static_cast<int>(num_rows), us, plain_us, plain_us / us,
      read_us / us, tflops);
  rows->push_back({{"shape", shape},
                   {"format", format},
                   {"rows", num_rows},
                   {"us", us},
                   {"bfloat16_us", plain_us},
                   {"speedup", plain_us / us},
                   {"share_of_reading", read_us / us},
                   {"tflops", tflops}});
  return absl::OkStatus();
}

absl::Status MeasureFormatsOf(GraphTimer& timer, const GemmShape& shape,
                              const TableRequest& request, Json* rows) {
  Backend& backend = timer.backend();
  const std::vector<int64_t> row_counts = FormatRows(request, timer.device_kind());
  const int64_t max_rows = *std::max_element(row_counts.begin(), row_counts.end());
  ASSIGN_OR_RETURN(const auto plain, GemmCase::Create(timer, shape, {}, max_rows, request.seed));
  for (const NamedFormat& format : Formats()) {
    if (!absl::StrContains(format.name, request.cases)) continue;
    const LinearFormat kept = backend.weight_store().FormatFor(format.format, DType::kBF16, false);
    if (kept.weight != format.format.weight) continue;  // the device does not keep it
    ASSIGN_OR_RETURN(const auto quantized,
                     GemmCase::Create(timer, shape, {.format = kept}, max_rows, request.seed));
    for (const int64_t num_rows : row_counts) {
      if (Interrupted()) return absl::OkStatus();
      RETURN_IF_ERROR(MeasureRow(*plain, *quantized, format.name, num_rows, request.limits, rows));
    }
  }
  return absl::OkStatus();
}

absl::Status MeasureFormats(GraphTimer& timer, const TableRequest& request, Json* result) {
  for (const GemmShape& shape : GemmShapesOf(*request.model)) {
    RETURN_IF_ERROR(MeasureFormatsOf(timer, shape, request, &(*result)[kFormatTable.list]));
  }
  std::printf("\n");
  return absl::OkStatus();
}

std::vector<std::string> FormatNames(DeviceKind, const EngineConfig&, const ModelConfig&) {
  return NamesOf(Formats());
}

}  // namespace

constinit const KernelTable kFormatTable = {
    .name = "formats",
    .about = "the layers' gemms by the weights' format, beside bfloat16",
    .list = "format_table",
    .case_names = FormatNames,
    .has_rows = true,
    .measure = MeasureFormats};

}  // namespace quire::bench
