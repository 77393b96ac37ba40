#!/usr/bin/env bash
# How CMakeLists.txt compiles precompiled headers where there is ccache: precompile.sh CCACHE COMPILER ARGUMENT...
# Beside FILE.gch it writes FILE.gch.sum, a checksum of the headers' text, by which ccache then knows them
# (CCACHE_PCH_EXTSUM): GCC writes another .gch in each build folder, with which every source would be compiled anew.
set -euo pipefail
case ${1:-} in
  -h | --help)
    # shellcheck source=setup.sh
    source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
    answer_help "$0" "$@"
    ;;
esac
"$@"
shift
preprocess=()
output=
while [ $# -gt 0 ]; do
  case $1 in
    -o | -MF | -MT | -MQ)
      [ "$1" != -o ] || output=$2
      shift
      ;;
    -MD | -MMD | -c | -fpch-preprocess) ;;
    *) preprocess+=("$1") ;;
  esac
  shift
done
[[ $output == *.gch ]] || exit 0
text_sum=$("${preprocess[@]}" -E -P -dD -o - | sha256sum)
echo "${text_sum%% *}" >"$output.sum"
