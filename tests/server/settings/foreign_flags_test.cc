// What users of other servers type gets a sentence that holds.
#include "server/settings/foreign_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/settings/setting_table.h"
#include "server/settings/settings_parser.h"

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

bool IsOurs(absl::string_view flag) {
  for (const Setting& setting : SettingTable()) {
    if (flag == setting.flag()) return true;
  }
  return flag == "--config";
}

TEST(ForeignFlagsTest, EveryFlagOfTheOthersIsOursOrHasASentence) {
  for (const char* flags : {kVllm, kLlamaServer}) {
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
  EXPECT_EQ(error({"-hf", "org/name:Q4_K_M"}), "-hf: use --model");
  EXPECT_EQ(error({"-c", "4096"}), "-c: use --max-model-len");
  EXPECT_THAT(error({"--api-key", "secret", "--port", "x"}),
              StartsWith("--api-key: use --api-key-file"));
  EXPECT_THAT(error({"--override-kv", "a=b"}), StartsWith("--override-kv: not supported"));
  EXPECT_EQ(error({"org/name", "--ctx-size=x"}), "--ctx-size: use --max-model-len");
}

}  // namespace
}  // namespace quire
