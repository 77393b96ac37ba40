# Part of run-gpu-check: what --only targets measures. Sourced, after targets.sh.

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
  take_one llama8b_fp8_kv_bs256 t_8b_fp8 tokens_per_s
  divide llama8b_fp8_kv_bs256 "${figure[llama8b_bs256]:-}"
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

# Random weights of the 8B's shape: made FP8 while they are made, and an AWQ checkpoint's.
# shellcheck disable=SC2086
measure_quantized_targets() {
  local on="--device $device" f
  local fp8="$big $on --quantization fp8 --kv-cache-dtype fp8_e4m3" awq="--model $scratch/awq $on --skip-tokenizer-init"
  local lat="--num-iters-warmup 1 --num-iters 3"
  timeout -k 5 "$(at_most 90)" "$bin/quire-bench" make-checkpoint --shape llama-3-8b --format awq "$scratch/awq" \
    >"$logs/t_make_awq.log" 2>&1
  measure t_fp8_1 60 latency $fp8 --batch-size 1 --input-len 32 --output-len 256 --num-iters 2 --num-iters-warmup 1
  take_one llama8b_fp8_bs1 t_fp8_1 decode_tokens_per_s
  for f in 64 256; do
    measure t_fp8_$f 60 timeline $fp8 --batch-size $f --context 1030
    take_one llama8b_fp8_bs$f t_fp8_$f tokens_per_s
  done
  measure t_fp8_1000 90 throughput $fp8 --num-prompts 256 --input-len 1000 --output-len 1000
  take_one llama8b_fp8_1000_1000 t_fp8_1000 output_throughput
  measure t_fp8_ttft 60 latency $fp8 --batch-size 1 --input-len 2048 --output-len 1 $lat
  take_one llama8b_fp8_ttft_2048 t_fp8_ttft median_ttft_ms
  measure t_awq_1 60 latency $awq --batch-size 1 --input-len 32 --output-len 256 --num-iters 2 --num-iters-warmup 1
  take_one llama8b_awq_bs1 t_awq_1 decode_tokens_per_s
  measure t_awq_64 60 timeline $awq --batch-size 64 --context 1030
  take_one llama8b_awq_bs64 t_awq_64 tokens_per_s
  rm -rf "$scratch/awq"
  measure t_formats_fp8-block 120 kernels --only formats --cases fp8-block $big --device "$device"
  measure t_formats_awq 120 kernels --only formats --cases awq $big --device "$device"
  take_least fp8_read_8 t_formats_fp8-block share_of_reading fp8-block 1 8
  take_least awq_read_8 t_formats_awq share_of_reading awq 1 8
  take_least fp8_read_64 t_formats_fp8-block share_of_reading fp8-block 64 64
  take_least fp8_tflops_256 t_formats_fp8-block tflops fp8-block 256 256
  take_least fp8_tflops_4096 t_formats_fp8-block tflops fp8-block 4096 4096
  take_least fp8_over_bf16 t_formats_fp8-block speedup fp8-block 1 2048
  take_least awq_over_bf16_128 t_formats_awq speedup awq 1 128
  take_least awq_over_bf16_2048 t_formats_awq speedup awq 256 2048
}

