# Part of run-gpu-check: --only profile, where the kernels of a decode step spend their time. Sourced, after figures.sh.
# Sets figure[KEY], a step's time in microseconds, and num_missing.

# NAME|shape|streams|context
profiles="llama8b_bs1|llama-3-8b|1|1030
llama8b_bs64|llama-3-8b|64|1030
llama8b_bs256|llama-3-8b|256|1030
qwen06b_bs1|qwen3-0.6b|1|1030
qwen06b_bs64|qwen3-0.6b|64|1030
qwen06b_bs256|qwen3-0.6b|256|1030
qwen06b_bs1024|qwen3-0.6b|1024|192"

# profile NAME SHAPE STREAMS CONTEXT: what kernel_trace.so writes of a run with that many streams of so many tokens, as a
# table and as JSON. The times are a little longer than without it.
profile() {
  local key=profile_$1_step_us name=profile_$1 trace=$scratch/trace.csv
  rm -f "$trace" "$out/$name.json"
  CUDA_INJECTION64_PATH=$root/libexec/kernel_trace.so QUIRE_KERNEL_TRACE=$trace \
    measure "$name" 90 timeline --shape "$2" --device "$device" --batch-size "$3" --context "$4"
  if [ "${exits[$name]}" = 0 ]; then
    python3 "$share/gpu-check/kernel_profile.py" "$trace" --json "$out/$name.json" >"$scratch/table" 2>>"$logs/$name.log"
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
  local name shape streams context
  figure_keys=$(sed 's/|.*//; s/^/profile_/; s/$/_step_us/' <<<"$profiles")
  say "profile of decode steps"
  if ! command -v python3 >/dev/null; then
    num_missing=$(wc -l <<<"$profiles")
    say "  all missing: no python3"
    return
  fi
  while IFS='|' read -r name shape streams context; do profile "$name" "$shape" "$streams" "$context"; done <<<"$profiles"
}
