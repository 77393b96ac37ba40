// The values that transformers computes for the checkpoints that are made with it, and how far
// other results are from them. Plain functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "kernels/base/types.h"
#include "kernels/device.h"

namespace quire {

struct LogprobDifference {
  double max = 0;
  double mean = 0;
};

// expected.json of a checkpoint's folder. Errors are transformers' own, and 0 where nobody asks.
struct ExpectedLogprobs {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;         // [tokens.size() * vocab_size]
  LogprobDifference bfloat16_error;    // in bfloat16
  LogprobDifference activation_error;  // with quantized activations; 0 if the format has none
};

// Ends the program when it is not there.
ExpectedLogprobs LoadExpectedLogprobs(const std::string& folder);

// Compares lists of the same length; a NaN's difference is NaN.
LogprobDifference CompareLogprobs(const std::vector<float>& actual,
                                  const std::vector<float>& expected);

// The CPU, and a GPU if there is one.
std::vector<DeviceKind> TestDevices();

// The name of a test of a checkpoint on a device: "llama_awq_Cpu".
std::string GoldenCaseName(const std::string& checkpoint, DeviceKind device);

}  // namespace quire
