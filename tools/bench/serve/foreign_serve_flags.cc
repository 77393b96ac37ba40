#include "tools/bench/serve/foreign_serve_flags.h"

#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

constexpr ForeignFlags kTable[] = {
    // Other names: SGLang's and AIPerf's, and what vLLM has twice.
    {"--concurrency --session-concurrency", "use --max-concurrency"},
    {"--request-count --conversation-num --num-sessions", "use --num-prompts"},
    {"--isl --synthetic-input-tokens-mean", "use --input-len"},
    {"--osl --output-tokens-mean", "use --output-len"},
    {"--isl-stddev --osl-stddev", "use --random-range-ratio"},
    {"--url -u", "use --base-url"},
    {"--rate --qps", "use --request-rate"},
    {"-m --model-names", "use --model"},
    {"--endpoint-type --service-kind", "use --backend openai or openai-chat"},
    {"--warmup-requests --warmup-request-count", "use --num-warmups"},
    {"--benchmark-duration", "use --duration"},
    {"--request-cancellation-rate", "use --cancel-rate"},
    {"--request-cancellation-delay", "use --deadline-ms, after which a request is cancelled"},
    {"--random-seed", "use --seed"},
    {"--extra-inputs --extra-request-body", "use --extra-body"},
    {"--artifact-dir", "use --result-dir"},
    {"--output-file", "use --json FILE, or --save-result and --append-result for lines"},
    {"--input-file", "use --dataset-path, or --trace-file if it has times"},
    {"--request-rate-mode --arrival-pattern", "use --burstiness"},
    {"--disable-ignore-eos", "use --no-ignore-eos"},
    {"--gsp-prompts-per-group",
     "use --num-prompts, which is the number of groups times the prompts of each"},
    {"--num-prefix-prompts",
     "use --dataset-name prefix_repetition with --prefix-repetition-num-prefixes"},
    {"--prefix-prompt-length --random-prefix-len",
     "use --shared-prefix-len, whose tokens are some of --input-len"},
    {"--session-turns-mean --turn-count", "use --conversation-turn-mean"},
    {"--session-turn-delay-mean", "use --conversation-turn-delay-mean"},
    {"--multi-turn", "use --conversation-turn-mean, or --max-turns for sharegpt"},
    {"--fixed-schedule --use-trace-timestamps", "use --trace-file"},
    {"--self-timed", "not needed: a trace is always sent at its own times"},
    {"--synthesis-speedup-ratio --replay-speedup --mooncake-slowdown-factor",
     "use --trace-speedup"},
    {"--timed-trace-sec-multiplier", "use --trace-time-unit and --trace-speedup"},
    {"--logprobs", "use --extra-body '{\"logprobs\": N}' with an openai backend"},
    {"--html --plot-timeline --plot-dataset-stats --timeline-itl-thresholds",
     "use --save-detailed with --json FILE, then quire-bench report FILE --html PAGE"},
    {"--probe-request-rate", "use a second quire-bench serve beside this one"},
    {"--profile --profile-*", "use quire-bench timeline, which shows the steps of an engine"},
    {"--insecure", "use QUIRE_CA_FILE, which names the certificates to trust"},
    {"--api-key", "use QUIRE_API_KEY or OPENAI_API_KEY in the environment"},
    // Without a meaning here.
    {"--disable-tqdm --ui", "not needed: 2>/dev/null hides the progress"},
    {"--trust-remote-code --tokenizer-mode --tokenizer-revision --skip-tokenizer-init "
     "--tokenizer-trust-remote-code",
     "not needed: --tokenizer reads the folder's tokenizer.json and runs none of its code"},
    {"--tokenize-prompt",
     "not needed: random prompts are token ids, unless --text-prompts says otherwise"},
    {"--skip-chat-template",
     "not needed: prompts are sent as they are; --backend openai-chat sends them as messages"},
    {"--streaming", "not needed: answers are always streamed"},
    {"--workers-max --num-workers --threads --num-clients",
     "not needed: one thread takes in 100,000 messages a second; the result says how busy it was"},
    {"--request-id-prefix", "not needed: every request has an id of its own"},
    // What is missing.
    {"--disable-stream --no-stream",
     "not supported: without a stream there are no latencies of tokens"},
    {"--lora-modules --lora-name --lora-assignment", "not supported yet: no LoRA adapters"},
    {"--use-beam-search --best-of", "not supported: each request has one continuation"},
    {"--hf-* --sonnet-* --random-mm-* --random-image-* --blazedit-* --asr-* --spec-bench-* "
     "--speed-bench-* --image-* --enable-multimodal-chat --random-batch-size --no-reranker",
     "not supported: texts come from --dataset-name custom or sharegpt"},
};

}  // namespace

absl::Span<const ForeignFlags> ForeignServeFlagTable() { return kTable; }

absl::Status CheckForeignFlags(const CLI::App& command) {
  for (const std::string& argument : command.remaining()) {
    if (!absl::StartsWith(argument, "-")) continue;
    const std::string advice = ForeignFlagAdvice(argument, kTable);
    if (!advice.empty()) {
      return UsageError(absl::StrCat(argument.substr(0, argument.find('=')), ": ", advice));
    }
  }
  return absl::OkStatus();
}

}  // namespace quire::bench
