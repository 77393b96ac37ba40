#!/usr/bin/env bash
# Every C++ file is as clang-format 14 would write it. Exits 77 (skipped) where clang-format is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=../lib/setup.sh
source tools/lib/setup.sh
answer_help tools/lint/check_format.sh "$@"
formatter=$(command -v clang-format-14 || command -v clang-format) || {
  echo "skipped: clang-format is not installed"
  exit 77
}
git ls-files --cached --others --exclude-standard '*.h' '*.cc' '*.cu' '*.cuh' |
  xargs -r "$formatter" --dry-run --Werror
