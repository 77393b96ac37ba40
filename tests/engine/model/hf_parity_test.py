#!/usr/bin/env python3
"""Compares the decoder with Hugging Face transformers on tiny random checkpoints of every family, in float32.

Needs torch and transformers, which are large: tools/make_hf_venv.sh makes build/venv-hf, and this test uses it when
its own Python lacks them. Without either it is skipped (exit code 77). To run it:

    tools/make_hf_venv.sh && ctest --test-dir build/cpu -R hf_parity --verbose
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
VENV_PYTHON = ROOT / "build/venv-hf/bin/python"
SKIPPED = 77
TOLERANCE = 1e-4  # natural-log probabilities, float32 against float32
NUM_GREEDY = 24
CHUNKS = [1000, 7, 1]  # prompt at once, in awkward pieces, and token by token


def find_modules():
    """Runs this script under build/venv-hf, or ends it, when torch and transformers are not here."""
    if all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        return
    if VENV_PYTHON.exists() and pathlib.Path(sys.prefix) != VENV_PYTHON.parents[1]:
        os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])
    print("skipped: needs torch and transformers; tools/make_hf_venv.sh installs them in build/venv-hf")
    sys.exit(SKIPPED)


def run_tool(folder, chunk, prompt):
    tool = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")) / "bin/decoder_tool"
    command = [tool, folder, "float32", chunk, NUM_GREEDY, *prompt]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f"decoder_tool exited with {result.returncode}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def check(case, folder):
    """The largest difference of a log probability over all chunkings; AssertionError when something differs."""
    import tiny_checkpoints
    import torch
    model = tiny_checkpoints.make(case, folder)
    prompt = tiny_checkpoints.prompt(model.config.vocab_size, 70, seed=7)
    expected = tiny_checkpoints.logprobs(model, prompt)
    expected_greedy = tiny_checkpoints.greedy(model, prompt, NUM_GREEDY)
    worst = 0.0
    for chunk in CHUNKS:
        actual = run_tool(folder, chunk, prompt)
        difference = (torch.tensor(actual["logprobs"], dtype=torch.float64) - expected).abs().max().item()
        worst = max(worst, difference)
        assert difference <= TOLERANCE, f"chunk {chunk}: log probabilities differ by {difference:.2e}"
        assert actual["greedy"] == expected_greedy, f"chunk {chunk}: {actual['greedy']} is not {expected_greedy}"
    return worst


def main():
    find_modules()
    import tiny_checkpoints
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    wanted = sys.argv[1:]
    failed = 0
    for case in tiny_checkpoints.CASES:
        if wanted and case.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"ok      {case.name}: largest difference {check(case, folder):.1e}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"FAILED  {case.name}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
