#include "tests/engine/model/expected_logprobs.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/backend.h"
#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

LogprobDifference ErrorOf(const nlohmann::json& json, const char* key) {
  if (!json.contains(key)) return {};
  return {json[key]["max"].get<double>(), json[key]["mean"].get<double>()};
}

}  // namespace

ExpectedLogprobs LoadExpectedLogprobs(const std::string& folder) {
  const auto json = nlohmann::json::parse(ReadWholeFile(folder + "/expected.json"));
  ExpectedLogprobs expected;
  expected.tokens = json["tokens"].get<std::vector<TokenId>>();
  expected.bfloat16_error = ErrorOf(json, "bfloat16_error");
  expected.activation_error = ErrorOf(json, "activation_error");
  for (const auto& row : json["logprobs"]) {
    for (float logprob : row) expected.logprobs.push_back(logprob);
  }
  return expected;
}

LogprobDifference CompareLogprobs(const std::vector<float>& actual,
                                  const std::vector<float>& expected) {
  LogprobDifference difference;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double one = std::abs(actual[i] - expected[i]);
    if (!(one <= difference.max)) difference.max = one;  // NaN is kept
    difference.mean += one / expected.size();
  }
  return difference;
}

std::vector<DeviceKind> TestDevices() {
  std::vector<DeviceKind> devices = {DeviceKind::kCpu};
  if (CudaAvailable()) devices.push_back(DeviceKind::kCuda);
  return devices;
}

std::string GoldenCaseName(const std::string& checkpoint, DeviceKind device) {
  return checkpoint + (device == DeviceKind::kCuda ? "_Cuda" : "_Cpu");
}

}  // namespace quire
