# Shared by compare and speed: builds tokenizer_tool and runs a script of tests/server/tokenizer beside it.
# Sourced, not run. QUIRE_BUILD_DIR names a folder that is built already.

# shellcheck source=../lib/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/setup.sh"

# run_with_tool SCRIPT ARGUMENT...
run_with_tool() {
  local script=$1
  shift
  cd "$QUIRE_ROOT" || exit 1
  if [ -z "${QUIRE_BUILD_DIR:-}" ]; then
    QUIRE_CMAKE_ARGS=(-DQUIRE_TESTS=ON)
    # shellcheck disable=SC2086
    ensure_packages $QUIRE_BUILD_PACKAGES $QUIRE_TEST_PACKAGES
    build_targets cpu tokenizer_tool
  fi
  [ -n "${QUIRE_TEST_PYTHON:-}" ] || ensure_test_python ||
    fail "the packages of tests/requirements.txt cannot be installed"
  "$QUIRE_TEST_PYTHON" "tests/server/tokenizer/$script" "$@"
}
