// Flags that users of other servers type get a sentence that holds.
#include "server/start/settings/foreign_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/start/settings/setting_table.h"
#include "server/start/settings/settings_parser.h"

namespace quire {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The flags of `vllm serve` (0.11) and of llama-server (2026) that are in use.
constexpr char kVllm[] =
    "--headless --api-server-count --config --host --port --uds --uvicorn-log-level "
    "--disable-uvicorn-access-log --allow-credentials --allowed-origins --allowed-methods "
    "--allowed-headers --api-key --lora-modules --chat-template "
    "--chat-template-content-format --trust-request-chat-template "
    "--default-chat-template-kwargs --response-role --ssl-keyfile --ssl-certfile "
    "--ssl-ca-certs --enable-ssl-refresh --ssl-cert-reqs --root-path --middleware "
    "--return-tokens-as-token-ids --disable-frontend-multiprocessing "
    "--enable-request-id-headers --enable-auto-tool-choice "
    "--exclude-tools-when-tool-choice-none --tool-call-parser --tool-parser-plugin "
    "--tool-server --log-config-file --max-log-len --disable-fastapi-docs "
    "--enable-prompt-tokens-details --enable-server-load-tracking "
    "--enable-force-include-usage --enable-tokenizer-info-endpoint --enable-log-outputs "
    "--enable-log-requests --h11-max-incomplete-event-size --h11-max-header-count "
    "--log-error-stack --tokens-only --disable-log-stats --aggregate-engine-logging --model "
    "--runner --convert --task --tokenizer --tokenizer-mode --trust-remote-code --dtype "
    "--seed --hf-config-path --allowed-local-media-path --allowed-media-domains "
    "--code-revision --rope-scaling --rope-theta --tokenizer-revision --max-model-len "
    "--quantization --enforce-eager --max-logprobs --logprobs-mode --disable-sliding-window "
    "--disable-cascade-attn --skip-tokenizer-init --enable-prompt-embeds --served-model-name "
    "--config-format --hf-token --hf-overrides --pooler-config --override-pooler-config "
    "--logits-processor-pattern --generation-config --override-generation-config "
    "--enable-sleep-mode --model-impl --override-attention-dtype --logits-processors "
    "--io-processor-plugin --load-format --safetensors-load-strategy "
    "--model-loader-extra-config --ignore-patterns --use-tqdm-on-load --pt-load-map-location "
    "--reasoning-parser --guided-decoding-backend --guided-decoding-disable-fallback "
    "--guided-decoding-disable-any-whitespace --guided-decoding-disable-additional-properties "
    "--structured-outputs-config --distributed-executor-backend --pipeline-parallel-size "
    "--tensor-parallel-size --decode-context-parallel-size --data-parallel-size "
    "--data-parallel-rank --data-parallel-start-rank --data-parallel-size-local "
    "--data-parallel-address --data-parallel-rpc-port --data-parallel-backend "
    "--data-parallel-hybrid-lb --data-parallel-external-lb --enable-expert-parallel "
    "--all2all-backend --enable-dbo --dbo-decode-token-threshold "
    "--dbo-prefill-token-threshold --disable-nccl-for-dp-synchronization --enable-eplb "
    "--eplb-config --expert-placement-strategy --num-redundant-experts --eplb-window-size "
    "--eplb-step-interval --eplb-log-balancedness --max-parallel-loading-workers "
    "--ray-workers-use-nsight --disable-custom-all-reduce --worker-cls --worker-extension-cls "
    "--enable-multimodal-encoder-data-parallel --nnodes --node-rank --master-addr "
    "--master-port --block-size --gpu-memory-utilization --kv-cache-memory-bytes --swap-space "
    "--kv-cache-dtype --num-gpu-blocks-override --enable-prefix-caching "
    "--prefix-caching-hash-algo --cpu-offload-gb --calculate-kv-scales "
    "--kv-sharing-fast-prefill --mamba-cache-dtype --mamba-ssm-cache-dtype --mamba-block-size "
    "--kv-offloading-size --kv-offloading-backend --attention-backend --limit-mm-per-prompt "
    "--enable-mm-embeds --media-io-kwargs --mm-processor-kwargs --mm-processor-cache-gb "
    "--disable-mm-preprocessor-cache --mm-processor-cache-type "
    "--mm-shm-cache-max-object-size-mb --mm-encoder-tp-mode --mm-encoder-attn-backend "
    "--interleave-mm-strings --skip-mm-profiling --video-pruning-rate --enable-lora "
    "--max-loras --max-lora-rank --lora-extra-vocab-size --lora-dtype --max-cpu-loras "
    "--fully-sharded-loras --default-mm-loras --show-hidden-metrics-for-version "
    "--otlp-traces-endpoint --collect-detailed-traces --max-num-batched-tokens --max-num-seqs "
    "--max-num-partial-prefills --max-long-partial-prefills --long-prefill-token-threshold "
    "--num-lookahead-slots --scheduling-policy --enable-chunked-prefill "
    "--disable-chunked-mm-input --scheduler-cls --disable-hybrid-kv-cache-manager "
    "--async-scheduling --stream-interval --cudagraph-capture-sizes --cuda-graph-sizes "
    "--max-cudagraph-capture-size --speculative-config --kv-transfer-config "
    "--kv-events-config --ec-transfer-config --compilation-config --additional-config -q -tp "
    "-pp -dp -dcp -dpn -dpr -dpl -dpa -dpp -dpb -O -asc -ac";

constexpr char kLlamaServer[] =
    "--threads --threads-batch --cpu-mask --cpu-range --cpu-strict --prio --poll "
    "--cpu-mask-batch --cpu-range-batch --ctx-size --predict --n-predict --batch-size "
    "--ubatch-size --keep --swa-full --flash-attn --perf --escape --rope-scaling --rope-scale "
    "--rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor --kv-offload "
    "--repack --no-host --cache-type-k --cache-type-v --defrag-thold --rpc --load-mode "
    "--mlock --no-mmap --numa --device --list-devices --override-tensor --cpu-moe --n-cpu-moe "
    "--gpu-layers --n-gpu-layers --split-mode --tensor-split --main-gpu --fit --check-tensors "
    "--override-kv --op-offload --lora --lora-scaled --control-vector --model --model-url "
    "--docker-repo --hf-repo --hf-file --hf-token --log-disable --log-file --log-colors "
    "--verbose --offline --verbosity --log-prefix --log-timestamps --samplers --seed "
    "--ignore-eos --temp --top-k --top-p --min-p --xtc-probability --typical --repeat-last-n "
    "--repeat-penalty --presence-penalty --frequency-penalty --dry-multiplier "
    "--dynatemp-range --mirostat --logit-bias --grammar --grammar-file --json-schema "
    "--ctx-checkpoints --cache-ram --kv-unified --context-shift --reverse-prompt --special "
    "--warmup --spm-infill --pooling --parallel --cont-batching --mmproj --mmproj-url "
    "--image-min-tokens --alias --tags --host --port --reuse-port --path --cors-origins "
    "--api-prefix --webui-config --tools --embeddings --reranking --api-key --api-key-file "
    "--ssl-key-file --ssl-cert-file --chat-template-kwargs --timeout --threads-http "
    "--cache-prompt --cache-reuse --metrics --props --slots --slot-save-path --media-path "
    "--models-dir --models-max --jinja --reasoning-format --reasoning-budget --chat-template "
    "--chat-template-file --prefill-assistant --slot-prompt-similarity --sleep-idle-seconds "
    "--draft-max --model-draft --spec-type --lookup-cache-static -t -tb -C -c -n -b -ub -fa "
    "-e -ctk -ctv -dt -dev -ot -cmoe -ngl -sm -ts -mg -m -mu -hf -hff -hft -v -lv -s -l -j "
    "-np -cb -mm -a -to -sps -md";

// Of SGLang (2026), later versions of vLLM and llama-server, TGI, trtllm-serve and LMDeploy.
constexpr char kOthers[] =
    "--warmups --nccl-port --checkpoint-engine-wait-weights-before-ready --modelopt-quant "
    "--modelopt-export-path --enable-dynamic-chunking --abort-on-priority-when-disabled "
    "--schedule-low-priority-values-first --priority-scheduling-preemption-threshold "
    "--page-size --swa-full-tokens-ratio --disable-hybrid-swa-memory "
    "--radix-eviction-policy --pp-max-micro-batch-size --dist-timeout --gpu-id-step "
    "--sleep-on-idle --crash-dump-folder --show-time-cost "
    "--enable-metrics-for-all-schedulers --tokenizer-metrics-custom-labels-header "
    "--bucket-time-to-first-token --bucket-inter-token-latency --collect-tokens-histogram "
    "--prompt-tokens-buckets --generation-tokens-buckets --gc-warning-threshold-secs "
    "--enable-request-time-stats-logging --oltp-traces-endpoint --export-metrics-to-file "
    "--weight-version --enable-cache-report --load-balance-method --lora-paths "
    "--lora-target-modules --max-loaded-loras --max-loras-per-batch "
    "--lora-eviction-policy --lora-backend --nsa-prefill-backend --speculative-algorithm "
    "--speculative-num-steps --speculative-eagle-topk --moe-a2a-backend "
    "--moe-runner-backend --flashinfer-mxfp4-moe-precision "
    "--enable-flashinfer-allreduce-fusion --deepep-mode "
    "--enable-expert-distribution-metrics --expert-distribution-recorder-mode "
    "--elastic-ep-backend --mooncake-ib-device --max-mamba-cache-size "
    "--mamba-full-memory-ratio --enable-lmcache --kt-cpuinfer "
    "--multi-item-scoring-delimiter --cuda-graph-max-bs --disable-cuda-graph-padding "
    "--enable-profile-cuda-graph --enable-nccl-nvls --enable-symm-mem "
    "--enable-tokenizer-batch-encode --disable-tokenizer-batch-decode "
    "--disable-outlines-disk-cache --enable-mscclpp --enable-torch-symm-mem "
    "--enable-dp-attention --enable-dp-lm-head --enable-two-batch-overlap "
    "--enable-single-batch-overlap --tbo-token-distribution-threshold "
    "--enable-nan-detection --enable-p2p-check --num-continuous-decode-steps "
    "--delete-ckpt-after-loading --enable-weights-cpu-backup --allow-auto-truncate "
    "--flashinfer-mla-disable-ragged --disable-shared-experts-fusion "
    "--disable-chunked-prefix-cache --disable-fast-image-processor "
    "--keep-mm-feature-on-device --enable-return-hidden-states --numa-node "
    "--enable-deterministic-inference --rl-on-policy-target "
    "--enable-attn-tp-input-scattered --debug-tensor-dump-output-folder "
    "--custom-weight-loader --remote-instance-weight-loader-seed-instance-ip "
    "--enable-pdmux --mm-max-concurrent-calls --decrypted-config-file "
    "--tensor-parallel-size --tp-size --dp-size --ep --enable-multi-layer-eagle "
    "--draft-window-size --dllm-algorithm --enable-multimodal --enable-prefill-delayer "
    "--admin-api-key --enable-http2 --stream-interval --uds --enable-trace --trace-level "
    "--enable-return-routed-experts --moe-backend --cp-kv-cache-interleave-size "
    "--dcp-comm-backend --mm-tensor-ipc --fail-on-environ-validation "
    "--enable-mm-processor-stats -sc --ssl-ciphers --enable-mixed-moe-lora-format "
    "--spec-method --spec-model --spec-tokens --numa-bind --ir-op-priority "
    "--enable-elastic-ep --distributed-timeout-seconds --linear-backend "
    "--model-class-overrides --disable-log-stats --enable-log-outputs --enable-log-deltas "
    "--scheduler-reserve-full-isl --lora-modules --max-lora-rank --num-speculative-tokens "
    "--speculative-model --device-map --guided-decoding-backend --enable-prompt-adapter "
    "--cpu-offload-gb --kv-transfer-config --generation-config --disable-log-requests "
    "--rope-scaling --rope-theta --worker-use-ray --max-model-len --hf-token "
    "--use-v2-block-manager --num-scheduler-steps --multi-step-stream-outputs "
    "--max-parallel-loading-workers --ray-workers-use-nsight --max-context-len-to-capture "
    "--qlora-adapter-name-or-path --otlp-traces-endpoint --limit-mm-per-prompt "
    "--calculate-kv-scales --collect-detailed-traces --allowed-origins --async-scheduling "
    "--data-parallel-size --disable-sliding-window --distributed-executor-backend "
    "--enable-chunked-prefill --enable-lora --enforce-eager --api-server-count "
    "--kv-cache-dtype --kv-cache-dtype-skip-layers --gdn-prefill-backend --mamba-backend "
    "--attention-backend --default-mm-loras --structured-outputs-config "
    "--shutdown-timeout --enable-flashinfer-autotune --jit-monitor-mode "
    "--quantization-config --optimization-level --kv-offloading-size "
    "--prefill-schedule-interval --watermark --safetensors-prefetch-num-threads "
    "--mm-device-worker-count --lora --lora-scaled --lora-init-without-apply --lora-base "
    "--draft-max --draft-min --draft-p-min --rerank --mmproj-auto --override-tensor-draft "
    "-otd --cpu-moe-draft -cmoed --n-cpu-moe-draft -ncmoed --threads-batch-draft "
    "--spec-default --models-preset --models-autoload --media-path -hfv --hf-repo-v "
    "--hf-file-v -mv --model-vocoder --tts-use-guide-tokens --license "
    "--embd-gemma-default --gpt-oss-20b-default --vision-gemma-4b-default "
    "--fim-qwen-7b-default --diffusion-steps --logits-all -gaw --grp-attn-w --poll-batch "
    "--prio-batch -ctxd -cd --ctx-size-draft --n-gpu-layers-draft --webui --embedding "
    "--slots --n-gpu-layers --rope-freq-base --grammar --json-schema --threads-http "
    "--log-verbose --cache-list --system-prompt -sys --system-prompt-file "
    "--chat-template-kwargs --reasoning-budget --reasoning-format --infill -i "
    "--interactive --conversation -cnv -no-cnv -p --prompt --file -f --binary-file "
    "--color -co --multiline-input -mli --simple-io --print-token-count -ptc "
    "--verbose-prompt --in-prefix --in-suffix --single-turn -st --prompt-cache "
    "--prompt-cache-all --seq-draft --spec-replace -cpent --checkpoint-every-n-tokens "
    "--mtp --sse-ping-interval --spec-ngram-size-n --power --n-probs --tools "
    "--webui-mcp-proxy --ui-config --samplers --backend-sampling --sleep-idle-seconds "
    "--max-stop-sequences --cuda-graphs --hostname --prometheus-port --shard-uds-path "
    "--weights-cache-override --disable-custom-kernels --rope-factor --otlp-endpoint "
    "--otlp-service-name --watermark-gamma --watermark-delta --ngrok "
    "--tokenizer-config-path --disable-grammar-support --env --max-client-batch-size "
    "--lora-adapters --usage-stats --payload-limit --enable-prefill-logprobs "
    "--graceful-termination-timeout --speculate --quantize "
    "--fail-fast-on-attention-window-too-large --disagg-cluster-uri "
    "--moe-expert-parallel-size --moe-cluster-parallel-size --enable-attention-dp "
    "--cp-size --hf-revision --post-processors --free-gpu-memory-fraction "
    "--extra-visual-gen-options --session-len --cache-max-entry-count --quant-policy "
    "--server-name --server-port --proxy-url --model-name --model-format "
    "--cache-block-seq-len --adapters --max-prefill-token-num --num-tokens-per-iter "
    "--role --tensor-parallel --num-gpus --max-gpu-memory --nthreads";

bool IsOurs(absl::string_view flag) {
  for (const Setting& setting : SettingTable()) {
    if (flag == setting.flag()) return true;
  }
  return flag == "--config";
}

TEST(ForeignFlagsTest, EveryFlagOfTheOthersIsOursOrHasASentence) {
  for (const char* flags : {kVllm, kLlamaServer, kOthers}) {
    for (absl::string_view flag : absl::StrSplit(flags, ' ')) {
      EXPECT_NE(IsOurs(flag), !ForeignFlagAdvice(flag).empty()) << flag;
    }
  }
}

TEST(ForeignFlagsTest, SentencesBeginInThreeWays) {
  std::set<std::string> names;
  for (const ForeignFlags& entry : ForeignFlagTable()) {
    EXPECT_THAT(std::string(entry.advice), AnyOf(StartsWith("use "), StartsWith("not needed: "),
                                                 StartsWith("not supported yet")));
    for (absl::string_view name : absl::StrSplit(entry.names, ' ')) {
      EXPECT_TRUE(names.insert(std::string(name)).second) << name << " stands there twice";
    }
  }
}

// Every flag that a sentence names exists.
TEST(ForeignFlagsTest, AdviceNamesOurFlags) {
  const std::set<std::string> others = {"--help", "--version"};
  for (const ForeignFlags& entry : ForeignFlagTable()) {
    for (absl::string_view word : absl::StrSplit(entry.advice, absl::ByAnyChar(" ;:,()"))) {
      if (!absl::StartsWith(word, "--") || others.count(std::string(word)) == 1) continue;
      const bool is_off = absl::StartsWith(word, "--no-");
      const std::string flag = is_off ? absl::StrCat("--", word.substr(5)) : std::string(word);
      EXPECT_TRUE(IsOurs(flag)) << word;
    }
  }
}

// What is not here says so, rather than that nobody needs it.
TEST(ForeignFlagsTest, WhatIsMissingIsNotCalledNeedless) {
  for (const char* flag : {"--uds",
                           "--root-path",
                           "--api-prefix",
                           "--path",
                           "--middleware",
                           "--response-role",
                           "--stream-interval",
                           "--tool-server",
                           "--mcp-config",
                           "--agent",
                           "--props",
                           "--tags",
                           "--slot-save-path",
                           "--cache-ram",
                           "--context-shift",
                           "--enable-log-outputs",
                           "--log-prompts-dir",
                           "--enable-force-include-usage",
                           "--enable-lora",
                           "--speculative-algorithm",
                           "--enable-lmcache",
                           "--enable-dp-attention",
                           "--enable-return-hidden-states",
                           "--quant-policy"}) {
    EXPECT_THAT(ForeignFlagAdvice(flag), StartsWith("not supported yet")) << flag;
  }
}

TEST(ForeignFlagsTest, NeitherValueNorSpellingMatters) {
  EXPECT_EQ(ForeignFlagAdvice("--ctx-size=4096"), "use --max-model-len");
  EXPECT_EQ(ForeignFlagAdvice("--ctx_size"), "use --max-model-len");
  EXPECT_THAT(ForeignFlagAdvice("--no-mmap"), HasSubstr("not needed"));
  EXPECT_THAT(ForeignFlagAdvice("-O3"), HasSubstr("not needed"));
  EXPECT_THAT(ForeignFlagAdvice("--speculative-config.model=x"), HasSubstr("not supported yet"));
  EXPECT_EQ(ForeignFlagAdvice("--max-model-len"), "");
  EXPECT_EQ(ForeignFlagAdvice("--max-model-lem"), "");
  EXPECT_EQ(ForeignFlagAdvice("-"), "");
  EXPECT_EQ(ForeignFlagAdvice(""), "");
}

TEST(ForeignFlagsTest, TheCommandLineSaysItWhateverFollows) {
  const auto error = [](const std::vector<std::string>& args) {
    return std::string(ParseCommandLine(args).status().message());
  };
  EXPECT_EQ(error({"-hf", "org/name:Q4_K_M"}),
            "-hf: use --model and a repository with safetensors files; GGUF is not supported yet");
  EXPECT_EQ(error({"--disable-cascade-attn"}),
            "--disable-cascade-attn: use --cascade-attention or --no-cascade-attention");
  EXPECT_EQ(error({"-c", "4096"}), "-c: use --max-model-len");
  EXPECT_THAT(error({"--api-key", "secret", "--port", "x"}),
              StartsWith("--api-key: use --api-key-file"));
  EXPECT_THAT(error({"--override-kv", "a=b"}), StartsWith("--override-kv: not supported"));
  EXPECT_EQ(error({"org/name", "--ctx-size=x"}), "--ctx-size: use --max-model-len");
}

}  // namespace
}  // namespace quire
