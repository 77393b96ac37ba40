// Settings: everything quire-server can be told, with its defaults. Flags, environment variables,
// configuration keys, help and docs/settings.md all come from the declarations in setting_table.cc.
// Plain values, fixed after parsing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

struct Settings {
  // Model.
  std::string model;                           // empty: the bundled model
  std::string revision;                        // of a model by name; empty: main
  std::string download_dir;                    // empty: the Hugging Face cache
  std::vector<std::string> served_model_name;  // the first is reported; empty: `model` as given
  std::string load_format = "auto";
  double dummy_router_skew = 0;
  std::string dtype = "auto";
  std::string quantization = "auto";
  int64_t max_model_len = 0;  // 0: the model's own
  std::string generation_config = "auto";
  std::string chat_template;  // file; empty: the model's own
  std::string tool_call_parser = "auto";
  std::string reasoning_parser = "auto";
  bool skip_tokenizer_init = false;
  int64_t seed = -1;  // -1: dummy weights from 0, random seeds for requests

  // Device and memory.
  std::string device = "auto";
  int64_t num_threads = 0;
  std::string cpu_isa = "auto";
  bool cpu_compress_weights = true;
  int64_t tensor_parallel_size = 1;
  double gpu_memory_utilization = 0.9;
  int64_t kv_cache_memory_bytes = 0;
  std::string kv_cache_dtype = "auto";
  std::vector<std::string> kv_cache_dtype_skip_layers;
  bool calculate_kv_scales = false;
  int64_t state_cache_memory_bytes = 0;
  std::string mamba_ssm_cache_dtype = "auto";
  int64_t mamba_block_size = 1024;
  int64_t block_size = 16;
  std::string attention_backend = "auto";
  bool enforce_eager = false;
  bool expert_load_metrics = false;
  bool cascade_attention = true;
  bool autotune = true;

  // Scheduling.
  int64_t max_num_seqs = 0;            // 0: by device
  int64_t max_num_batched_tokens = 0;  // 0: by device
  int64_t max_num_queued_reqs = 4096;
  int64_t max_num_queued_tokens = 1 << 24;
  bool enable_prefix_caching = true;
  bool async_scheduling = true;

  // Serving.
  std::string host = "0.0.0.0";
  int64_t port = 8000;
  std::string address_file;  // empty: none
  int64_t max_connections = 4096;
  int64_t stream_stall_timeout = 60;  // seconds
  int64_t sse_ping_interval = 15;     // seconds; 0: never
  int64_t shutdown_timeout = 30;      // seconds
  int64_t watchdog_timeout = 0;       // seconds; 0: by device
  std::string log_level = "info";
  std::string log_format = "text";
  bool access_log = true;
  bool enable_tokenizer_info_endpoint = false;
  std::string otlp_traces_endpoint;  // URL; empty: nothing is recorded
  double otlp_traces_sample_ratio = 1;

  // Access.
  std::string api_key_file;                  // empty: no keys
  std::vector<std::string> allowed_origins;  // of pages in browsers; empty: none
  std::string health_access = "anyone";
  std::string kv_events_config;
  std::string metrics_access = "admin";
  std::string reflection_access = "key";
  std::string tls_cert;       // file; empty: no TLS
  std::string tls_key;        // file
  std::string tls_client_ca;  // file; empty: clients show no certificates
  std::string plaintext = "auto";
};

}  // namespace quire
