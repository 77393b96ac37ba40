// Prints what the quantized weights of a folder mean to us, for made_checkpoints_test:
//
//   weights_tool FOLDER FILE
//
// A line "NAME ROWS COLUMNS" for each quantized module; FILE gets their values in this order, each
// module's row by row, float32.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/model/config/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/model/weights/device_format.h"
#include "engine/model/weights/quantized_module.h"
#include "engine/model/weights/tensor_check.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

absl::Status WriteModule(const QuantizedModule& module, const ModuleShape& shape,
                         std::ofstream& file) {
  std::vector<float> values(shape.rows * shape.columns);
  return module.Read(
      shape.rows, [&]() -> absl::StatusOr<float*> { return values.data(); },
      [&](int64_t, int64_t num_rows) {
        file.write(reinterpret_cast<const char*>(values.data()),
                   static_cast<std::streamsize>(num_rows * shape.columns * sizeof(float)));
        return file ? absl::OkStatus() : absl::UnavailableError("cannot write");
      });
}

absl::Status Run(const std::string& folder, const std::string& out) {
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(folder));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(folder));
  std::ofstream file(out, std::ios::binary);
  ModelWeights weights;
  ASSIGN_OR_RETURN(const TextPart part, FindTextPart(checkpoint));
  WeightPlan plan = PlanWeights(config, part, &weights);
  ChooseParts(checkpoint, &plan);
  RETURN_IF_ERROR(SetSchemes(config.quantization, &plan));
  for (const MatrixPlan& matrix : plan.matrices) {
    if (!matrix.scheme.quantized()) continue;
    for (const WeightPart& part : matrix.parts) {
      const ModuleShape shape = {.rows = part.num_rows, .columns = matrix.weight->in_features};
      const std::string name = ModuleOf(part);
      ASSIGN_OR_RETURN(const QuantizedModule module,
                       QuantizedModule::Find(matrix.scheme, shape, name, checkpoint));
      RETURN_IF_ERROR(WriteModule(module, shape, file));
      std::printf("%s %lld %lld\n", name.c_str(), static_cast<long long>(shape.rows),
                  static_cast<long long>(shape.columns));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: weights_tool FOLDER FILE\n");
    return 64;
  }
  const absl::Status status = quire::Run(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 66;
}
