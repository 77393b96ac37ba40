# Part of run-gpu-check: --only targets, what Quire wants to reach on one H200, beside what it was before that work began
# (25e6eb6) and what is measured now. Sourced, after figures.sh. Sets figure[KEY] and num_missing.

# KEY|what|before|to reach|+ where more is better, - where less is
targets="llama8b_bs1|8B, 1 stream, tokens/s|240|262|+
llama8b_bs64|8B, 64 streams at 1k, tokens/s|8770|10000|+
llama8b_bs256|8B, 256 streams at 1k, tokens/s|14970|16800|+
llama8b_fp8_kv_bs256|the same with fp8 KV, over 16 bits|1|1.35|+
llama8b_1000_1000|8B, offline 256 x 1000/1000, output tokens/s|10030|11000|+
llama8b_2048_128|8B, offline 256 x 2048/128, output tokens/s|2130|2250|+
llama8b_128_128|8B, offline 1024 x 128/128, output tokens/s|18370|19500|+
llama8b_shared_prefix|8B, 256 x (4096 shared + 128)/256, output tokens/s|5850|9000|+
llama8b_ttft_2048|8B, first token of 2,048 alone, ms|47.6|43.5|-
llama8b_ttft_8000|8B, first token of 8,000 alone, ms|207|190|-
qwen06b_bs1|0.6B, 1 stream, tokens/s|1060|1500|+
qwen06b_bs64|0.6B, 64 streams at 1k, tokens/s|18970|25000|+
qwen06b_bs256|0.6B, 256 streams at 1k, tokens/s|26280|30500|+
qwen06b_nano_256|0.6B, offline nano_256, output tokens/s|25270|31000|+
qwen06b_128_128|0.6B, offline 1024 x 128/128, output tokens/s|88260|105000|+
qwen06b_ttft_2048|0.6B, first token of 2,048 alone, ms|8.9|5.0|-
decode_64x1k|decode attention 64 x 1,024, TB/s|3.5|4.0|+
decode_64x2k|decode attention 64 x 2,048, TB/s|3.8|4.2|+
decode_128x4k|decode attention 128 x 4,096, TB/s|4.15|4.35|+
decode_128x4k_b64|decode attention 128 x 4,096, blocks of 64, native, TB/s|-|4.3|+
decode_256x1k|decode attention 256 x 1,024, TB/s|4.08|4.25|+
decode_1x1k|decode attention 1 x 1,024, us|8.5|5|-
decode_1x8k|decode attention 1 x 8,192, us|18.1|12|-
decode_1x32k|decode attention 1 x 32,768, us|-|36|-
decode_skewed|decode attention 63 x 512 + 1 x 32,768, us|80|72|-
decode_drafts|decode attention 64 x 2,048, 4 query tokens over 1|-|1.1|-
decode_128x4k_e4m3|decode attention 128 x 4,096, e4m3 over bfloat16|-|0.56|-
decode_256x1k_e4m3|decode attention 256 x 1,024, e4m3 over bfloat16|-|0.56|-
decode_skewed_e4m3|decode attention 63 x 512 + 1 x 32,768, e4m3, us|-|42|-
prefill_1k|prefill attention 16 x 1,024, TFLOP/s|335|430|+
prefill_2k|prefill attention 1 x 2,048, TFLOP/s|400|486|+
prefill_4k|prefill attention 4 x 4,096, TFLOP/s|490|556|+
prefill_16k|prefill attention 1 x 16,384, TFLOP/s|547|618|+
prefill_2k_16_heads|prefill attention 1 x 2,048, 16/8 heads, TFLOP/s|130|400|+
prefill_4k_d64|prefill attention 4 x 4,096, heads of 64, TFLOP/s|395|430|+
prefill_4k_e4m3|prefill attention 4 x 4,096, e4m3, TFLOP/s|-|800|+
cascade_64x2k|64 x (2,048 shared + 256), cascade over plain|1|2.2|+
cascade_64x8k|64 x (8,192 shared + 256), cascade over plain|1|5|+
cascade_128x32k|128 x (32,768 shared + 256), cascade over plain|1|14|+
sample_64_greedy|sampling 64 x 128,256, greedy, us|11|9|-
sample_256_greedy|sampling 256 x 128,256, greedy, us|51|35|-
sample_64_top|sampling 64 x 128,256, top-k 50 and top-p 0.9, us|-|45|-
sample_256_top|sampling 256 x 128,256, top-k 50 and top-p 0.9, us|-|90|-
norm_8b|8B, norm with residual, 2,048 tokens, of copy speed|0.97|0.85|+
rope_8b|8B, rope and KV write, 2,048 tokens, of copy speed|0.15|0.85|+
norm_06b|0.6B, norm with residual, 2,048 tokens, of copy speed|-|0.85|+
rope_06b|0.6B, head norms, rope, KV write, 2,048 tokens, of it|0.15|0.85|+
online_over_offline|0.6B, 1,024 streams through gRPC over offline|0.97|0.98|+
online_itl|the same, p99 of inter-token latency over p50|-|1.5|-
llama8b_fp8_bs1|8B, FP8 and FP8 KV, 1 stream, tokens/s|-|430|+
llama8b_fp8_bs64|the same, 64 streams at 1k, tokens/s|-|16000|+
llama8b_fp8_bs256|the same, 256 streams at 1k, tokens/s|-|27000|+
llama8b_fp8_1000_1000|the same, offline 256 x 1000/1000, output tokens/s|-|17000|+
llama8b_fp8_ttft_2048|the same, first token of 2,048 alone, ms|-|28|-
llama8b_awq_bs1|8B, AWQ, 1 stream, tokens/s|-|560|+
llama8b_awq_bs64|8B, AWQ, 64 streams at 1k, tokens/s|-|12500|+
fp8_read_8|8B, FP8 gemms up to 8 rows, least share of reading|-|0.85|+
awq_read_8|8B, AWQ gemms up to 8 rows, least share of reading|-|0.85|+
fp8_read_64|8B, FP8 gemms of 64 rows, least share of reading|-|0.80|+
fp8_tflops_256|8B, FP8 gemms of 256 rows, least TFLOP/s|-|975|+
fp8_tflops_4096|8B, FP8 gemms of 4,096 rows, least TFLOP/s|-|1105|+
fp8_over_bf16|8B, FP8 gemms of 1 to 2,048 rows over bfloat16, least|-|1|+
awq_over_bf16_128|8B, AWQ gemms of 1 to 128 rows over bfloat16, least|-|1|+
awq_over_bf16_2048|8B, AWQ gemms of 256 to 2,048 rows over it, least|-|0.9|+
fp8_channel_over_bf16|8B, FP8 by rows, gemms of 1 to 2,048 rows over it, least|-|1|+
gptq_over_bf16|8B, GPTQ gemms of 1 to 2,048 rows over it, least|-|0.9|+
gptq_group32_over_bf16|the same, groups of 32|-|0.9|+
int8_over_bf16|8B, INT8 by rows, gemms of 1 to 2,048 rows over it, least|-|0.9|+
int8_group128_over_bf16|the same, groups of 128|-|0.9|+
mxfp4_over_bf16|8B, MXFP4 gemms of 1 to 2,048 rows over it, least|-|0.9|+
nvfp4_over_bf16|8B, NVFP4 gemms of 1 to 2,048 rows over it, least|-|0.9|+
qwen27b_fp8_bs1|Qwen3.6-27B, FP8, 1 stream at 1k, ms a token|-|7.0|-
qwen27b_bs1|the same in bfloat16|-|13.2|-
qwen27b_fp8_bs64|the same, FP8, states bfloat16, 64 streams at 1k, tokens/s|-|5640|+
qwen27b_fp8_bs256|the same, 256 streams|-|11200|+
qwen27b_fp8_ttft_2048|the same, FP8, first token of 2,048, ms|-|121.5|-
qwen27b_fp8_hit|the same, 8,000 behind 7,936 cached, over 64 tokens|-|1.1|-
qwen27b_first_token|the same, FP8, start to a token, weights in page cache, s|-|1.6|-
delta_decode_256|gated delta net, decode of 256, of its bytes at 4.54 TB/s|-|0.85|+
delta_prefill_16k|gated delta net, prompt of 16k over attention|-|0.25|-
delta_prefill_128k|gated delta net, prompt of 128k over 8 times 16k|-|1|-
qwen30b_bs1|Qwen3-30B-A3B, bfloat16, 1 stream at 1k, tokens/s|-|470|+
qwen30b_bs8|the same, 8 streams|-|1250|+
qwen30b_bs64|the same, 64 streams|-|4150|+
qwen30b_bs256|the same, 256 streams|-|12300|+
qwen30b_1000_1000|the same, offline 256 x 1000/1000, output tokens/s|-|10300|+
qwen30b_ttft_2048|the same, first token of 2,048 alone, ms|-|28|-
qwen30b_ttft_8000|the same, first token of 8,000 alone, ms|-|105|-
qwen35b_fp8_bs1|Qwen3.6-35B-A3B, FP8, 1 stream at 1k, ms a token|-|1.6|-
gptoss_bs1|gpt-oss-20b, MXFP4, 1 stream at 1k, tokens/s|-|750|+
gptoss_bs8|the same, 8 streams|-|4200|+
gptoss_bs64|the same, 64 streams|-|17000|+
gptoss_bs256|the same, 256 streams|-|30000|+
gptoss_1000_1000|the same, offline 256 x 1000/1000, output tokens/s|-|20000|+
gptoss_ttft_2048|the same, first token of 2,048 alone, ms|-|12|-
gptoss_ttft_8000|the same, first token of 8,000 alone, ms|-|45|-
first_start_06b|first start on a machine, to a token, 0.6B, s|3.1|1.2|-
first_start_8b|the same, 8B|4.4|1.5|-"

