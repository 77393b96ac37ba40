// QuantizedModule: a module of a quantized checkpoint, read in the form that a backend keeps: codes
// with their scales and zero points, or, for a backend without gemms for the format, the float32
// values of the codes. Used while loading; by any number of threads, each with its own modules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/quantization/module_tensors.h"
#include "engine/model/quantization/unpack.h"
#include "kernels/weight_store.h"

namespace quire {

// How the columns of a weight belong to groups, according to its tensors. The configuration also
// names an order, but not every checkpoint keeps that promise.
struct ColumnOrder {
  bool even = true;  // groups have one size; otherwise codes cannot be kept
  // The columns sorted by group. Empty if they are sorted already, or cannot be sorted so that
  // groups of one size follow one another.
  std::vector<int32_t> columns;

  bool operator==(const ColumnOrder&) const = default;
};

class QuantizedModule {
 public:
  // INVALID_ARGUMENT, naming the tensor, if the checkpoint's tensors do not fit. If modules are
  // stacked, it finds this one.
  static absl::StatusOr<QuantizedModule> Find(const WeightScheme& scheme, const ModuleShape& shape,
                                              const std::string& name, const Checkpoint& checkpoint,
                                              int64_t expert = 0);

  // Names of its tensors.
  std::vector<std::string> TensorNames() const;
  int64_t StoredBytes() const;  // of all of them

  // A function that says where to write `num_rows` rows of `columns` float32, and a function that
  // uses them when they are there.
  using Target = absl::FunctionRef<absl::StatusOr<float*>()>;
  using Take = absl::FunctionRef<absl::Status(int64_t first_row, int64_t num_rows)>;

  // Reads the module, at most `max_rows` rows at a time, in their order. INVALID_ARGUMENT, naming
  // the tensor, for scales and codes that are not numbers, and for groups that do not exist.
  absl::Status Read(int64_t max_rows, Target target, Take take) const;

  // The same as codes in a format of DeviceFormatOf, which is ordered if the columns are.
  // INVALID_ARGUMENT also if the columns are not as ReadOrder said.
  using TakeCodes = absl::FunctionRef<absl::Status(int64_t first_row, const QuantizedRows& rows)>;
  absl::Status ReadCodes(const WeightFormat& format, int64_t max_rows, TakeCodes take) const;

  // Whether the module has a tensor that says how its columns are ordered.
  bool HasOrder() const;
  absl::StatusOr<ColumnOrder> ReadOrder() const;

 private:
  QuantizedModule(const WeightScheme& scheme, const ModuleShape& shape,
                  const ModuleTensors& tensors, int64_t expert)
      : scheme_(scheme), shape_(shape), tensors_(tensors), expert_(expert) {}

  // The part of a tensor that belongs to this module.
  int64_t SizeOf(const Checkpoint::Entry& entry) const;
  // `bytes` bytes of that part from `offset`, in `*buffer`.
  absl::StatusOr<PlaneBytes> ReadPlane(const Checkpoint::Entry& entry, int64_t offset,
                                       int64_t bytes, std::vector<uint8_t>* buffer) const;
  absl::StatusOr<WeightGroups> ReadGroupPlanes() const;
  // Whether the codes lie in the file as in QuantizedRows.
  bool HasPackedCodes() const;
  // Calls `use` with the codes of some rows at a time, which it may change: a byte each, or as they
  // lie in the file.
  using UseCodes = absl::FunctionRef<absl::Status(const WeightRange& range, uint8_t* codes)>;
  absl::Status ForEachPiece(int64_t max_rows, bool unpacks, UseCodes use) const;

  WeightScheme scheme_;
  ModuleShape shape_;
  ModuleTensors tensors_;
  int64_t expert_;
};

}  // namespace quire
