// The tensors of a checkpoint of random weights: the list of them, by config.json and its
// quantization_config, and the contents of their rows. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/config/model_config.h"
#include "nlohmann/json_fwd.hpp"

namespace quire::bench {

enum class TensorContent : uint8_t {
  kRandomMatrix,  // bfloat16: rows of a weight
  kRandomCodes,   // codes of a quantized weight: any bytes that are numbers
  kConstant,      // one element again and again
  kGroupIndex,    // int32: the group of each column
};

struct FileTensor {
  std::string name;
  std::string dtype;  // as safetensors names it
  std::vector<int64_t> shape;
  TensorContent content = TensorContent::kConstant;
  // random tensors: id of the fused weight; the rows here are its rows from first_row on
  uint64_t tensor_id = 0;
  int64_t first_row = 0;
  std::string element = {};   // kConstant: the bytes of one element, or of several
  bool is_float8 = false;     // kRandomCodes: the codes' bytes may be NaN
  int64_t group_columns = 0;  // kGroupIndex

  int64_t row_size() const { return shape.empty() ? 1 : shape.back(); }
  int64_t num_rows() const;  // all dimensions but the last
  int64_t row_bytes() const;
  int64_t bytes() const { return num_rows() * row_bytes(); }
};

// In the order of Weights::Load, which numbers the matrices. INVALID_ARGUMENT when a weight does
// not fit its format.
absl::StatusOr<std::vector<FileTensor>> ListTensors(const ModelConfig& config);

// Writes a row of the tensor to `out`: row_bytes() bytes.
void FillRow(const FileTensor& tensor, uint64_t seed, int64_t row, char* out);

// Names of the formats in which a checkpoint can be written, and the quantization_config of a
// format. It leaves out the modules that published checkpoints of such a model have in 16 bits.
std::vector<std::string> CheckpointFormatNames();
nlohmann::ordered_json QuantizationConfigOf(const std::string& format, const ModelConfig& config);

}  // namespace quire::bench
