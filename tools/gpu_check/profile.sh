# Part of run-gpu-check: --only profile, where the kernels of steps spend their time. Sourced, after figures.sh. Sets
# figure[KEY], a step's time in microseconds, and num_missing.

# NAME|flags of kernel_profile.py|quire-bench, with @ for the folder of the bundle's data
profiles="llama8b_bs1||timeline --shape llama-3-8b --batch-size 1 --context 1030
llama8b_bs64||timeline --shape llama-3-8b --batch-size 64 --context 1030
llama8b_bs256||timeline --shape llama-3-8b --batch-size 256 --context 1030
qwen06b_bs1||timeline --shape qwen3-0.6b --batch-size 1 --context 1030
qwen06b_bs64||timeline --shape qwen3-0.6b --batch-size 64 --context 1030
qwen06b_bs256||timeline --shape qwen3-0.6b --batch-size 256 --context 1030
qwen06b_nano_256|--all-steps|throughput --shape qwen3-0.6b --workload @workloads/nano_256.jsonl
qwen06b_128_128|--all-steps|throughput --shape qwen3-0.6b --num-prompts 1024 --input-len 128 --output-len 128"

# profile NAME FLAGS COMMAND: what kernel_trace.so writes of that run, as a table and as JSON. The times are a little
# longer than without it.
profile() {
  local key=profile_$1_step_us name=profile_$1 trace=$scratch/trace.csv
  local -a flags command
  rm -f "$trace" "$out/$name.json"
  read -ra flags <<<"$2"
  read -ra command <<<"$3"
  CUDA_INJECTION64_PATH=$root/libexec/kernel_trace.so QUIRE_KERNEL_TRACE=$trace \
    measure "$name" 90 "${command[@]/#@/$share/}" --device "$device"
  if [ "${exits[$name]}" = 0 ]; then
    python3 "$share/gpu-check/kernel_profile.py" "$trace" "${flags[@]}" --json "$out/$name.json" >"$scratch/table" 2>>"$logs/$name.log"
    exits[$name]=$?
  fi
  figure[$key]=$(json_value "$out/$name.json" step_us)
  if [ -n "${figure[$key]}" ]; then
    say "$1: $(cat "$scratch/table")"
  else
    num_missing=$((num_missing + 1))
    say "$(printf '  %-32s missing: %s' "$key" "$(why_missing "$name")")"
  fi
  say "      ${commands[$name]}"
}

run_profile() {
  local name flags command
  figure_keys=$(sed 's/|.*//; s/^/profile_/; s/$/_step_us/' <<<"$profiles")
  say "profile of steps"
  if ! command -v python3 >/dev/null; then
    num_missing=$(wc -l <<<"$profiles")
    say "  all missing: no python3"
    return
  fi
  while IFS='|' read -r name flags command; do profile "$name" "$flags" "$command"; done <<<"$profiles"
}
