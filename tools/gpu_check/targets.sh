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
cascade_128x32k|128 x (32,768 shared + 256), cascade over plain|1|14|+"

# row_value FILE KEY FIELD VALUE [FIELD VALUE]: KEY in the first object of a list whose FIELDs have these values.
row_value() {
  local file=$1
  shift
  python3 - "$file" "$@" <<'END' 2>/dev/null
import json, sys
file, key, *pairs = sys.argv[1:]
wanted = dict(zip(pairs[::2], pairs[1::2]))
for rows in json.load(open(file)).values():
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and all(str(row.get(field)) == value for field, value in wanted.items()):
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

# take_one KEY NAME JSON_KEY [FACTOR]: the figure that NAME's results have once.
take_one() {
  local value
  value=$(json_value "$logs/$2.json" "$3")
  if [ -n "$value" ]; then
    figure[$1]=$(awk -v v="$value" -v f="${4:-1}" 'BEGIN { printf "%.6g", v * f }')
  else
    num_missing=$((num_missing + 1))
  fi
}

# shellcheck disable=SC2086
measure_engine_targets() {
  local on="--device $device" f
  local lat="--num-iters-warmup 1 --num-iters 3"
  measure t_8b_1 60 latency $big $on --batch-size 1 --input-len 32 --output-len 256 --num-iters 2 --num-iters-warmup 1
  take_one llama8b_bs1 t_8b_1 decode_tokens_per_s
  measure t_06b_1 60 latency $small $on --batch-size 1 --input-len 32 --output-len 512 --num-iters 2 --num-iters-warmup 1
  take_one qwen06b_bs1 t_06b_1 decode_tokens_per_s
  for f in 64 256; do
    measure t_8b_$f 60 timeline $big $on --batch-size $f --context 1030
    take_one llama8b_bs$f t_8b_$f tokens_per_s
    measure t_06b_$f 60 timeline $small $on --batch-size $f --context 1030
    take_one qwen06b_bs$f t_06b_$f tokens_per_s
  done
  measure t_8b_fp8 60 timeline $big $on --batch-size 256 --context 1030 --kv-cache-dtype fp8_e4m3
  take_one llama8b_fp8_kv_bs256 t_8b_fp8 tokens_per_s "$(awk -v v="${figure[llama8b_bs256]:-0}" 'BEGIN { print (v > 0 ? 1 / v : 0) }')"
  for f in 2048 8000; do
    measure t_ttft_$f 60 latency $big $on --batch-size 1 --input-len $f --output-len 1 $lat
    take_one llama8b_ttft_$f t_ttft_$f median_ttft_ms
  done
  measure t_ttft_06b 60 latency $small $on --batch-size 1 --input-len 2048 --output-len 1 $lat
  take_one qwen06b_ttft_2048 t_ttft_06b median_ttft_ms
  measure t_8b_prefix 60 throughput $big $on --num-prompts 256 --shared-prefix-len 4096 --input-len 4224 --output-len 256
  take_one llama8b_shared_prefix t_8b_prefix output_throughput
  measure t_06b_nano 60 throughput $small $on --workload "$share/workloads/nano_256.jsonl"
  take_one qwen06b_nano_256 t_06b_nano output_throughput
  measure t_06b_short 60 throughput $small $on --num-prompts 1024 --input-len 128 --output-len 128
  take_one qwen06b_128_128 t_06b_short output_throughput
  measure t_8b_short 60 throughput $big $on --num-prompts 1024 --input-len 128 --output-len 128
  take_one llama8b_128_128 t_8b_short output_throughput
  measure t_8b_2048 90 throughput $big $on --num-prompts 256 --input-len 2048 --output-len 128
  take_one llama8b_2048_128 t_8b_2048 output_throughput
  measure t_8b_1000 90 throughput $big $on --num-prompts 256 --input-len 1000 --output-len 1000
  take_one llama8b_1000_1000 t_8b_1000 output_throughput
}

# Decodes on the path that `auto` takes, prompts on the native one, those of e4m3 on the second.
# shellcheck disable=SC2086
measure_attention_targets() {
  local skewed="decode 63 x 512 + 1 x 32768" drafts
  measure t_attention 120 kernels --only attention $big --device "$device" --kv-cache-dtype fp8_e4m3
  decode() { take_row "$1" t_attention "$2" op trtllm shape "$3"; }
  prefill() { take_row "$1" t_attention tflops op "${3:-native}" shape "$2"; }
  decode decode_64x1k tb_s "decode 64 x 1024"
  decode decode_64x2k tb_s "decode 64 x 2048"
  decode decode_128x4k tb_s "decode 128 x 4096"
  decode decode_256x1k tb_s "decode 256 x 1024"
  decode decode_1x1k us "decode 1 x 1024"
  decode decode_1x8k us "decode 1 x 8192"
  decode decode_1x32k us "decode 1 x 32768"
  decode decode_skewed us "$skewed"
  decode decode_skewed_e4m3 us "$skewed, fp8_e4m3"
  take_row decode_128x4k_b64 t_attention tb_s op native shape "decode 128 x 4096, blocks of 64"
  decode decode_128x4k_e4m3 time_over_bfloat16 "decode 128 x 4096, fp8_e4m3"
  decode decode_256x1k_e4m3 time_over_bfloat16 "decode 256 x 1024, fp8_e4m3"
  drafts=$(row_value "$logs/t_attention.json" us op trtllm shape "decode 64 x 2048")
  decode decode_drafts us "decode 64 x 2048, 4 tokens each"
  if [ -n "$drafts" ] && [ -n "${figure[decode_drafts]:-}" ]; then
    figure[decode_drafts]=$(awk -v a="${figure[decode_drafts]}" -v b="$drafts" 'BEGIN { printf "%.4g", a / b }')
  fi
  prefill prefill_1k "prefill 16 x 1024"
  prefill prefill_2k "prefill 1 x 2048"
  prefill prefill_4k "prefill 4 x 4096"
  prefill prefill_16k "prefill 1 x 16384"
  prefill prefill_2k_16_heads "prefill 1 x 2048, 16 q heads"
  prefill prefill_4k_d64 "prefill 4 x 4096, head size 64"
  prefill prefill_4k_e4m3 "prefill 4 x 4096, fp8_e4m3" trtllm
  measure t_cascade 60 kernels --only cascade $big --device "$device"
  take_row cascade_64x2k t_cascade speedup num_seqs 64 prefix_len 2048
  take_row cascade_64x8k t_cascade speedup num_seqs 64 prefix_len 8192
  take_row cascade_128x32k t_cascade speedup num_seqs 128 prefix_len 32768
}

run_targets() {
  local key what before reach better part
  figure_keys=$(cut -d'|' -f1 <<<"$targets")
  measure_attention_targets
  measure_engine_targets
  say "$(printf '%-58s %10s %10s %10s  %s' "targets on one H200" before reached to-reach share)"
  while IFS='|' read -r key what before reach better; do
    part=-
    [ -z "${figure[$key]:-}" ] || part=$(awk -v v="${figure[$key]}" -v r="$reach" -v b="$better" \
      'BEGIN { printf "%.2f", (v > 0 ? (b == "+" ? v / r : r / v) : 0) }')
    say "$(printf '%-58s %10s %10s %10s  %s' "$what" "$before" "${figure[$key]:--}" "$reach" "$part")"
  done <<<"$targets"
  say "commands: the logs' names and quire-bench's arguments:"
  for key in "${!commands[@]}"; do say "  $key: ${commands[$key]}"; done
}