# Recurrent states: the whole model, and a gated delta net alone.
# shellcheck disable=SC2086
measure_hybrid_targets() {
  local on="--device $device" hybrid="--shape qwen3.6-27b" f
  [ "$device" = cuda ] || hybrid=$big
  local fp8="$hybrid $on --quantization fp8" model=$scratch/27b
  local one="--batch-size 1 --input-len 1000 --output-len 128 --num-iters 2 --num-iters-warmup 1"
  local lat="--batch-size 1 --output-len 1 --num-iters-warmup 2 --num-iters 5"
  measure t_27b_fp8_1 90 latency $fp8 $one
  take_one qwen27b_fp8_bs1 t_27b_fp8_1 median_itl_ms
  measure t_27b_1 90 latency $hybrid $on $one
  take_one qwen27b_bs1 t_27b_1 median_itl_ms
  for f in 64 256; do
    measure t_27b_fp8_$f 60 timeline $fp8 --mamba-ssm-cache-dtype bfloat16 --batch-size $f --context 1030
    take_one qwen27b_fp8_bs$f t_27b_fp8_$f tokens_per_s
  done
  measure t_27b_ttft 60 latency $fp8 $lat --input-len 2048
  take_one qwen27b_fp8_ttft_2048 t_27b_ttft median_ttft_ms
  measure t_27b_hit 60 latency $fp8 $lat --input-len 8000 --shared-prefix-len 7936
  take_one qwen27b_fp8_hit t_27b_hit median_ttft_ms
  measure t_27b_64 60 latency $fp8 $lat --input-len 64
  divide qwen27b_fp8_hit "$(json_value "$logs/t_27b_64.json" median_ttft_ms)"
  measure t_delta 90 kernels --only gated-delta $hybrid $on
  take_row delta_decode_256 t_delta tb_s op gated_delta shape "decode 256"
  divide delta_decode_256 4.54
  take_row delta_prefill_16k t_delta time_over_attention op gated_delta shape "prefill 1 x 16384"
  take_row delta_prefill_128k t_delta us op gated_delta shape "prefill 1 x 131072"
  divide delta_prefill_128k "$(row_value "$logs/t_delta.json" us op gated_delta shape "prefill 1 x 16384")"
  divide delta_prefill_128k 8
  timeout -k 5 "$(at_most 120)" "$bin/quire-bench" make-checkpoint --shape qwen3.6-27b --format fp8-block "$model" \
    >"$logs/t_make_27b.log" 2>&1
  measure t_27b_start 90 startup --num-starts 2 --idle-seconds 0 --model "$model" $on --skip-tokenizer-init
  take_row qwen27b_first_token t_27b_start first_token_ms
  divide qwen27b_first_token 1000
  rm -rf "$model"
}

# Mixtures of experts, whose routers spread random prompts over all of them.
# shellcheck disable=SC2086
measure_mixture_targets() {
  local on="--device $device" lat="--batch-size 1 --output-len 1 --num-iters-warmup 2 --num-iters 5" name shape f
  for name in qwen30b gptoss; do
    shape="--shape qwen3-30b-a3b"
    [ "$name" = qwen30b ] || shape="--shape gpt-oss-20b"
    [ "$device" = cuda ] || shape=$small
    for f in 1 8 64 256; do
      measure t_${name}_$f 60 timeline $shape $on --batch-size $f --context 1030
      take_one ${name}_bs$f t_${name}_$f tokens_per_s
    done
    measure t_${name}_1000 90 throughput $shape $on --num-prompts 256 --input-len 1000 --output-len 1000
    take_one ${name}_1000_1000 t_${name}_1000 output_throughput
    for f in 2048 8000; do
      measure t_${name}_ttft_$f 60 latency $shape $on $lat --input-len $f
      take_one ${name}_ttft_$f t_${name}_ttft_$f median_ttft_ms
    done
  done
  shape="--shape qwen3.6-35b-a3b --quantization fp8"
  [ "$device" = cuda ] || shape=$small
  measure t_35b_fp8_1 90 latency $shape $on --batch-size 1 --input-len 1000 --output-len 128 --num-iters 2
  take_one qwen35b_fp8_bs1 t_35b_fp8_1 median_itl_ms
}

# The other formats that a Hopper keeps as codes, with fewer rows, and last of all: should time run out, it is these that
# are left out. gptq and int8 have two sizes of groups each.
# shellcheck disable=SC2086
measure_format_targets() {
  local name
  for name in $other_formats; do
    measure t_formats_$name 60 kernels --only formats --cases $name --rows 1,16,64,256,2048 $big --device "$device"
  done
  take_least fp8_channel_over_bf16 t_formats_fp8-channel speedup fp8-channel 1 2048
  take_least gptq_over_bf16 t_formats_gptq speedup gptq 1 2048
  take_least gptq_group32_over_bf16 t_formats_gptq speedup gptq-group32 1 2048
  take_least int8_over_bf16 t_formats_int8 speedup int8 1 2048
  take_least int8_group128_over_bf16 t_formats_int8 speedup int8-group128 1 2048
  take_least mxfp4_over_bf16 t_formats_mxfp4 speedup mxfp4 1 2048
  take_least nvfp4_over_bf16 t_formats_nvfp4 speedup nvfp4 1 2048
}
other_formats="fp8-channel gptq int8 mxfp4 nvfp4"

