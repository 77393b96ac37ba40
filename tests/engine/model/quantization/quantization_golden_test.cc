// Modules that the packages made which define the formats, and the float32 values that they read
// from them (tools/make_quantization_vectors.py): equal bit for bit, read in pieces of any size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/model/quantization/module_tensors.h"
#include "engine/model/quantization/name_patterns.h"
#include "engine/model/quantization/quantization_config.h"
#include "engine/model/quantization/unpack.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/quantization/test_planes.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr char kFolder[] = "tests/engine/model/quantization/golden";
constexpr char kModule[] = "model.layers.0.mlp.experts.0.up_proj";

json Cases() { return json::parse(ReadWholeFile(std::string(kFolder) + "/cases.json")); }

// The bytes of one expert's tensors, or of all where modules are not stacked.
class GoldenModule {
 public:
  GoldenModule(const SafetensorsFile& file, const ModuleTensors& tensors, int64_t expert,
               int64_t num_experts) {
    for (size_t i = 0; i < kNumPlanes; ++i) {
      if (tensors[i] == nullptr) continue;
      const SafetensorsTensor& tensor = *tensors[i]->tensor;
      const int64_t bytes = (tensor.end - tensor.begin) / std::max<int64_t>(num_experts, 1);
      bytes_[i].resize(bytes);
      EXPECT_TRUE(file.Read(tensor, expert * bytes, bytes, bytes_[i].data()).ok());
      planes_[i] = {tensor.name, tensor.dtype_name, bytes_[i]};
    }
  }
  const ModulePlanes& planes() const { return planes_; }

 private:
  std::array<std::vector<uint8_t>, kNumPlanes> bytes_;
  ModulePlanes planes_;
};

// But for the sign of a zero: ModelOpt reads e2m1's -0 as 0, the others do not.
void ExpectSameBits(const std::vector<float>& values, const float* expected) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0 && expected[i] == 0) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i]))
        << "element " << i << ": " << values[i] << ", not " << expected[i];
  }
}

void CheckCase(const json& golden) {
  const auto config = QuantizationConfig::Parse({.config = golden["config"].dump()});
  ASSERT_TRUE(config.ok()) << config.status();
  const std::string module = golden.value("module", kModule);
  const auto scheme = config->Find(module);
  ASSERT_TRUE(scheme.ok()) << scheme.status();
  ASSERT_TRUE(scheme->quantized());
  const auto file =
      SafetensorsFile::Open(kFolder, golden["name"].get<std::string>() + ".safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const ModuleShape shape = {golden["rows"], golden["columns"], golden.value("experts", 0)};
  std::map<std::string, Checkpoint::Entry> entries;
  const auto tensors = FindModuleTensors(*scheme, shape, module,
                                         [&](absl::string_view name) -> const Checkpoint::Entry* {
                                           const SafetensorsTensor* tensor = file->Find(name);
                                           if (tensor == nullptr) return nullptr;
                                           return &(entries[std::string(name)] = {&*file, tensor});
                                         });
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  // Nothing but the expected values is left over.
  size_t num_found = 0;
  for (const Checkpoint::Entry* entry : *tensors) num_found += entry != nullptr ? 1 : 0;
  EXPECT_EQ(num_found + 1, file->tensors().size());

  const SafetensorsTensor* expected = file->Find("expected");
  ASSERT_NE(expected, nullptr);
  std::vector<float> all((expected->end - expected->begin) / sizeof(float));
  ASSERT_TRUE(file->Read(*expected, 0, expected->end - expected->begin, all.data()).ok());
  const int64_t size = shape.rows * shape.columns;
  for (int64_t expert = 0; expert * size < static_cast<int64_t>(all.size()); ++expert) {
    const GoldenModule one(*file, *tensors, expert, shape.num_experts);
    for (const int64_t piece : {0, 1, 3, 16}) {
      const auto values = DequantizeInPieces(*scheme, shape, one.planes(), piece);
      ASSERT_TRUE(values.ok()) << values.status();
      ASSERT_NO_FATAL_FAILURE(ExpectSameBits(*values, all.data() + expert * size));
    }
  }
}

TEST(QuantizationGolden, EqualsThePackagesBitForBit) {
  const json cases = Cases();
  EXPECT_GE(cases.size(), 20);
  for (const json& golden : cases) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    CheckCase(golden);
  }
}

TEST(QuantizationGolden, NamesMatchAsInThePackages) {
  const json golden = json::parse(ReadWholeFile(std::string(kFolder) + "/names.json"));
  const std::map<std::string, NameRule> rules = {{"compressed", NameRule::kCompressed},
                                                 {"transformers", NameRule::kTransformers},
                                                 {"glob", NameRule::kGlob},
                                                 {"substring", NameRule::kSubstring}};
  for (const auto& [rule, patterns] : golden["rules"].items()) {
    for (const auto& [text, matches] : patterns.items()) {
      const auto pattern = NamePattern::Create(text, rules.at(rule));
      ASSERT_TRUE(pattern.ok()) << pattern.status();
      std::string found;
      for (const json& name : golden["names"]) {
        found += *pattern->Matches(name.get<std::string>()) ? '1' : '0';
      }
      EXPECT_EQ(found, matches.get<std::string>()) << rule << " " << text;
    }
  }
}

}  // namespace
}  // namespace quire
