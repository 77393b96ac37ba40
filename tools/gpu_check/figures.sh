# Part of run-gpu-check: the figures. Sourced. Sets figure[KEY] and num_missing.

figure_keys="llama8b_bs1_tok_s llama8b_bs64_tok_s llama8b_offline_1000_1000_tok_s llama8b_ttft_2048_ms qwen06b_bs1_tok_s
qwen06b_256req_tok_s decode_attn_read_ratio decode_attn_skew_ratio prefill_attn_tflops gpu_idle_share start_06b_s start_8b_s
read_ceiling_tb_s"
declare -A figure
num_missing=0
# --device cpu goes through all of this with the bundled model: a test of the check itself.
big="--shape llama-3-8b" small="--shape qwen3-0.6b"
[ "$device" = cuda ] || big="--model $share/demo" small="--model $share/demo"

# json_value FILE KEY [OUTER]: the number at KEY, the first after OUTER if given, in JSON with one member a line.
json_value() {
  awk -v key="\"$2\":" -v outer="${3:+\"$3\":}" '
    outer == "" || $1 == outer { inside = 1 }
    inside && $1 == key { sub(/,$/, "", $2); if ($2 ~ /^[-0-9.eE+]+$/) print $2; exit }' "$1" 2>/dev/null
}

# measure NAME SECONDS quire-bench-ARGUMENT...: leaves NAME.json in $logs.
measure() {
  local name=$1 limit=$2
  shift 2
  rm -f "$logs/$name.json"
  commands[$name]="quire-bench $* --json FILE"
  limit=$(at_most "$limit")
  if [ "$limit" -lt 5 ]; then
    echo "no time left" >"$logs/$name.log"
    exits[$name]=none
    return
  fi
  timeout -k 5 "$limit" "$bin/quire-bench" "$@" --json "$logs/$name.json" >"$logs/$name.log" 2>&1
  exits[$name]=$?
  [ "${exits[$name]}" != 124 ] || rm -f "$logs/$name.json" # the figures of an interrupted run are no figures
}
declare -A commands exits

# why_missing NAME: how its command ended and what it said last.
why_missing() {
  local reason
  reason=$(grep -E '^(quire-bench|kernel_trace|kernel_profile): |CHECK failed|error' "$logs/$1.log" | tail -n 1)
  [ "${exits[$1]}" != 124 ] || reason="not done within its time; $reason"
  echo "exit code ${exits[$1]}, ${reason:-$(tail -n 1 "$logs/$1.log")}"
}

# take KEY NAME JSON_KEY [OUTER [FACTOR]]: the figure, or why there is none.
take() {
  local key=$1 name=$2 value
  value=$(json_value "$logs/$name.json" "$3" "${4:-}")
  if [ -z "$value" ]; then
    num_missing=$((num_missing + 1))
    say "$(printf '  %-32s missing: %s' "$key" "$(why_missing "$name")")"
  else
    figure[$key]=$(awk -v v="$value" -v f="${5:-1}" 'BEGIN { printf "%.6g", v * f }')
    say "$(printf '  %-32s %s' "$key" "${figure[$key]}")"
  fi
  say "      ${commands[$name]}"
}

# leave_out REASON KEY...
leave_out() {
  local reason=$1 key
  shift
  for key in "$@"; do say "$(printf '  %-32s left out: %s' "$key" "$reason")"; done
}

# shellcheck disable=SC2086
measure_attention() {
  measure attention 120 kernels --only attention $big --device "$device"
  take read_ceiling_tb_s attention read_ceiling_tb_s figures
  if [ "$device" = cpu ]; then
    leave_out "GPU shapes" decode_attn_read_ratio decode_attn_skew_ratio prefill_attn_tflops
    return
  fi
  take decode_attn_read_ratio attention decode_attn_read_ratio figures
  take decode_attn_skew_ratio attention decode_attn_skew_ratio figures
  take prefill_attn_tflops attention prefill_attn_tflops figures
}

# shellcheck disable=SC2086
measure_decode() {
  local context=1030 batch=64 out=256
  [ "$device" = cuda ] || context=100 batch=4 out=16
  measure big_decode 120 timeline $big --device "$device" --batch-size $batch --context $context --html "$out_html"
  take llama8b_bs64_tok_s big_decode tokens_per_s
  take gpu_idle_share big_decode idle_share
  measure big_single 90 latency $big --device "$device" --batch-size 1 --input-len 32 --output-len $out --num-iters 2 --num-iters-warmup 1
  take llama8b_bs1_tok_s big_single decode_tokens_per_s
  measure small_single 90 latency $small --device "$device" --batch-size 1 --input-len 32 --output-len $((2 * out)) --num-iters 2 --num-iters-warmup 1
  take qwen06b_bs1_tok_s small_single decode_tokens_per_s
  measure big_prefill 90 latency $big --device "$device" --batch-size 1 --input-len 2048 --output-len 1 --num-iters 9 --num-iters-warmup 2
  take llama8b_ttft_2048_ms big_prefill median_ttft_ms
}

# shellcheck disable=SC2086
measure_small_offline() {
  measure small_offline 90 throughput $small --device "$device" --workload "$share/workloads/nano_256.jsonl"
  take qwen06b_256req_tok_s small_offline output_throughput
}

# shellcheck disable=SC2086
measure_big_offline() {
  measure big_offline 120 throughput $big --device "$device" --num-prompts 256 --input-len 1000 --output-len 1000
  take llama8b_offline_1000_1000_tok_s big_offline output_throughput
}

# measure_start KEY NAME SHAPE: a random checkpoint, just written, so in the page cache.
measure_start() {
  local model=$scratch/$2 flags="--skip-tokenizer-init"
  if [ "$device" = cpu ]; then
    model=$share/demo flags=
  elif ! timeout -k 5 "$(at_most 60)" "$bin/quire-bench" make-checkpoint --shape "$3" "$model" >"$logs/$2-make.log" 2>&1; then
    exits[$2]=make-checkpoint commands[$2]="quire-bench make-checkpoint --shape $3 FOLDER"
    cp "$logs/$2-make.log" "$logs/$2.log"
    take "$1" "$2" p50 first_token_ms
    return
  fi
  # shellcheck disable=SC2086
  measure "$2" 120 startup --num-starts 3 --idle-seconds 0.2 --model "$model" --device "$device" $flags
  take "$1" "$2" p50 first_token_ms 0.001
  [ "$device" = cpu ] || rm -rf "$model"
}

run_figures() {
  local out_html=$out/timeline.html
  say "figures"
  measure_attention
  measure_decode
  measure_start start_06b_s start_06b qwen3-0.6b
  measure_small_offline
  if [ "$quick" = yes ]; then
    leave_out --quick start_8b_s llama8b_offline_1000_1000_tok_s
  else
    measure_start start_8b_s start_8b llama-3-8b
    measure_big_offline
  fi
  local key
  say "operations: quire-bench kernels $big --device $device; timeline: $out_html"
  for key in $figure_keys; do [ -n "${figure[$key]:-}" ] || say "  null: $key"; done
}
