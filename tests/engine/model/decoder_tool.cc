// Runs one sequence through a model folder and prints what it computes as JSON: for hf_parity_test.
//
//   decoder_tool cpu|cuda[/trtllm] FOLDER float32|bfloat16[/KV_DTYPE] CHUNK,... NUM_GREEDY TOKEN...
//
// KV_DTYPE, of the cache, may be another one: fp8_e4m3. With /trtllm attention takes the second
// path. For each CHUNK, a line {"logprobs": [[...] per prompt token], "greedy": [token...]}: the
// prompt in steps of at most CHUNK tokens, then NUM_GREEDY single-token steps.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/engine/model/sequence_runner.h"

namespace quire {
namespace {

void PrintJson(const std::vector<float>& logprobs, int64_t vocab_size,
               const std::vector<TokenId>& greedy) {
  std::printf("{\"logprobs\": [");
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const bool row_begins = i % vocab_size == 0;
    const bool row_ends = (i + 1) % vocab_size == 0;
    std::printf("%s%s%.9g%s", i == 0 ? "" : ",", row_begins ? "[" : "", logprobs[i],
                row_ends ? "]" : "");
  }
  std::printf("], \"greedy\": [");
  for (size_t i = 0; i < greedy.size(); ++i) std::printf("%s%d", i == 0 ? "" : ",", greedy[i]);
  std::printf("]}\n");
}

TokenId ArgMaxOfLastRow(const std::vector<float>& logprobs, int64_t vocab_size) {
  const auto row = logprobs.end() - vocab_size;
  return static_cast<TokenId>(std::max_element(row, logprobs.end()) - row);
}

void RunOnce(SequenceRunner& runner, const std::vector<TokenId>& prompt, int64_t chunk,
             int num_greedy) {
  const int64_t vocab_size = runner.config().vocab_size;
  runner.Restart();
  const std::vector<float> prompt_logprobs = runner.AppendInChunks(prompt, chunk);
  std::vector<float> last = prompt_logprobs;
  std::vector<TokenId> greedy;
  for (int i = 0; i < num_greedy; ++i) {
    greedy.push_back(ArgMaxOfLastRow(last, vocab_size));
    last = runner.Append({greedy.back()});
  }
  PrintJson(prompt_logprobs, vocab_size, greedy);
}

int Run(int argc, char** argv) {
  const std::vector<std::string> device_and_path = absl::StrSplit(argv[1], '/');
  const std::string& device = device_and_path.front();
  const bool trtllm = device_and_path.size() == 2 && device_and_path.back() == "trtllm";
  const std::vector<std::string> dtypes = absl::StrSplit(argv[3], '/');
  const std::optional<DType> dtype = ParseDType(dtypes.front());
  const std::optional<DType> kv_dtype = ParseDType(dtypes.back());
  if (!dtype || !kv_dtype || (device != "cpu" && device != "cuda") ||
      (device_and_path.size() > 1 && !trtllm)) {
    std::fprintf(stderr, "unknown device %s or dtype %s\n", argv[1], argv[3]);
    return 64;
  }
  const std::vector<std::string> chunks = absl::StrSplit(argv[4], ',');
  const int num_greedy = std::atoi(argv[5]);
  std::vector<TokenId> prompt;
  for (int i = 6; i < argc; ++i) prompt.push_back(std::atoi(argv[i]));

  auto runner = SequenceRunner::Create(
      argv[2], {.dtype = *dtype,
                .kv_dtype = kv_dtype,
                .max_len = static_cast<int64_t>(prompt.size()) + num_greedy,
                .device = device == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu,
                .path = trtllm ? AttentionPath::kTrtllm : AttentionPath::kNative});
  if (!runner.ok()) {
    std::fprintf(stderr, "%s\n", runner.status().ToString().c_str());
    return 66;
  }
  for (const std::string& chunk : chunks) {
    RunOnce(**runner, prompt, std::max(1, std::atoi(chunk.c_str())), num_greedy);
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(
        stderr,
        "usage: decoder_tool cpu|cuda[/trtllm] FOLDER float32|bfloat16[/KV_DTYPE] CHUNK,... "
        "NUM_GREEDY TOKEN...\n");
    return 64;
  }
  spdlog::set_level(spdlog::level::off);  // standard output is the results'
  return quire::Run(argc, argv);
}