# row_value FILE KEY [FIELD VALUE]...: KEY in the first object of a list, or of a step's operations, whose FIELDs have
# these values.
row_value() {
  local file=$1
  shift
  python3 - "$file" "$@" <<'END' 2>/dev/null
import json, sys
file, key, *pairs = sys.argv[1:]
wanted = dict(zip(pairs[::2], pairs[1::2]))
def rows_of(value):
    for row in value if isinstance(value, list) else []:
        if isinstance(row, dict):
            yield row
            yield from rows_of(row.get("operations"))
for rows in json.load(open(file)).values():
    for row in rows_of(rows):
        if key in row and all(str(row.get(field)) == value for field, value in wanted.items()):
            print(row[key])
            sys.exit()
END
}

# take_row KEY NAME JSON_KEY FIELD VALUE...: the figure of a row of NAME's list.
take_row() {
  local key=$1 name=$2 value
  shift 2
  value=$(row_value "$logs/$name.json" "$@")
  if [ -n "$value" ]; then figure[$key]=$(printf '%.6g' "$value"); else num_missing=$((num_missing + 1)); fi
}

# take_least KEY NAME JSON_KEY FORMAT FIRST LAST: the least figure of a format's gemms of FIRST to LAST rows.
take_least() {
  local value
  value=$(python3 - "$logs/$2.json" "${@:3}" <<'END' 2>/dev/null
import json, sys
file, key, name, first, last = sys.argv[1:]
print(min(row[key] for row in json.load(open(file))["format_table"]
          if row["format"] == name and int(first) <= row["rows"] <= int(last)))
END
  )
  if [ -n "$value" ]; then figure[$1]=$(printf '%.6g' "$value"); else num_missing=$((num_missing + 1)); fi
}