# Every gemm of a format beside bfloat16's of the same run: what must never be slower.
say_speedups() {
  local name line
  for name in fp8-block awq $other_formats; do
    [ -s "$logs/t_formats_$name.json" ] || continue
    python3 - "$logs/t_formats_$name.json" "$name" <<'END' | while IFS= read -r line; do say "$line"; done
import json, sys
table = [row for row in json.load(open(sys.argv[1]))["format_table"] if row["format"].startswith(sys.argv[2])]
for name in dict.fromkeys(row["format"] for row in table):
    rows = [row for row in table if row["format"] == name]
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    print(f"{name} over bfloat16, by rows: " + ", ".join(shapes))
    for count in dict.fromkeys(row["rows"] for row in rows):
        print(f"  {count:5} " + " ".join(f"{row['speedup']:6.2f}" for row in rows if row["rows"] == count))
END
  done
}

# Decodes on the path that `auto` takes, prompts on the native one, those of e4m3 on the second.
# shellcheck disable=SC2086
measure_attention_targets() {
  local skewed="decode 63 x 512 + 1 x 32768"
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
  decode decode_drafts us "decode 64 x 2048, 4 tokens each"
  divide decode_drafts "$(row_value "$logs/t_attention.json" us op trtllm shape "decode 64 x 2048")"
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

# Sampling of cold logits; norms and rope as a step has them, layer after layer.
# shellcheck disable=SC2086
measure_operation_targets() {
  local copy rows
  measure t_sampling 60 kernels --only sampling $big --device "$device"
  for rows in 64 256; do
    take_row sample_${rows}_greedy t_sampling us shape "$rows x 128256, greedy"
    take_row sample_${rows}_top t_sampling us shape "$rows x 128256, k 50, p 0.9, middling"
  done
  measure t_steps_8b 60 kernels --only steps $big --device "$device" --batch-sizes 1 --prefill-len 2048
  measure t_steps_06b 60 kernels --only steps $small --device "$device" --batch-sizes 1 --prefill-len 2048
  take_row norm_8b t_steps_8b tb_s op add_rms_norm shape "2048 x 4096"
  take_row rope_8b t_steps_8b tb_s op store_heads shape "2048 x 6144"
  take_row norm_06b t_steps_06b tb_s op add_rms_norm shape "2048 x 1024"
  take_row rope_06b t_steps_06b tb_s op store_heads shape "2048 x 4096"
  for rows in 8b 06b; do
    copy=$(json_value "$logs/t_steps_$rows.json" copy_ceiling_tb_s figures)
    divide norm_$rows "$copy"
    divide rope_$rows "$copy"
  done
}

# The same requests through gRPC and without a server. Four times as many as run at once, of different lengths, so
# that prompts arrive all the time. The token-to-token times are of all of it.
# shellcheck disable=SC2086
measure_online() {
  local load="--num-prompts 4096 --input-len 128 --output-len 256 --random-range-ratio 0.5 --seed 5"
  local engine="--model $1 --load-format dummy --skip-tokenizer-init --device $device" address=$scratch/address pid
  measure t_offline 90 throughput $engine $load
  timeout -k 5 "$(at_most 120)" "$bin/quire-server" $engine --host 127.0.0.1 --port 0 --address-file "$address" \
    --no-access-log >"$logs/server.log" 2>&1 &
  pid=$!
  while [ ! -s "$address" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  measure t_online 90 serve --target "$(cat "$address" 2>/dev/null)" --ready-check-timeout-sec 60 $load \
    --max-concurrency 1024
  kill "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  take_one online_over_offline t_online output_throughput
  divide online_over_offline "$(json_value "$logs/t_offline.json" output_throughput)"
  take_one online_itl t_online p99_itl_ms
  divide online_itl "$(json_value "$logs/t_online.json" median_itl_ms)"
}

# A first start has nothing measured before and nothing kept; the weights are in the page cache.
measure_server_targets() {
  local size shape model
  for size in 06b 8b; do
    shape=qwen3-0.6b
    [ $size = 06b ] || shape=llama-3-8b
    model=$scratch/$size
    timeout -k 5 "$(at_most 60)" "$bin/quire-bench" make-checkpoint --shape $shape "$model" >"$logs/t_make_$size.log" 2>&1
    [ $size = 8b ] || measure_online "$model"
    QUIRE_CACHE_DIR=$scratch/no-cache-$size measure t_first_start_$size 90 startup --num-starts 1 --idle-seconds 0 \
      --model "$model" --device "$device" --skip-tokenizer-init
    take_row first_start_$size t_first_start_$size first_token_ms
    divide first_start_$size 1000
    rm -rf "$model"
  done
}
