# Shared by the commands beside it: builds a program and runs a script of tests/server with it.
# Sourced, not run. With QUIRE_BUILD_DIR, takes the program from that folder as it is.

# shellcheck source=../lib/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/setup.sh"
answer_help "$0" "$@"

# run_with_tool PROGRAM SCRIPT ARGUMENT...
run_with_tool() {
  local program=$1 script=$2
  shift 2
  cd "$QUIRE_ROOT" || exit 1
  if [ -z "${QUIRE_BUILD_DIR:-}" ]; then
    QUIRE_CMAKE_ARGS=(-DQUIRE_TESTS=ON)
    # shellcheck disable=SC2086
    ensure_packages $QUIRE_BUILD_PACKAGES $QUIRE_TEST_PACKAGES
    build_targets cpu "$program"
  fi
  [ -n "${QUIRE_TEST_PYTHON:-}" ] || ensure_test_python ||
    fail "the packages of tests/requirements.txt cannot be installed"
  "$QUIRE_TEST_PYTHON" "tests/server/$script" "${QUIRE_BUILD_DIR:-$QUIRE_ROOT/build/cpu}/bin/$program" "$@"
}
