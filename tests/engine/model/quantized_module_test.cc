// What a backend keeps of a quantized module is what its values are: the golden modules of
// quantization/, brought to a device as codes and read back by multiplying them with unit vectors.
#include "engine/model/weights/quantized_module.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/quantization/quantization_config.h"
#include "engine/model/weights/device_format.h"
#include "kernels/backend.h"
#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr char kFolder[] = "tests/engine/model/quantization/golden";
constexpr char kModule[] = "model.layers.0.mlp.experts.0.up_proj";
constexpr int64_t kMaxRows = 3;

class QuantizedModuleTest : public testing::Test {
 protected:
  QuantizedModuleTest()
      : backend_(OpenBackend({}).value()), stream_(backend_->device().CreateStream().value()) {}

  static std::vector<float> ReadValues(const QuantizedModule& module, const ModuleShape& shape) {
    std::vector<float> values(shape.rows * shape.columns), piece(kMaxRows * shape.columns);
    const absl::Status status = module.Read(
        kMaxRows, [&]() -> absl::StatusOr<float*> { return piece.data(); },
        [&](int64_t first_row, int64_t num_rows) {
          std::copy_n(piece.begin(), num_rows * shape.columns,
                      values.begin() + first_row * shape.columns);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }

  std::vector<float> ReadThroughDevice(const QuantizedModule& module, const ModuleShape& shape,
                                       const WeightFormat& format) {
    LinearWeight weight{.format = format,
                        .dtype = DType::kF32,
                        .out_features = shape.rows,
                        .in_features = shape.columns};
    const DeviceBuffer memory = Allocate(backend_->weight_store().BytesOf(weight));
    weight.data = memory.data();
    const auto loader = backend_->weight_store().CreateLoader(0).value();
    const absl::Status status =
        module.ReadCodes(format, kMaxRows, [&](int64_t first_row, const QuantizedRows& rows) {
          return loader->LoadQuantized(weight, first_row, rows);
        });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(loader->Finish().ok());
    const DeviceBuffer x = Allocate(shape.columns * shape.columns * sizeof(float));
    std::memset(x.data(), 0, x.size_bytes());
    for (int64_t i = 0; i < shape.columns; ++i) x.as<float>()[i * shape.columns + i] = 1;
    const DeviceBuffer out = Allocate(shape.columns * shape.rows * sizeof(float));
    backend_->ops().Linear(*stream_,
                           {.x = Tensor(x.data(), DType::kF32, {shape.columns, shape.columns}),
                            .weight = &weight,
                            .out = Tensor(out.data(), DType::kF32, {shape.columns, shape.rows})});
    EXPECT_TRUE(stream_->Synchronize().ok());
    std::vector<float> values(shape.rows * shape.columns);
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t column = 0; column < shape.columns; ++column) {
        values[row * shape.columns + column] = out.as<float>()[column * shape.rows + row];
      }
    }
    return values;
  }

  DeviceBuffer Allocate(int64_t bytes) { return backend_->device().Allocate(bytes).value(); }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(QuantizedModuleTest, CodesOnADeviceAreTheValues) {
  const TempFolder folder;
  int num_ordered = 0, num_compared = 0;
  for (const json& golden : json::parse(ReadWholeFile(std::string(kFolder) + "/cases.json"))) {
    if (golden.contains("experts")) continue;
    const auto name = golden["name"].get<std::string>();
    SCOPED_TRACE(name);
    const auto to = std::filesystem::path(folder.path()) / "model.safetensors";
    std::filesystem::copy_file(std::string(kFolder) + "/" + name + ".safetensors", to,
                               std::filesystem::copy_options::overwrite_existing);
    const auto checkpoint = Checkpoint::Open(folder.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const auto config = QuantizationConfig::Parse({.config = golden["config"].dump()});
    const std::string module_name = golden.value("module", kModule);
    const auto scheme = config->Find(module_name);
    ASSERT_TRUE(scheme.ok()) << scheme.status();
    const ModuleShape shape = {golden["rows"], golden["columns"], 0};
    const auto module = QuantizedModule::Find(*scheme, shape, module_name, *checkpoint);
    ASSERT_TRUE(module.ok()) << module.status();
    WeightFormat format = DeviceFormatOf(*scheme).weight;
    ASSERT_TRUE(format.quantized());
    const auto order = module->ReadOrder();
    ASSERT_TRUE(order.ok()) << order.status();
    if (!order->even) continue;
    format.ordered = !order->columns.empty();
    num_ordered += format.ordered ? 1 : 0;
    ++num_compared;
    EXPECT_EQ(ReadThroughDevice(*module, shape, format), ReadValues(*module, shape));
  }
  EXPECT_GE(num_compared, 25);
  EXPECT_GE(num_ordered, 1);
}

}  // namespace
}  // namespace quire
