#include "server/start/settings/foreign_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace quire {

namespace {

constexpr ForeignFlags kTable[] = {
    // Names of our own settings elsewhere.
    {"-m --model-path --model-id", "use --model"},
    {"-hf -hfr --hf-repo",
     "use --model and a repository with safetensors files; GGUF is not supported yet"},
    {"-q", "use --quantization, or nothing: a quantized checkpoint says itself how it is kept"},
    {"-a --alias --model-name", "use --served-model-name"},
    {"--page-size --cache-block-seq-len", "use --block-size"},
    {"--hostname --server-name", "use --host"},
    {"--server-port", "use --port"},
    {"--hf-revision", "use --revision"},
    {"-c --ctx-size --context-length --max-total-tokens --max-seq-len --session-len "
     "--max-context-len-to-capture",
     "use --max-model-len"},
    {"-n-ctx --n-ctx --kv-unified-per-slot --max-input-length --max-input-tokens",
     "use --max-model-len, which bounds a prompt and its answer together"},
    {"-t --threads --nthreads", "use --num-threads"},
    {"-tb --threads-batch", "use --num-threads, which holds for prompts and answers alike"},
    {"-b --batch-size -ub --ubatch-size --chunked-prefill-size --max-prefill-tokens "
     "--max-batch-prefill-tokens --max-num-tokens --max-prefill-token-num --num-tokens-per-iter",
     "use --max-num-batched-tokens"},
    {"-np --parallel --max-running-requests --max-concurrent-requests --max-batch-size",
     "use --max-num-seqs"},
    {"--max-queued-requests", "use --max-num-queued-reqs"},
    {"--mem-fraction-static --cuda-memory-fraction --max-gpu-memory",
     "use --gpu-memory-utilization"},
    {"--kv-cache-free-gpu-memory-fraction --free-gpu-memory-fraction --cache-max-entry-count",
     "use --gpu-memory-utilization, which is a share of all of the GPU's memory, weights included"},
    {"--num-gpu-blocks-override --kv-cache-memory", "use --kv-cache-memory-bytes"},
    {"-ngl --gpu-layers --n-gpu-layers",
     "use --device: cuda keeps all layers on the GPU, cpu none"},
    {"-dev", "use --device auto, cpu or cuda; CUDA_VISIBLE_DEVICES chooses among several GPUs"},
    {"-s --random-seed", "use --seed"},
    {"-tp --tp --tp-size --num-shard --tensor-parallel --num-gpus",
     "use --tensor-parallel-size, which may only be 1 so far"},
    {"--chat-template-file", "use --chat-template"},
    {"--cache-prompt --enable-caching --disable-radix-cache",
     "use --enable-prefix-caching or --no-enable-prefix-caching"},
    {"--disable-cuda-graph --disable-cuda-graphs", "use --enforce-eager"},
    {"--disable-cascade-attn", "use --cascade-attention or --no-cascade-attention"},
    {"--enable-deterministic-inference --batch-invariant",
     "not supported yet: on the CPU a request's tokens never depend on who shares its batch, on a "
     "GPU they may, within rounding"},
    {"--graceful-termination-timeout", "use --shutdown-timeout"},
    {"--enable-flashinfer-autotune", "use --autotune or --no-autotune"},
    {"--overlap --disable-overlap-schedule --disable-async-output-proc",
     "use --async-scheduling or --no-async-scheduling"},
    {"-lv --verbosity --log-verbosity --uvicorn-log-level --log-level-http", "use --log-level"},
    {"-v --verbose --log-verbose", "use --log-level debug, or --version for the version"},
    {"-V", "use --version"},
    {"-to --timeout",
     "use --stream-stall-timeout for clients that do not read; a call's own time limit is its "
     "gRPC deadline"},
    {"-hft --hf-token", "use the environment variable HF_TOKEN"},
    {"--backend", "not needed: there is one engine; --device chooses where it runs"},
    {"--extra-llm-api-options --extra-llm-api-config",
     "use --config FILE, JSON with these flags as keys"},
    {"--weights-cache-override --huggingface-hub-cache",
     "use the environment variable HF_HUB_CACHE"},
    {"--offline", "use the environment variable HF_HUB_OFFLINE=1"},
    // Set by each request here.
    {"-n --predict --n-predict", "use the request's max_tokens"},
    {"--temp --temperature --top-k --top-p --min-p --repeat-penalty --presence-penalty "
     "--frequency-penalty --logit-bias -l --ignore-eos -r --reverse-prompt -sp --special --n-probs",
     "use the request's fields (quire generate --help); the defaults come from the model's "
     "generation_config.json"},
    {"--override-generation-config --preferred-sampling-params",
     "not supported yet; send the values with the requests, or change generation_config.json "
     "in a copy of the model"},
    {"--samplers --sampler-seq --sampling-seq --top-nsigma --top-n-sigma --xtc-* --typical "
     "--typical-p --repeat-last-n --dry-* --adaptive-* --dynatemp-* --mirostat* "
     "--backend-sampling -bs --sampling-backend --sampling-defaults",
     "not supported yet: requests choose temperature, top_k, top_p, min_p, penalties and "
     "logit_bias"},
    {"--logits-processor-pattern --logits-processors --enable-custom-logit-processor",
     "not supported yet: requests may send logit_bias"},
    {"-p --prompt -f --file --binary-file -sys --system-prompt --system-prompt-file -i "
     "--interactive "
     "-cnv -no-cnv --conversation -st --single-turn -mli --multiline-input --simple-io -co --color "
     "--in-prefix --in-suffix --no-display-prompt --verbose-prompt -ptc --print-token-count",
     "use quire chat or quire generate, which talk to the server"},
    {"--max-stop-sequences", "not needed: requests may have up to 64 stop strings"},
    {"--max-client-batch-size --payload-limit",
     "not needed: a request may have 64 prompts and 4 MiB; docs/openai.md has all limits"},
    {"--max-logprobs --max-top-n-tokens", "not needed: requests may ask for up to 20 logprobs"},
    {"--logprobs-mode", "not supported yet: there is one kind of logprobs"},
    {"--scheduling-policy --schedule-policy --enable-priority-scheduling "
     "--abort-on-priority-when-disabled --schedule-low-priority-values-first "
     "--priority-scheduling-*",
     "not needed: requests run by their priority field, equal ones in order of arrival"},
    {"--max-beam-width --use-beam-search", "not supported yet: requests sample n continuations"},
    {"--max-best-of", "use the request's n"},
    // Always so, or done without being told.
    {"--trust-remote-code --code-revision",
     "not needed: no code from a model's folder is ever run"},
    {"--enable-chunked-prefill --enable-mixed-chunk",
     "not needed: prompts are always computed in chunks of --max-num-batched-tokens"},
    {"--max-num-partial-prefills --max-long-partial-prefills --long-prefill-token-threshold "
     "--scheduler-reserve-full-isl --num-lookahead-slots --num-scheduler-steps "
     "--multi-step-stream-outputs --scheduler-delay-factor --scheduler-cls "
     "--scheduler-recv-interval --schedule-conservativeness --max-waiting-tokens "
     "--enable-dynamic-chunking --enable-prefill-delayer --prefill-schedule-interval --watermark "
     "--num-continuous-decode-steps --pp-max-micro-batch-size --disable-chunked-prefix-cache "
     "--radix-eviction-policy --swa-full-tokens-ratio --disable-hybrid-swa-memory "
     "--waiting-served-ratio --preemption-mode --use-v2-block-manager --external-parameters "
     "--disable-hybrid-kv-cache-manager --max-batch-total-tokens",
     "not needed: the scheduler fills each step up to --max-num-batched-tokens, answers first"},
    {"-cb -nocb --cont-batching", "not needed: requests are always batched continuously"},
    {"-fa --flash-attn --mm-attention-backend "
     "--decode-attention-backend --prefill-attention-backend --attention-config -ac "
     "--nsa-* --flashinfer-mla-* --gdn-* --disable-custom-kernels",
     "not needed: attention is always computed in one pass; --attention-backend chooses the "
     "kernels"},
    {"--jinja", "not needed: chat templates are always rendered as Jinja"},
    {"--warmup --warmups --skip-server-warmup",
     "not needed: the server warms up before it reports ready"},
    {"--swap-space --swap-blocks",
     "not needed: a sequence that must give way is recomputed later, with the same result"},
    {"--prefix-caching-hash-algo",
     "not needed: a prefix is reused only if all its tokens are equal"},
    {"-fit --fit -fitt --fit-target -fitc --fit-ctx",
     "not needed: what is not set is fitted to the device's memory"},
    {"--cuda-graph-* --cudagraph-* --max-cudagraph-capture-size --max-seq-len-to-capture "
     "--compilation-config -O* -cc --optimization-level --performance-mode --kernel-config "
     "--enable-torch-compile --torch-compile-* --additional-config --profiler-config "
     "--triton-* --cuda-graphs --disable-cuda-graph-padding --enable-profile-cuda-graph "
     "--linear-backend --ir-op-priority --jit-monitor-mode",
     "not needed: nothing is compiled at run time, and graphs are captured for all batch sizes "
     "(--enforce-eager turns them off)"},
    {"--safetensors-load-strategy --model-loader-extra-config --ignore-patterns "
     "--use-tqdm-on-load --pt-load-map-location --max-parallel-loading-workers "
     "--weight-loader-* --mmap --mlock -lm --load-mode -lzm --lazy-mode --direct-io -dio "
     "--check-tensors --repack -nr --no-host --safetensors-prefetch-* --delete-ckpt-after-loading "
     "--custom-weight-loader --remote-instance-*",
     "not needed: weights are read with parallel threads and checked against config.json"},
    {"--disable-custom-all-reduce --ray-workers-use-nsight --worker-cls --worker-extension-cls "
     "--worker-use-ray --disable-nccl-for-dp-synchronization "
     "--disable-frontend-multiprocessing --engine-use-ray --tokenizer-worker-num "
     "--detokenizer-worker-num --api-server-count -asc --headless --tokenizer-pool-* "
     "--num-postprocess-workers --threads-http --validation-workers --post-processors "
     "--shard-uds-path --nccl-port --dist-timeout --enable-nccl-nvls --enable-symm-mem "
     "--enable-torch-symm-mem --enable-mscclpp --enable-p2p-check --enable-tokenizer-batch-encode "
     "--disable-tokenizer-batch-decode --sleep-on-idle --proxy-url --env --power",
     "not needed: one process serves, without worker processes"},
    {"-C -Cr -Cb -Crb --cpu-mask* --cpu-range* --cpu-strict* --numa* --prio* --poll*",
     "use taskset, numactl or nice to start the server; --num-threads sets the number of "
     "threads"},
    {"--fail-*", "not needed: what cannot work ends the start, and the line says what to change"},
    {"--license", "use --version; the licence is in the file LICENSE"},
    {"--list-devices", "use nvidia-smi; --device chooses between cpu and cuda"},
    {"--log-jsonl --json-output", "use --log-format json"},
    {"--log-requests* --enable-log-requests --disable-log-requests "
     "--disable-access-log-for-endpoints --disable-uvicorn-access-log",
     "use --access-log or --no-access-log"},
    {"--log-disable --log-file --log-colors --log-prefix --log-timestamps --log-config-file "
     "--disable-log-* --log-error-stack --aggregate-engine-logging --perf --decode-log-interval "
     "--show-time-cost --gc-warning-* --enable-request-time-stats-logging",
     "not needed: the log goes to standard error; --log-level sets how much"},
    {"--log-prompts-dir --enable-log-* --max-log-len --crash-dump-folder --export-metrics-to-file "
     "--debug-tensor-*",
     "not supported yet: the log never has prompts or answers"},
    {"--enable-nan-detection",
     "not needed: a request whose logits are no numbers always ends with an error"},
    {"--tokens-only", "use --skip-tokenizer-init"},
    {"--escape -e", "not needed: requests are JSON or Protobuf, which have escapes of their own"},
    {"--keep --context-shift --allow-auto-truncate",
     "not supported yet: a request longer than --max-model-len is refused, never shortened"},
    {"--kv-unified -kvu -no-kvu --slot-prompt-similarity -sps --cache-reuse --cache-idle-slots "
     "--ctx-checkpoints -ctxcp --swa-checkpoints --checkpoint-min-step -cms -cpent "
     "--checkpoint-every-n-tokens --swa-full --defrag-thold -dt",
     "not needed: the cache has blocks, not slots, and equal prefixes share them"},
    {"--slot-save-path --slots --cache-ram -cram --prompt-cache* --enable-lmcache",
     "not supported yet: the prefix cache is in the device's memory alone; /status and /metrics "
     "say how full it is"},
    {"--grpc --smg-grpc-mode --grpc-mode", "not needed: gRPC is what this server speaks"},
    // vLLM's and llama-server's HTTP.
    {"--uds", "not supported yet: the server listens on a TCP port (--host, --port)"},
    {"--root-path --fastapi-root-path --api-prefix --path --middleware",
     "not supported yet: paths are fixed, /v1 and what docs/openai.md lists; a proxy can change "
     "them"},
    {"--response-role", "not supported yet: answers have the role assistant"},
    {"--return-tokens-as-token-ids",
     "not supported yet as a flag: requests have the field return_tokens_as_token_ids"},
    {"--enable-force-include-usage",
     "not supported yet: streams have their usage for requests with stream_options.include_usage"},
    {"--stream-interval --stream-output", "not supported yet: streams send each token as it comes"},
    {"--agent -ag -no-ag --tools* --mcp-* --tool-server --webui-mcp-*",
     "not supported yet: clients run the tools that a model calls"},
    {"--props --tags", "not supported yet: /v1/models and /status say what is served"},
    {"--enable-server-load-tracking", "use /metrics, which says what runs and waits"},
    {"--enable-request-id-headers --enable-prompt-tokens-details --enable-cache-report "
     "--disable-fastapi-docs --enable-offline-docs --h11-* "
     "--reuse-port --ui* --webui* --enable-http2",
     "not needed: docs/openai.md has what OpenAI's interface does here"},
    {"--ngrok --usage-stats", "not needed: the server calls nobody but the hub and your collector"},
    {"--cors-* --allow-credentials --allowed-methods --allowed-headers", "use --allowed-origins"},
    {"--api-key --admin-api-key",
     "use --api-key-file: a key among the flags is seen by everybody on the machine"},
    {"--ssl-certfile --ssl-cert-file --tls-cert-path --tls-certificate", "use --tls-cert"},
    {"--ssl-keyfile --ssl-key-file --tls-key-path", "use --tls-key"},
    {"--ssl-ca-certs", "use --tls-client-ca"},
    {"--ssl-cert-reqs",
     "use --tls-client-ca: with it clients must show a certificate, or a key if there is an "
     "--api-key-file"},
    {"--enable-ssl-refresh",
     "not needed: certificates are read again when their files change, and on SIGHUP"},
    {"--ssl-* --tls-*", "not needed: --tls-cert and --tls-key are enough for TLS 1.2 and 1.3"},
    {"--metrics --enable-metrics --prometheus-*",
     "not needed: /metrics is always there, and --metrics-access says who may read it"},
    {"--enable-trace --otlp-endpoint --oltp-traces-endpoint", "use --otlp-traces-endpoint"},
    {"--otlp-service-name", "use the environment variable OTEL_SERVICE_NAME"},
    {"--collect-detailed-traces --trace-level",
     "not needed: with --otlp-traces-endpoint every trace has its queue, prefill and decode"},
    {"--show-hidden-metrics-for-version --kv-cache-metrics* --cudagraph-metrics "
     "--enable-layerwise-nvtx-tracing --enable-mfu-metrics --enable-logging-iteration-details "
     "--enable-metrics-for-* --tokenizer-metrics-* --bucket-* --collect-tokens-* "
     "--prompt-tokens-buckets --generation-tokens-buckets --expert-distribution-* "
     "--enable-expert-distribution-metrics --enable-mm-processor-stats",
     "not supported yet: docs/metrics.md lists what /metrics tells"},
    // What is missing.
    {"--tokenizer --tokenizer-mode --tokenizer-path --tokenizer-revision --tokenizer-backend "
     "--hf-config-path --config-format --model-impl --custom-tokenizer --custom-module-dirs "
     "--tokenizer-config-path --model-class-overrides --decrypted-config-file",
     "not supported yet: tokenizer and config.json come from the model's folder"},
    {"--hf-overrides --override-kv --json-model-override-args --override-attention-dtype "
     "--rope-* --yarn-* -gan -gaw --grp-attn-*",
     "not supported yet: change config.json in a copy of the model's folder"},
    {"--runner --convert --task --pooler-config --override-pooler-config --pooling --embedding "
     "--embeddings --embd-normalize --embd-* --rerank --reranking --is-embedding "
     "--io-processor-plugin --spm-infill --infill --fim-* --vision-* --gpt-oss-* -hfv --hf-repo-v "
     "--hf-file-v -mv --model-vocoder --tts-* --diffusion-* --dllm-* --extra-visual-* "
     "--multi-item-scoring-*",
     "not supported yet: the server generates text and nothing else"},
    {"--quantization-param-path --quantize --allow-deprecated-quantization "
     "--quantization-config --modelopt-* --model-format --awq --gptq",
     "not needed: a quantized checkpoint says how it is kept; others are served in --dtype"},
    {"--torchao-config --enable-fp32-lm-head --quant-policy --load-in-* --bnb-*",
     "not supported yet: weights are served as the checkpoint has them, or in --dtype"},
    {"-ctk -ctv --cache-type-k --cache-type-v",
     "not supported yet: keys and values have one data type, that of --kv-cache-dtype"},
    {"--kv-sharing-fast-prefill --mamba-cache-mode --mamba-cache-dtype --mamba-backend "
     "--mamba-scheduler-strategy",
     "not supported yet: there is one way to keep recurrent states"},
    {"--mamba-track-interval", "use --mamba-block-size"},
    {"--max-mamba-cache-size --mamba-full-memory-ratio", "use --state-cache-memory-bytes"},
    {"--mamba-ssm-dtype", "use --mamba-ssm-cache-dtype"},
    {"-hff --hf-file -mu --model-url -dr --docker-repo --gguf-*",
     "not supported yet: --model takes a folder with safetensors files"},
    {"--models-* -cl --cache-list",
     "not supported yet: one server serves one model; start one per model, each with its own "
     "--port"},
    {"--allowed-local-media-path --allowed-media-domains --limit-mm-* --enable-mm-embeds "
     "--media-* --mm-* -mm -mmu -mmdev --mmproj* --interleave-mm-strings --skip-mm-profiling "
     "--video-* --image-* --mtmd-* --language-model-only --disable-mm-preprocessor-cache "
     "--disable-fast-image-processor --keep-mm-feature-on-device "
     "--enable-multimodal* --disable-chunked-mm-input --enable-prompt-embeds "
     "--renderer-num-workers",
     "not supported yet: prompts are text or token ids"},
    {"--enable-auto-tool-choice",
     "not needed: calls of tools are read unless --tool-call-parser is none"},
    {"--exclude-tools-when-tool-choice-none",
     "not needed: tools are never in the prompt of a request with tool_choice none"},
    {"--enable-reasoning --reasoning-format", "use --reasoning-parser"},
    {"--tool-parser", "use --tool-call-parser"},
    {"--skip-chat-parsing", "use --tool-call-parser none and --reasoning-parser none"},
    {"--reasoning --reasoning-budget* -rea",
     "use the requests' chat_template_kwargs, such as enable_thinking"},
    {"--tool-parser-plugin --reasoning-parser-plugin --reasoning-config",
     "not supported yet: --tool-call-parser and --reasoning-parser name the ways that are known"},
    {"--guided-decoding-* --structured-outputs-config --grammar --grammar-file "
     "--grammar-backend --json-schema -j -jf --json-schema-file --constrained-json-* "
     "--disable-grammar-support --disable-outlines-disk-cache",
     "not supported yet: answers follow no grammar or schema"},
    {"--chat-template-kwargs --default-chat-template-kwargs",
     "use the requests' chat_template_kwargs, over gRPC template_kwargs_json"},
    {"--chat-template-content-format --trust-request-chat-template --prefill-assistant "
     "--completion-template --hf-chat-template-name",
     "not supported yet as a flag: --chat-template FILE replaces the model's template"},
    {"--enable-lora --enable-lora-bias --max-loras* --max-loaded-loras --max-lora-* --lora* "
     "--max-cpu-loras "
     "--fully-sharded-loras --default-mm-loras --long-lora-scaling-factors "
     "--enable-tower-connector-lora --specialize-active-lora --enable-prompt-adapter "
     "--max-prompt-adapter* --control-vector* --adapters --qlora-* --enable-mixed-moe-lora-format",
     "not supported yet: merge the adapter into the model's weights"},
    {"--speculative-* --num-speculative-tokens --ngram-* --spec-* --model-draft -md --draft* "
     "-devd -ngld -td -tbd -hfd -hfrd -ctkd -ctvd --lookup-cache-* -lcs -lcd "
     "--gpu-layers-draft --device-draft --threads-draft --hf-repo-draft --typical-acceptance-* "
     "--disable-logprobs-during-spec-decoding --speculate -sc --mtp --seq-draft "
     "--override-tensor-draft -otd "
     "--cpu-moe-draft -cmoed --n-cpu-moe-draft -ncmoed --threads-batch-draft -cd -ctxd "
     "--ctx-size-draft --n-gpu-layers-draft --enable-multi-layer-eagle",
     "not supported yet: no speculative decoding"},
    {"--pipeline-parallel-size -pp --pp-size --decode-context-parallel-size -dcp "
     "--prefill-context-parallel-size -pcp --dcp-* --cp-* --data-parallel-* -dp -dpn -dpr -dpl "
     "-dpa -dpp -dpb -dph -dpe --dp-size --distributed-* --nnodes --node-rank --master-addr "
     "--master-port --dist-init-addr --rpc -sm --split-mode -ts --tensor-split -mg --main-gpu "
     "--gpu-id* --base-gpu-id --device-ids --device-map --sharded --gpus-per-node --cluster-size "
     "--enable-dp-* --load-balance-method --enable-attention-dp --enable-two-batch-overlap "
     "--enable-single-batch-overlap --tbo-* --enable-attn-tp-* "
     "--enable-flashinfer-allreduce-fusion",
     "not supported yet: one server uses one GPU (CUDA_VISIBLE_DEVICES chooses it); start one "
     "per GPU, each with its own --port"},
    {"--enable-expert-parallel -ep --ep-size --all2all-backend --enable-dbo --dbo-* "
     "--enable-eplb --eplb-* --expert-placement-strategy --num-redundant-experts "
     "--enable-elastic-ep --elastic-ep-* --deepep-* --flashinfer-mxfp4-* "
     "--disable-shared-experts-* "
     "--enable-return-routed-experts --kt-* --ep --mooncake-* "
     "--enable-ep-weight-filter --moe-* -cmoe --cpu-moe -ncmoe --n-cpu-moe -ncffn --n-cpu-ffn",
     "not supported yet: no mixture-of-experts models"},
    {"--cpu-offload-gb --cpu-offload-params --offload-* --kv-offload -kvo -nkvo "
     "--kv-offloading-* --op-offload -ot --override-tensor --enable-hierarchical-cache "
     "--hicache-*",
     "not supported yet: weights and KV cache stay on one device"},
    {"--kv-transfer-config --ec-transfer-config --weight-transfer-config "
     "--disaggregation-* --metadata-server-config-file --server-role --role --disagg-* "
     "--enable-pdmux",
     "not supported yet: the KV cache does not leave the server"},
    {"--enable-sleep-mode --sleep-idle-seconds --enable-memory-saver --enable-weights-cpu-backup "
     "--weight-version --checkpoint-engine-* --rl-on-policy-target",
     "not supported yet: the server keeps its memory until it ends"},
    {"--logits-all --enable-return-hidden-states --enable-prefill-logprobs",
     "not supported yet: requests may ask for the logprobs of prompts and answers"},
    {"--watermark-*", "not supported yet: answers carry no mark"},
    {"--disable-sliding-window", "not supported yet: a model's sliding window is always used"},
    {"--completion-bash", "not supported yet; --help lists the flags"},
};

// Of vllm, sglang, ollama and llama. MODEL is what follows the word, COMMAND the word itself.
struct ForeignCommands {
  absl::string_view names;
  absl::string_view advice;
};
constexpr ForeignCommands kCommands[] = {
    {"serve start launch", "leave out \"COMMAND\": quire-server MODEL serves"},
    {"run", "leave out \"run\": quire-server MODEL serves, and quire chat talks to it"},
    {"chat", "quire-server MODEL serves; quire chat talks to it"},
    {"complete generate", "quire-server MODEL serves; quire generate talks to it"},
    {"pull download",
     "leave out \"COMMAND\": quire-server MODEL downloads what is missing, and serves"},
    {"list ls",
     "a server has one model, and no list: quire info says which; what was downloaded lies "
     "in the Hugging Face cache"},
    {"show ps", "quire info says what a server serves, and its /status what it does"},
    {"stop", "a server ends with Ctrl-C or SIGTERM"},
    {"rm cp create push",
     "models are folders and what lies in the Hugging Face cache: no command here "
     "changes them"},
    {"bench", "quire-bench measures"},
    {"help", "quire-server --help lists the flags"},
    {"version", "quire-server --version says it"},
};

bool Names(const ForeignFlags& entry, absl::string_view flag) {
  for (absl::string_view name : absl::StrSplit(entry.names, ' ')) {
    const bool is_prefix = absl::ConsumeSuffix(&name, "*");
    if (is_prefix ? absl::StartsWith(flag, name) : flag == name) return true;
  }
  return false;
}

absl::string_view Find(absl::string_view flag, absl::Span<const ForeignFlags> table) {
  for (const ForeignFlags& entry : table) {
    if (Names(entry, flag)) return entry.advice;
  }
  return {};
}

}  // namespace

absl::Span<const ForeignFlags> ForeignFlagTable() { return kTable; }

std::string ForeignCommandAdvice(absl::string_view command, absl::string_view model) {
  for (const ForeignCommands& entry : kCommands) {
    for (const absl::string_view name : absl::StrSplit(entry.names, ' ')) {
      if (name != command) continue;
      const absl::string_view shown = model.empty() ? "MODEL" : model;
      return absl::StrCat(
          absl::StrReplaceAll(entry.advice, {{"MODEL", shown}, {"COMMAND", command}}),
          " (a folder of that name is ./", command, ")");
    }
  }
  return "";
}

std::string ForeignFlagAdvice(absl::string_view flag, absl::Span<const ForeignFlags> table) {
  const std::string dashed =
      absl::StrReplaceAll(flag.substr(0, flag.find_first_of("=.")), {{"_", "-"}});
  absl::string_view name = dashed;
  if (name.size() < 2) return "";
  if (const absl::string_view advice = Find(name, table); !advice.empty())
    return std::string(advice);
  if (!absl::ConsumePrefix(&name, "--no-")) return "";
  return std::string(Find(absl::StrCat("--", name), table));
}

}  // namespace quire
