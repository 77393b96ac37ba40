#include "server/start/settings/engine_settings.h"

#include "kernels/backend.h"

namespace quire {

namespace {

// Nothing for "auto". vLLM's names are PyTorch's, with its short ones.
std::optional<DType> ChooseDType(const std::string& name) {
  if (name == "half") return DType::kF16;
  if (name == "float") return DType::kF32;
  return ParseDType(name);
}

// vLLM's names.
std::optional<DType> ChooseKvCacheDType(const std::string& name) {
  return ParseDType(name == "fp8" ? "fp8_e4m3" : name);
}

std::optional<AttentionPath> ChooseAttention(const std::string& backend) {
  if (backend == "native") return AttentionPath::kNative;
  if (backend == "trtllm") return AttentionPath::kTrtllm;
  return std::nullopt;
}

// On a GPU the longest step takes about a second, and clients and exit have two more after this, so
// that a hung server is gone within ten seconds. On the CPU a step of a large model takes minutes.
absl::Duration WatchdogTimeout(const Settings& settings, DeviceKind device) {
  if (settings.watchdog_timeout > 0) return absl::Seconds(settings.watchdog_timeout);
  return absl::Seconds(device == DeviceKind::kCuda ? 8 : 600);
}

}  // namespace

DeviceKind ServingDevice(const Settings& settings) {
  if (settings.device == "cuda") return DeviceKind::kCuda;
  if (settings.device == "cpu") return DeviceKind::kCpu;
  return CudaAvailable() ? DeviceKind::kCuda : DeviceKind::kCpu;
}

EngineConfig ToEngineConfig(const Settings& settings, const std::string& model_folder) {
  EngineConfig config;
  config.model_folder = model_folder;
  config.load_format = settings.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
  config.dtype = ChooseDType(settings.dtype);
  if (settings.quantization == "fp8") config.quantization = LoadQuantization::kFloat8;
  config.kv_cache_dtype = ChooseKvCacheDType(settings.kv_cache_dtype);
  config.kv_cache_dtype_skip_layers = settings.kv_cache_dtype_skip_layers;
  config.calculate_kv_scales = settings.calculate_kv_scales;
  config.state_cache_memory_bytes = settings.state_cache_memory_bytes;
  config.state_dtype = ChooseDType(settings.mamba_ssm_cache_dtype);
  config.snapshot_interval = static_cast<int32_t>(settings.mamba_block_size);
  config.seed = static_cast<uint64_t>(std::max<int64_t>(settings.seed, 0));
  config.dummy_router_skew = settings.dummy_router_skew;
  config.max_model_len = settings.max_model_len;
  config.device = ServingDevice(settings);
  config.num_threads = static_cast<int>(settings.num_threads);
  if (settings.cpu_isa != "auto") config.cpu_isa = settings.cpu_isa;
  config.cpu_compress_weights = settings.cpu_compress_weights;
  config.max_num_seqs = settings.max_num_seqs;
  config.max_num_batched_tokens = settings.max_num_batched_tokens;
  config.block_size = static_cast<int32_t>(settings.block_size);
  config.gpu_memory_utilization = settings.gpu_memory_utilization;
  config.kv_cache_memory_bytes = settings.kv_cache_memory_bytes;
  config.enable_prefix_caching = settings.enable_prefix_caching;
  config.enforce_eager = settings.enforce_eager;
  config.count_experts = settings.expert_load_metrics;
  config.autotune = settings.autotune;
  if (!settings.cascade_attention) config.min_prefix_tokens = 0;
  config.watchdog_timeout = WatchdogTimeout(settings, config.device);
  config.async_scheduling = settings.async_scheduling;
  config.attention_path = ChooseAttention(settings.attention_backend);
  config.max_num_queued_reqs = settings.max_num_queued_reqs;
  config.max_num_queued_tokens = settings.max_num_queued_tokens;
  return config;
}

}  // namespace quire
