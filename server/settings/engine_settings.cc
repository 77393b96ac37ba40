#include <algorithm>

#include "kernels/backend.h"
#include "server/settings/settings.h"

namespace quire {

namespace {

DeviceKind ChooseDevice(const std::string& device) {
  if (device == "cuda") return DeviceKind::kCuda;
  if (device == "cpu") return DeviceKind::kCpu;
  return CudaAvailable() ? DeviceKind::kCuda : DeviceKind::kCpu;
}

std::optional<AttentionPath> ChooseAttention(const std::string& backend) {
  if (backend == "native") return AttentionPath::kNative;
  if (backend == "trtllm") return AttentionPath::kTrtllm;
  return std::nullopt;
}

// What was not given: a GPU pays for its weights with more sequences and larger prefill steps than
// a CPU could compute in a tolerable time. One that was given bounds the other.
void SetStepLimits(const Settings& settings, EngineConfig* config) {
  const bool cuda = config->device == DeviceKind::kCuda;
  const int64_t num_seqs = cuda ? 256 : 64;
  const int64_t num_tokens = cuda ? 8192 : 2048;
  config->max_num_seqs = settings.max_num_seqs;
  config->max_num_batched_tokens = settings.max_num_batched_tokens;
  if (settings.max_num_seqs == 0) {
    config->max_num_seqs = settings.max_num_batched_tokens == 0
                               ? num_seqs
                               : std::min(num_seqs, settings.max_num_batched_tokens);
  }
  if (settings.max_num_batched_tokens == 0) {
    config->max_num_batched_tokens = std::max(num_tokens, config->max_num_seqs);
  }
}

// On a GPU the longest step takes about a second, and clients and exit have two more after this, so
// that a hung server is gone within ten seconds. On the CPU a step of a large model takes minutes.
absl::Duration WatchdogTimeout(const Settings& settings, DeviceKind device) {
  if (settings.watchdog_timeout > 0) return absl::Seconds(settings.watchdog_timeout);
  return absl::Seconds(device == DeviceKind::kCuda ? 8 : 600);
}

}  // namespace

EngineConfig ToEngineConfig(const Settings& settings, const std::string& model_folder) {
  EngineConfig config;
  config.model_folder = model_folder;
  config.load_format = settings.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
  config.dtype = ParseDType(settings.dtype);  // nothing for "auto"
  config.seed = static_cast<uint64_t>(settings.seed);
  config.max_model_len = settings.max_model_len;
  config.device = ChooseDevice(settings.device);
  config.num_threads = static_cast<int>(settings.num_threads);
  if (settings.cpu_isa != "auto") config.cpu_isa = settings.cpu_isa;
  config.cpu_compress_weights = settings.cpu_compress_weights;
  SetStepLimits(settings, &config);
  config.block_size = static_cast<int32_t>(settings.block_size);
  config.gpu_memory_utilization = settings.gpu_memory_utilization;
  config.kv_cache_bytes = settings.kv_cache_memory_bytes;
  config.enable_prefix_caching = settings.enable_prefix_caching;
  config.enforce_eager = settings.enforce_eager;
  config.tune_products = settings.autotune;
  config.watchdog_timeout = WatchdogTimeout(settings, config.device);
  config.async_scheduling = settings.async_scheduling;
  config.attention_path = ChooseAttention(settings.attention_backend);
  config.max_waiting_requests = settings.max_num_queued_reqs;
  config.max_waiting_tokens = settings.max_num_queued_tokens;
  return config;
}

}  // namespace quire
