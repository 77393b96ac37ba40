// generation_config.json: accepted defaults are numbers that sampling can use. Input: the file.

#include "engine/checkpoint/generation_config.h"
#include "kernels/base/check.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {

std::vector<std::string> Seeds() {
  return {ReadWholeFile("configs/demo/generation_config.json"), "{}",
          R"({"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":0.05,"repetition_penalty":1.1,)"
          R"("max_new_tokens":2048,"eos_token_id":[2,3],"do_sample":true})"};
}

std::vector<std::string> Dictionary() {
  return {"\"temperature\":", "\"top_k\":-1,", "\"eos_token_id\":7,", "\"max_new_tokens\":"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  const absl::StatusOr<GenerationConfig> config =
      ParseGenerationConfig({reinterpret_cast<const char*>(data), size});
  if (!config.ok()) {
    CHECK(absl::IsInvalidArgument(config.status())) << config.status();
    return 0;
  }
  ++fuzz::num_accepted;
  const auto within = [](const auto& value, auto low, auto high) {
    return !value.has_value() || (*value >= low && *value <= high);
  };
  CHECK(within(config->temperature, 0.0f, 100.0f)) << *config->temperature;
  CHECK(within(config->top_p, 1e-6f, 1.0f)) << *config->top_p;
  CHECK(within(config->top_k, 0, 1 << 30)) << *config->top_k;
  CHECK(within(config->min_p, 0.0f, 1.0f)) << *config->min_p;
  CHECK(within(config->repetition_penalty, 1e-3f, 100.0f)) << *config->repetition_penalty;
  CHECK(within(config->max_new_tokens, int64_t{1}, int64_t{INT32_MAX}));
  for (const TokenId id : config->eos_token_ids) CHECK_GE(id, 0);
  return 0;
}
