"""The packages that tests against Hugging Face transformers need, which are large: build/venv-hf has them."""

import importlib.util
import os
import pathlib
import sys

VENV_PYTHON = pathlib.Path(__file__).resolve().parents[3] / "build/venv-hf/bin/python"
SKIPPED = 77  # exit code


def find_modules():
    """Runs this script under build/venv-hf, or ends it, when torch and transformers are not here."""
    if all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        return
    if VENV_PYTHON.exists() and pathlib.Path(sys.prefix) != VENV_PYTHON.parents[1]:
        os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])
    print("skipped: needs torch and transformers; tools/make_hf_venv.sh installs them in build/venv-hf")
    sys.exit(SKIPPED)
