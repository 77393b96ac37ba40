// The header of a safetensors file: what is accepted covers the data exactly, tensor after tensor.
// Input: eight bytes, the size of the data; the header.
#include <cstring>

#include "engine/checkpoint/safetensors.h"
#include "kernels/base/check.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

std::string Seed(uint64_t data_bytes, const std::string& header) {
  std::string seed(sizeof(data_bytes), '\0');
  std::memcpy(seed.data(), &data_bytes, sizeof(data_bytes));
  return seed + header;
}

void CheckTensor(const SafetensorsTensor& tensor) {
  CHECK_LE(tensor.begin, tensor.end) << tensor.name;
  int64_t num_elements = 1;
  for (const int64_t size : tensor.shape) {
    CHECK_GE(size, 0) << tensor.name;
    CHECK(!__builtin_mul_overflow(num_elements, size, &num_elements)) << tensor.name;
  }
  if (!tensor.dtype) return;
  CHECK_EQ(num_elements * DTypeBytes(*tensor.dtype), tensor.end - tensor.begin) << tensor.name;
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      Seed(0, "{}"),
      Seed(4, R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})"),
      Seed(40, R"({"__metadata__":{"format":"pt"},)"
               R"("model.norm.weight":{"dtype":"F32","shape":[],"data_offsets":[36,40]},)"
               R"("w":{"dtype":"F16","shape":[3,2],"data_offsets":[24,36]},)"
               R"("q":{"dtype":"F8_E4M3","shape":[2,3,4],"data_offsets":[0,24]},)"
               R"("empty":{"dtype":"I64","shape":[0,7],"data_offsets":[24,24]}}  )"),
  };
}

std::vector<std::string> Dictionary() {
  return {"\"dtype\"",
          "\"shape\"",
          "\"data_offsets\"",
          "\"__metadata__\"",
          "\"F4\"",
          "\"BOOL\"",
          R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  fuzz::InputReader input(data, size);
  uint64_t data_bytes = 0;
  const std::string_view length = input.TakeBytes(sizeof(data_bytes));
  std::memcpy(&data_bytes, length.data(), length.size());
  const absl::string_view header(input.rest().data(), input.rest().size());
  const auto tensors = ParseSafetensorsHeader(header, data_bytes, "input");
  if (!tensors.ok()) {
    CHECK(absl::IsInvalidArgument(tensors.status())) << tensors.status();
    return 0;
  }
  ++fuzz::num_accepted;
  int64_t covered_bytes = 0;
  for (const SafetensorsTensor& tensor : *tensors) {
    CHECK_EQ(tensor.begin, covered_bytes) << tensor.name;
    fuzz::CheckTensor(tensor);
    covered_bytes = tensor.end;
  }
  CHECK_EQ(static_cast<uint64_t>(covered_bytes), data_bytes);
  return 0;
}
