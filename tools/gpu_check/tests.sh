# Part of run-gpu-check: the tests. Sourced. Adds to passed, failed and skipped.

# count_gtest NAME LOG EXIT_CODE: a GoogleTest program's own counts; a crash is one failure.
count_gtest() {
  local p f s
  p=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?\.$/\1/p' "$2" | tail -1)
  f=$(sed -nE 's/^\[  FAILED  \] ([0-9]+) tests?, listed below:$/\1/p' "$2" | tail -1)
  s=$(sed -nE 's/^\[  SKIPPED \] ([0-9]+) tests?, listed below:$/\1/p' "$2" | tail -1)
  [ "$3" -eq 0 ] || [ -n "$f" ] || f=1
  add_result "$1" "${p:-0}" "${f:-0}" "${s:-0}" "$2"
}

# count_python NAME LOG EXIT_CODE: unittest's counts, or lines "ok ..." and "FAILED ..."; 77 is skipped as a whole.
count_python() {
  local ran f=0 s=0 n
  if [ "$3" -eq 77 ]; then
    add_result "$1" 0 0 1 "$2" "$(grep -m1 skipped "$2")"
    return
  fi
  ran=$(sed -nE 's/^Ran ([0-9]+) tests? in .*/\1/p' "$2" | tail -1)
  if [ -n "$ran" ]; then
    for n in $(grep -E '^FAILED \(' "$2" | grep -oE '(failures|errors)=[0-9]+' | cut -d= -f2); do f=$((f + n)); done
    n=$(grep -E '^(OK|FAILED) \(' "$2" | grep -oE 'skipped=[0-9]+' | cut -d= -f2)
    s=${n:-0}
  else
    f=$(grep -cE '^FAILED ' "$2")
    ran=$(($(grep -cE '^ok ' "$2") + f))
  fi
  [ "$3" -eq 0 ] || [ "$f" -gt 0 ] || f=1
  n=$((ran - f - s))
  add_result "$1" $((n > 0 ? n : 0)) "$f" "$s" "$2"
}

# add_result NAME PASSED FAILED SKIPPED LOG [REMARK]
add_result() {
  passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
  say "$(printf '  %-44s %5d passed %3d failed %3d skipped  %s' "$1" "$2" "$3" "$4" "${6:-}")"
  [ "$3" -eq 0 ] || grep -E '^\[  FAILED  \]|^FAILED|^(FAIL|ERROR):|Error|ERROR SUMMARY|error:|error while|CHECK failed' "$5" | grep -v ' ms)$' |
    sort -u | head -12 | while read -r line; do say "      $line"; done
}

# in_background NAME SECONDS COMMAND...: leaves NAME.log and NAME.exit in $logs.
in_background() {
  local name=$1 limit=$2
  shift 2
  {
    (cd "$share/source" && timeout -k 5 "$limit" "$@") >"$logs/$name.log" 2>&1
    echo $? >"$logs/$name.exit"
  } 2>/dev/null &  # the shell's own words about a crash
}

# wait_for_place [MOST]: waits while as many as half the cores, at most MOST (6), have work.
wait_for_place() {
  local most=$(($(nproc) / 2))
  [ "$most" -ge 1 ] || most=1
  [ "$most" -le "${1:-6}" ] || most=${1:-6}
  while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n; done
}

run_program_tests() {
  local test name filter='*'
  [ "$quick" = yes ] && [ "$device" = cuda ] && filter='*Cuda*:*GPU*'
  say "C++ tests"
  for test in "$root"/libexec/tests/*_test; do
    [ -e "$test" ] || continue
    name=${test##*/}
    wait_for_place
    in_background "$name" "$(at_most 200)" "$bin/with-libraries" "$test" --gtest_filter="$filter"
  done
  wait
  for test in "$root"/libexec/tests/*_test; do
    [ -e "$test" ] || continue
    name=${test##*/}
    count_gtest "$name" "$logs/$name.log" "$(cat "$logs/$name.exit")"
  done
}

# skip NAME REASON
skip() {
  skipped=$((skipped + 1))
  say "$(printf '  %-44s skipped: %s' "$1" "$2")"
}

# python_test NAME MODULES SECONDS SCRIPT ARGUMENT...: one after another, as servers take most of the GPU's memory.
python_test() {
  local name=$1 modules=$2 asked=$3 limit code
  shift 3
  command -v python3 >/dev/null || { skip "$name" "no python3"; return; }
  python3 -c "import $modules" 2>/dev/null || { skip "$name" "python3 has no $modules"; return; }
  limit=$(at_most "$asked")
  [ "$limit" -ge 15 ] || { skip "$name" "no time left"; return; }
  (cd "$share/source" && QUIRE_BUILD_DIR=$root timeout -k 5 "$limit" python3 "$@") >"$logs/$name.log" 2>&1
  code=$?
  if [ "$code" -eq 124 ] && [ "$limit" -lt "$asked" ]; then
    skip "$name" "not done within the $limit s that were left"
  else
    count_python "$name" "$logs/$name.log" "$code"
  fi
}

