#!/usr/bin/env bash
# Makes build/venv-hf with torch (CPU) and transformers, about 1 GB: for tests/engine/model/hf_parity_test.py and
# tools/make_test_vectors.py. Does nothing when it is there.
set -euo pipefail
# shellcheck source=lib/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"
answer_help "$0" "$@"
venv="$QUIRE_ROOT/build/venv-hf"
if "$venv/bin/python" -c 'import torch, transformers' 2>/dev/null; then
  exit 0
fi
python3 -m venv "$venv"
"$venv/bin/pip" install -q torch 'transformers>=5' numpy
"$venv/bin/python" -c 'import torch, transformers'