# take_one KEY NAME JSON_KEY: the figure that NAME's results have once.
take_one() {
  local value
  value=$(json_value "$logs/$2.json" "$3")
  if [ -n "$value" ]; then figure[$1]=$(printf '%.6g' "$value"); else num_missing=$((num_missing + 1)); fi
}

# divide KEY BY: figure[KEY] over BY; none where one of them is missing.
divide() {
  [ -n "${figure[$1]:-}" ] || return 0
  if [ -n "$2" ]; then
    figure[$1]=$(awk -v a="${figure[$1]}" -v b="$2" 'BEGIN { printf "%.6g", a / b }')
  else
    unset "figure[$1]"
    num_missing=$((num_missing + 1))
  fi
}

run_targets() {
  local key what before reach better part
  figure_keys=$(cut -d'|' -f1 <<<"$targets")
  measure_attention_targets
  measure_operation_targets
  measure_engine_targets
  measure_quantized_targets
  measure_hybrid_targets
  measure_mixture_targets
  measure_server_targets
  measure_format_targets
  say "$(printf '%-58s %10s %10s %10s  %s' "targets on one H200" before reached to-reach share)"
  while IFS='|' read -r key what before reach better; do
    part=-
    [ -z "${figure[$key]:-}" ] || part=$(awk -v v="${figure[$key]}" -v r="$reach" -v b="$better" \
      'BEGIN { printf "%.2f", (v > 0 ? (b == "+" ? v / r : r / v) : 0) }')
    say "$(printf '%-58s %10s %10s %10s  %s' "$what" "$before" "${figure[$key]:--}" "$reach" "$part")"
  done <<<"$targets"
  say_speedups
  say "commands: the logs' names and quire-bench's arguments:"
  for key in "${!commands[@]}"; do say "  $key: ${commands[$key]}"; done
}