run_python_tests() {
  say "Python tests on the bundled model"
  local tests="generate clients score" test cases=
  [ "$quick" = yes ] || tests="generate lifecycle failure checkpoint bad_input clients score"
  for test in $tests; do
    [ -e "$share/source/tests/e2e/${test}_test.py" ] || continue
    python_test "e2e_$test" "grpc, google.protobuf" 120 "tests/e2e/${test}_test.py"
  done
  # The bundled model in each format: a server for each.
  [ "$quick" = yes ] || [ ! -e "$share/source/tests/e2e/quantized_test.py" ] ||
    python_test e2e_quantized "grpc, google.protobuf, numpy, ml_dtypes" 300 tests/e2e/quantized_test.py
  [ "$quick" = yes ] && cases="llama mistral_window qwen2 qwen3 bundled"
  # shellcheck disable=SC2086
  python_test hf_parity "torch, transformers" 180 tests/engine/model/hf_parity_test.py --device "$device" $cases
}

# Tests of operations and models under NVIDIA's compute-sanitizer, which runs them tens of times slower: a selection, or
# with --only sanitizer every program that has tests for CUDA. A program's tests run in a few processes side by side.
run_sanitizer() {
  local tool test shard sanitizer limit end
  local -A num_shards=()
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  say "compute-sanitizer"
  if [ -z "$sanitizer" ]; then
    skip sanitizer "no compute-sanitizer on this machine"
    return
  fi
  local tools="memcheck racecheck initcheck" tests
  limit=$(at_most 150)
  [ "$quick" = yes ] && tools=memcheck
  [ "$only" = sanitizer ] && limit=$(seconds_left)
  tests=$(programs_for_tool memcheck)
  for test in $tests; do num_shards[$test]=$(shards_for_sanitizer "$test"); done
  if [ "$limit" -lt 10 ]; then
    skip sanitizer "no time left"
    return
  fi
  : >"$logs/sanitizer.log"
  [ -n "$tests" ] || add_result sanitizer 0 1 0 "$logs/sanitizer.log" "no program has tests for CUDA here"
  end=$((SECONDS + limit))
  for tool in $tools; do
    for test in $(programs_for_tool "$tool"); do
      for ((shard = 0; shard < num_shards[$test]; shard++)); do
        wait_for_place 12
        limit=$((end > SECONDS ? end - SECONDS : 1))
        in_background "$tool-$test-$shard" "$limit" env GTEST_TOTAL_SHARDS="${num_shards[$test]}" GTEST_SHARD_INDEX="$shard" \
          "$bin/with-libraries" "$sanitizer" --tool "$tool" --error-exitcode 99 --print-limit 5 \
          "$root/libexec/tests/$test" --gtest_filter="$(filter_for_sanitizer "$tool" "$test")" --gtest_brief=1
      done
    done
  done
  wait
  for tool in $tools; do
    for test in $(programs_for_tool "$tool"); do
      for ((shard = 0; shard < num_shards[$test]; shard++)); do count_sanitizer "$tool-$test-$shard"; done
    done
  done
}

# programs_for_tool TOOL: a selection that ends in its time, each tool's the first of memcheck's, or with --only
# sanitizer all of them. racecheck and initcheck take minutes for what draws tokens or runs a model.
programs_for_tool() {
  local few="rope_test elementwise_test"
  if [ "$only" = sanitizer ]; then
    programs_for_sanitizer
  elif [ "$quick" = yes ]; then
    echo rope_test sampler_test sampler_logprobs_test
  else
    case $1 in
      memcheck) echo "$few linear_op_test cuda_attention_plan_test attention_test attention_float8_test sampler_test sampler_logprobs_test model_runner_test" ;;
      racecheck) echo "$few linear_op_test cuda_attention_plan_test" ;;
      initcheck) echo "$few" ;;
    esac
  fi
}

num_cuda_tests() { "$bin/with-libraries" "$root/libexec/tests/$1" --gtest_list_tests --gtest_filter='*Cuda*' | grep -c '^  '; }

# Not the tests of the device itself: some of them make errors on purpose.
programs_for_sanitizer() {
  local test
  for test in "$root"/libexec/tests/*_test; do
    test=${test##*/}
    [[ $test = *device_test || $test = *fault_test ]] || [ "$(num_cuda_tests "$test")" -eq 0 ] || echo "$test"
  done
}

# filter_for_sanitizer TOOL PROGRAM. initcheck does not see what cuBLASLt's bfloat16 kernels store by bulk copies out of
# shared memory: whoever reads such a product seems to read what nobody wrote. Models run in float32 there.
filter_for_sanitizer() {
  case $1-$2 in
    initcheck-decoder_golden_test | initcheck-quantized_golden_test) echo '*Float32*Cuda*' ;;
    *) echo '*Cuda*' ;;
  esac
}

# As many processes as there are tests, at most 6.
shards_for_sanitizer() {
  local n
  n=$(num_cuda_tests "$1")
  echo $((n > 6 ? 6 : n > 0 ? n : 1))
}

# count_sanitizer NAME: a process in which no test ran is a failure.
count_sanitizer() {
  local log=$logs/$1.log
  case $(cat "$logs/$1.exit") in
    0)
      if grep -qE '^\[  SKIPPED \] [1-9]' "$log" && grep -qE '^\[  PASSED  \] 0 ' "$log"; then
        skip "$1" "its test does not run on a GPU"
      elif grep -qE '^\[  PASSED  \] [1-9]' "$log"; then
        add_result "$1" 1 0 0 "$log" "$(grep -E 'SUMMARY' "$log" | tail -1 | sed 's/^=* //')"
      else
        add_result "$1" 0 1 0 "$log" "nothing ran"
      fi
      ;;
    124 | 137) skip "$1" "not done within its time" ;;
    *) add_result "$1" 0 1 0 "$log" ;;
  esac
}
