#include "server/settings/setting_table.h"

#include <limits>

namespace quire {

namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr char kModel[] = "Model";
constexpr char kDevice[] = "Device and memory";
constexpr char kScheduling[] = "Scheduling";
constexpr char kServing[] = "Serving";

using S = Settings;

std::vector<Setting> ModelSettings() {
  return {
      {"model", kModel, TextField{&S::model},
       "Folder of a Hugging Face model (config.json, tokenizer.json, *.safetensors).",
       "the bundled model"},
      {"served-model-name", kModel, TextField{&S::served_model_name},
       "Name that requests use for the model.", "--model as given"},
      {"load-format", kModel, ChoiceField{&S::load_format, {"auto", "dummy"}},
       "auto reads the weights; dummy fills them with random numbers."},
      {"dtype", kModel, ChoiceField{&S::dtype, {"auto", "bfloat16", "float32"}},
       "Data type of weights and activations; auto takes the checkpoint's."},
      {"max-model-len", kModel, IntField{&S::max_model_len, 0, 1 << 30},
       "Most tokens of a prompt and its answer together.", "the model's"},
      {"generation-config", kModel, ChoiceField{&S::generation_config, {"auto", "none"}},
       "auto takes sampling defaults from the model's generation_config.json."},
      {"chat-template", kModel, TextField{&S::chat_template},
       "File with a chat template that replaces the model's.", "the model's"},
      {"skip-tokenizer-init", kModel, SwitchField{&S::skip_tokenizer_init},
       "Serve token ids only, without the model's tokenizer: requests with text are refused."},
      {"seed", kModel, IntField{&S::seed, 0, kMaxInt}, "Seed of dummy weights."},
  };
}

std::vector<Setting> DeviceSettings() {
  return {
      {"device", kDevice, ChoiceField{&S::device, {"auto", "cpu", "cuda"}},
       "Where the model runs; auto takes the GPU if there is one."},
      {"num-threads", kDevice, IntField{&S::num_threads, 0, 1024}, "CPU: threads that compute.",
       "one per core"},
      {"cpu-isa", kDevice,
       ChoiceField{&S::cpu_isa, {"auto", "generic", "avx2", "avx512", "avx512_bf16", "amx_bf16"}},
       "CPU: instruction set to compute with; auto takes the best. The same set gives the same "
       "bits."},
      {"cpu-compress-weights", kDevice, SwitchField{&S::cpu_compress_weights},
       "CPU: keep large bfloat16 weights in 12 bits each, losslessly: nothing changes but speed "
       "and memory."},
      {"tensor-parallel-size", kDevice, IntField{&S::tensor_parallel_size, 1, 1},
       "GPUs that share the model."},
      {"gpu-memory-utilization", kDevice, RealField{&S::gpu_memory_utilization, 0.01, 1.0},
       "Share of the device's memory for weights, activations and cache."},
      {"kv-cache-memory-bytes", kDevice, IntField{&S::kv_cache_memory_bytes, 0, kMaxInt},
       "Size of the KV cache in bytes.", "sized from free memory"},
      {"kv-cache-dtype", kDevice, ChoiceField{&S::kv_cache_dtype, {"auto"}},
       "Data type of the KV cache; auto takes the model's."},
      {"block-size", kDevice, IntChoiceField{&S::block_size, {16, 32, 64}},
       "Tokens of one KV cache block."},
      {"attention-backend", kDevice,
       ChoiceField{&S::attention_backend, {"auto", "native", "trtllm"}},
       "Attention path; a path that cannot serve the model is an error at start."},
      {"enforce-eager", kDevice, SwitchField{&S::enforce_eager},
       "Run every step without captured graphs."},
      {"autotune", kDevice, SwitchField{&S::autotune},
       "CUDA: measure at start how to compute products with weights; kept in $QUIRE_CACHE_DIR, "
       "$XDG_CACHE_HOME/quire or ~/.cache/quire."},
  };
}

std::vector<Setting> SchedulingSettings() {
  return {
      {"max-num-seqs", kScheduling, IntField{&S::max_num_seqs, 1, 65536},
       "Sequences that run at once.", "64; 256 on a GPU"},
      {"max-num-batched-tokens", kScheduling, IntField{&S::max_num_batched_tokens, 1, 1 << 20},
       "Tokens that one step computes at most.", "2048; 8192 on a GPU"},
      {"max-num-queued-reqs", kScheduling, IntField{&S::max_num_queued_reqs, 1, 1 << 20},
       "Requests that wait at most; further ones are refused with RESOURCE_EXHAUSTED."},
      {"max-num-queued-tokens", kScheduling, IntField{&S::max_num_queued_tokens, 1, kMaxInt},
       "Prompt tokens that wait at most."},
      {"enable-prefix-caching", kScheduling, SwitchField{&S::enable_prefix_caching},
       "Keep the KV of finished prompts and reuse equal prefixes."},
      {"async-scheduling", kScheduling, SwitchField{&S::async_scheduling},
       "Schedule the next step while one runs."},
  };
}

std::vector<Setting> ServingSettings() {
  return {
      {"host", kServing, TextField{&S::host}, "Numeric address to listen on (IPv4 or IPv6)."},
      {"port", kServing, IntField{&S::port, 0, 65535}, "Port to listen on; 0 picks a free one."},
      {"max-connections", kServing, IntField{&S::max_connections, 1, 1 << 20},
       "Client connections at once; lowered if the process may not open enough files."},
      {"stream-stall-timeout", kServing, IntField{&S::stream_stall_timeout, 1, 86400},
       "Seconds after which a stream whose client does not read is ended."},
      {"shutdown-timeout", kServing, IntField{&S::shutdown_timeout, 0, 86400},
       "Seconds that running streams may take to finish after SIGTERM."},
      {"watchdog-timeout", kServing, IntField{&S::watchdog_timeout, 1, 86400},
       "Seconds that one step may take; then the streams fail and the process ends with code 70.",
       "600; 8 on a GPU"},
      {"log-level", kServing,
       ChoiceField{&S::log_level, {"trace", "debug", "info", "warning", "error"}},
       "Least level that is logged to standard error."},
  };
}

std::vector<Setting> MakeTable() {
  std::vector<Setting> table;
  for (const auto& group :
       {ModelSettings(), DeviceSettings(), SchedulingSettings(), ServingSettings()}) {
    table.insert(table.end(), group.begin(), group.end());
  }
  return table;
}

}  // namespace

absl::Span<const Setting> SettingTable() {
  static const std::vector<Setting>& table = *new std::vector<Setting>(MakeTable());
  return table;
}

}  // namespace quire
