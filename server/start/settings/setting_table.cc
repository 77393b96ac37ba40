#include "server/start/settings/setting_table.h"

#include <limits>

namespace quire {

namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr char kModel[] = "Model";
constexpr char kDevice[] = "Device and memory";
constexpr char kScheduling[] = "Scheduling";
constexpr char kServing[] = "Serving";
constexpr char kAccess[] = "Access";

using S = Settings;
using Unit = IntField::Unit;

std::vector<Setting> ModelSettings() {
  return {
      {"model", kModel, TextField{&S::model},
       "Folder of a Hugging Face model (config.json, tokenizer.json, *.safetensors), or its name "
       "on "
       "the hub (org/name), which is downloaded unless it is in the Hugging Face cache. Also the "
       "argument without a flag: quire-server MODEL.",
       "the bundled model"},
      {"revision", kModel, TextField{&S::revision},
       "Branch, tag or commit of a model that is named as on the hub.", "main"},
      {"download-dir", kModel, TextField{&S::download_dir},
       "Folder for downloaded models, laid out as the Hugging Face cache.",
       "$HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub"},
      {"served-model-name", kModel, NamesField{&S::served_model_name},
       "Names that requests may use for the model; the first one is reported.", "--model as given"},
      {"load-format", kModel, ChoiceField{&S::load_format, {"auto", "dummy"}},
       "auto reads the weights; dummy fills them with random numbers."},
      {"dummy-router-skew", kModel, RealField{&S::dummy_router_skew, 0, 100},
       "How unevenly a mixture's routers choose experts with --load-format dummy, for measuring: "
       "their rows have lengths from 1 to 1 more than this. With 0 all experts are chosen alike; "
       "with 3 the first of 128 has 3 times its share, and a sixth have less than a tenth of "
       "theirs."},
      {"dtype", kModel,
       ChoiceField{&S::dtype, {"auto", "bfloat16", "float16", "half", "float32", "float"}},
       "Data type of weights and activations; auto takes the checkpoint's if the device "
       "computes in it, else bfloat16. float16 (half) needs a GPU; float is float32."},
      {"quantization", kModel, ChoiceField{&S::quantization, {"auto", "fp8"}},
       "auto serves the weights as the checkpoint has them, quantized or not; fp8 makes FP8 of "
       "those of the layers while it reads a checkpoint that is not quantized."},
      {"max-model-len", kModel, IntField{&S::max_model_len, 0, 1 << 30, Unit::kCount},
       "Maximum number of tokens of a prompt and its answer together; 0 is the default.",
       "the model's, or what fits into memory"},
      {"generation-config", kModel, ChoiceField{&S::generation_config, {"auto", "none"}},
       "auto takes sampling defaults from the model's generation_config.json."},
      {"chat-template", kModel, TextField{&S::chat_template},
       "File with a chat template that replaces the model's.", "the model's"},
      {"tool-call-parser", kModel,
       ChoiceField{&S::tool_call_parser,
                   {"auto", "none", "hermes", "llama3_json", "mistral", "qwen3_coder", "gemma4",
                    "gpt_oss", "openai"}},
       "How the model writes calls of tools, which chats over HTTP get apart from the text; auto "
       "takes what its chat template shows. gpt_oss, which openai is vLLM's name of, goes with the "
       "reasoning parser of that name."},
      {"reasoning-parser", kModel,
       ChoiceField{&S::reasoning_parser,
                   {"auto", "none", "qwen3", "deepseek_r1", "mistral", "gemma4", "gpt_oss",
                    "openai_gptoss"}},
       "How the model writes reasoning, which chats over HTTP get apart from the text; auto is "
       "qwen3 (<think>), mistral ([THINK]) or gemma4 (its channel) where the tokenizer or the chat "
       "template has their tags, and gpt_oss (vLLM's openai_gptoss) where the template has its "
       "channels."},
      {"skip-tokenizer-init", kModel, SwitchField{&S::skip_tokenizer_init},
       "Serve token ids only, without the model's tokenizer: requests with text are refused."},
      {"seed", kModel, IntField{&S::seed, 0, kMaxInt},
       "Seed of requests that bring none, so that the same requests in the same order sample the "
       "same; also of dummy weights.",
       "random; 0 for dummy weights"},
  };
}

std::vector<Setting> DeviceSettings() {
  return {
      {"device", kDevice, ChoiceField{&S::device, {"auto", "cpu", "cuda"}},
       "Where the model runs; auto takes the GPU if there is one."},
      {"num-threads", kDevice, IntField{&S::num_threads, 0, 1024},
       "Threads that compute on the CPU; beside a GPU, threads that read the weights. 0 is the "
       "default.",
       "one per core"},
      {"cpu-isa", kDevice,
       ChoiceField{&S::cpu_isa, {"auto", "generic", "avx2", "avx512", "avx512_bf16", "amx_bf16"}},
       "Instruction set to compute with; auto takes the best. The same set gives the same bits.",
       "", DeviceKind::kCpu},
      {"cpu-compress-weights", kDevice, SwitchField{&S::cpu_compress_weights},
       "Keep large bfloat16 weights in 12 bits each, losslessly: nothing changes but speed and "
       "memory.",
       "", DeviceKind::kCpu},
      {"tensor-parallel-size", kDevice, IntField{&S::tensor_parallel_size, 1, 1},
       "GPUs that share the model."},
      {"gpu-memory-utilization", kDevice, RealField{&S::gpu_memory_utilization, 0.01, 1.0},
       "Share of the GPU's memory for weights, activations and cache.", "", DeviceKind::kCuda,
       "set the size of the KV cache with --kv-cache-memory-bytes"},
      {"kv-cache-memory-bytes", kDevice,
       IntField{&S::kv_cache_memory_bytes, 0, kMaxInt, Unit::kBytes},
       "Size of the KV cache; 0 is the default.", "sized from free memory"},
      {"kv-cache-dtype", kDevice,
       ChoiceField{&S::kv_cache_dtype,
                   {"auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"}},
       "Data type of the KV cache; auto takes fp8_e4m3 where the checkpoint is made for it "
       "(kv_cache_scheme), else the activations'. The 8-bit types hold twice as many tokens, "
       "rounded, with the checkpoint's scales of keys and values, or 1; fp8 is fp8_e4m3."},
      {"kv-cache-dtype-skip-layers", kDevice, NamesField{&S::kv_cache_dtype_skip_layers},
       "Layers that keep the activations' data type beside an 8-bit KV cache: indices, or "
       "sliding_window for all that have one.",
       "none"},
      {"calculate-kv-scales", kDevice, SwitchField{&S::calculate_kv_scales},
       "Take the scales of an 8-bit KV cache from what the model makes of 256 tokens at start, for "
       "checkpoints without k_scale and v_scale, whose scales are 1 else."},
      {"state-cache-memory-bytes", kDevice,
       IntField{&S::state_cache_memory_bytes, 0, kMaxInt, Unit::kBytes},
       "Memory for recurrent states, of models whose layers keep a state of each sequence: those "
       "of "
       "running sequences, and snapshots of prefixes for the prefix cache.",
       "half of what weights and steps leave of a GPU's memory, a quarter on the CPU"},
      {"mamba-ssm-cache-dtype", kDevice,
       ChoiceField{&S::mamba_ssm_cache_dtype, {"auto", "float32", "bfloat16"}},
       "Data type of recurrent states; auto takes the checkpoint's. bfloat16, which needs a GPU, "
       "halves what decodes read and write of them, and rounds at every step."},
      {"mamba-block-size", kDevice, IntField{&S::mamba_block_size, 64, 1 << 20, Unit::kCount},
       "Tokens from one snapshot of recurrent states to the next, a multiple of 64; the end of a "
       "prompt, and where prompts were seen to part, have one anyway."},
      {"block-size", kDevice, IntChoiceField{&S::block_size, {16, 32, 64}},
       "Tokens in one block of the KV cache."},
      {"attention-backend", kDevice,
       ChoiceField{&S::attention_backend, {"auto", "native", "trtllm"}},
       "Attention path; auto takes, for prompts and for answers, the one that was faster where it "
       "was measured and that can serve the model; another is an error at start if it cannot."},
      {"cascade-attention", kDevice, SwitchField{&S::cascade_attention},
       "Read a long prefix that many running sequences share once for all of them.", "",
       DeviceKind::kCuda, "the CPU reads a prefix with each sequence"},
      {"enforce-eager", kDevice, SwitchField{&S::enforce_eager},
       "Run every step without captured graphs.", "", DeviceKind::kCuda,
       "the CPU never uses graphs"},
      {"autotune", kDevice, SwitchField{&S::autotune},
       "Measure at start how to compute linear layers; kept in $QUIRE_CACHE_DIR, "
       "$XDG_CACHE_HOME/quire or ~/.cache/quire.",
       "", DeviceKind::kCuda, "the CPU has nothing to tune"},
  };
}

std::vector<Setting> SchedulingSettings() {
  return {
      {"max-num-seqs", kScheduling, IntField{&S::max_num_seqs, 1, 65536, Unit::kCount},
       "Maximum number of sequences that run at once.",
       "64; 1024 on a GPU, 256 on one with less than 64 GiB"},
      {"max-num-batched-tokens", kScheduling,
       IntField{&S::max_num_batched_tokens, 1, 1 << 20, Unit::kCount},
       "Maximum number of tokens that one step computes.", "2048; 8192 on a GPU"},
      {"max-num-queued-reqs", kScheduling,
       IntField{&S::max_num_queued_reqs, 1, 1 << 20, Unit::kCount},
       "Maximum number of requests that wait; further ones are refused with RESOURCE_EXHAUSTED."},
      {"max-num-queued-tokens", kScheduling,
       IntField{&S::max_num_queued_tokens, 1, kMaxInt, Unit::kCount},
       "Maximum number of prompt tokens that wait."},
      {"enable-prefix-caching", kScheduling, SwitchField{&S::enable_prefix_caching},
       "Keep the KV of finished prompts and reuse equal prefixes."},
      {"async-scheduling", kScheduling, SwitchField{&S::async_scheduling},
       "Schedule the next step while one runs."},
  };
}

std::vector<Setting> ServingSettings() {
  return {
      {"host", kServing, TextField{&S::host},
       "Address to listen on: a number (IPv4 or IPv6) or localhost."},
      {"port", kServing, IntField{&S::port, 0, 65535}, "Port to listen on; 0 picks a free one."},
      {"address-file", kServing, TextField{&S::address_file},
       "File to write HOST:PORT of the server to, for --check-health and quire on the same "
       "machine, "
       "which find it by QUIRE_ADDRESS_FILE.",
       "none"},
      {"max-connections", kServing, IntField{&S::max_connections, 1, 1 << 20, Unit::kCount},
       "Maximum number of client connections; lowered if the process may not open enough files."},
      {"stream-stall-timeout", kServing, IntField{&S::stream_stall_timeout, 1, 86400},
       "Seconds after which a stream whose client does not read is ended."},
      {"sse-ping-interval", kServing, IntField{&S::sse_ping_interval, 0, 3600},
       "Seconds of silence after which a stream over HTTP sends a comment, so that clients and "
       "proxies do not give up on a long prompt; 0: never."},
      {"shutdown-timeout", kServing, IntField{&S::shutdown_timeout, 0, 86400},
       "Seconds that running streams may take to finish after SIGTERM."},
      {"watchdog-timeout", kServing, IntField{&S::watchdog_timeout, 1, 86400},
       "Seconds that one step may take; then the streams fail and the process ends with code 70.",
       "600; 8 on a GPU"},
      {"log-level", kServing,
       ChoiceField{&S::log_level, {"trace", "debug", "info", "warning", "error"}},
       "Minimum log level; the log goes to standard error."},
      {"log-format", kServing, ChoiceField{&S::log_format, {"text", "json"}},
       "Lines of the log: text, or one JSON object each."},
      {"kv-events-config", kServing, TextField{&S::kv_events_config},
       "Publishes what becomes of the prefix cache over ZeroMQ, for routers: JSON with vLLM's "
       "names, such as {\"enable_kv_cache_events\": true, \"endpoint\": \"tcp://*:5557\"}. "
       "Whoever reaches the endpoint sees prompts.",
       "not published"},
      {"access-log", kServing, SwitchField{&S::access_log},
       "One line of the log for each call: who, what, how it ended, tokens, times; never text."},
      {"enable-tokenizer-info-endpoint", kServing, SwitchField{&S::enable_tokenizer_info_endpoint},
       "Serve /tokenizer_info: the model's tokenizer_config.json with its chat template, for "
       "whoever may use the model."},
      {"expert-load-metrics", kServing, SwitchField{&S::expert_load_metrics},
       "Count how many tokens choose each expert of a mixture, for /metrics "
       "(quire_expert_tokens_total): a sample for each expert of each layer."},
      {"otlp-traces-endpoint", kServing, TextField{&S::otlp_traces_endpoint},
       "Send a trace of each request to this OpenTelemetry collector, by OTLP over gRPC: "
       "http://HOST:4317, or https:// for TLS. Never text.",
       "no traces"},
      {"otlp-traces-sample-ratio", kServing, RealField{&S::otlp_traces_sample_ratio, 0, 1},
       "Share of the requests to trace whose callers send no traceparent; one that a caller sends "
       "says itself whether to."},
  };
}

std::vector<Setting> AccessSettings() {
  return {
      {"api-key-file", kAccess, TextField{&S::api_key_file},
       "File of API keys, one JSON object a line: {\"key\": ..., \"name\": ..., \"roles\": "
       "[\"inference\"]}. Whoever calls must then send one as authorization: Bearer KEY. Read "
       "again "
       "when it changes, and on SIGHUP.",
       "no keys: everybody may use the model, clients on this machine may administer"},
      {"allowed-origins", kAccess, NamesField{&S::allowed_origins},
       "Origins of web pages that may call this server from a browser, as browsers write them "
       "(https://chat.example.org); * is every page. Keys are wanted all the same.",
       "pages of the server's own origin alone"},
      {"health-access", kAccess, ChoiceField{&S::health_access, {"anyone", "key"}},
       "Who may ask for the server's health; key: like everything else."},
      {"metrics-access", kAccess, ChoiceField{&S::metrics_access, {"admin", "inference", "anyone"}},
       "Who may read /metrics and /status: principals with this role, or whoever may ask for the "
       "server's health."},
      {"reflection-access", kAccess, ChoiceField{&S::reflection_access, {"anyone", "key", "off"}},
       "Who may ask for the descriptions of the services (gRPC reflection); key: like everything "
       "else."},
      {"tls-cert", kAccess, TextField{&S::tls_cert},
       "File of the server's certificate and those between it and its CA, PEM; TLS is then spoken "
       "on the port. Read again when it changes, and on SIGHUP, for new connections.",
       "no TLS"},
      {"tls-key", kAccess, TextField{&S::tls_key},
       "File of the private key of --tls-cert, PEM, without a password.", "no TLS"},
      {"tls-client-ca", kAccess, TextField{&S::tls_client_ca},
       "File of the CAs that sign client certificates, PEM. A client must then show one, or a key "
       "of --api-key-file; the certificate's name is who calls.",
       "clients show no certificates"},
      {"plaintext", kAccess, ChoiceField{&S::plaintext, {"auto", "on", "local", "off"}},
       "Connections without TLS: on takes them, local takes those of this machine, off takes none; "
       "auto is local where there is a --tls-cert, else on."},
  };
}

std::vector<Setting> MakeTable() {
  std::vector<Setting> table;
  for (const auto& group : {ModelSettings(), DeviceSettings(), SchedulingSettings(),
                            ServingSettings(), AccessSettings()}) {
    table.insert(table.end(), group.begin(), group.end());
  }
  return table;
}

}  // namespace

absl::Span<const Setting> SettingTable() {
  static const std::vector<Setting>& table = *new std::vector<Setting>(MakeTable());
  return table;
}

const Setting* FindSetting(const std::string& name) {
  for (const Setting& setting : SettingTable()) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

}  // namespace quire
