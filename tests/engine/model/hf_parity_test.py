#!/usr/bin/env python3
"""Compares the decoder with Hugging Face transformers in float32: tiny random checkpoints of every family, and the
bundled model.

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
BUNDLED = ROOT / "configs/demo"
VENV_PYTHON = ROOT / "build/venv-hf/bin/python"
SKIPPED = 77
# Of natural-log probabilities, float32 against float32. The trained model's logits are up to ten times as large.
TOLERANCE = 1e-4
BUNDLED_TOLERANCE = 5e-4
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


def check(model, folder, tolerance):
    """The largest difference of a log probability over all chunkings; AssertionError when something differs."""
    import tiny_checkpoints
    import torch
    prompt = tiny_checkpoints.prompt(model.config.vocab_size, 70, seed=7)
    expected = tiny_checkpoints.logprobs(model, prompt)
    expected_greedy = tiny_checkpoints.greedy(model, prompt, NUM_GREEDY)
    worst = 0.0
    for chunk in CHUNKS:
        actual = run_tool(folder, chunk, prompt)
        difference = (torch.tensor(actual["logprobs"], dtype=torch.float64) - expected).abs().max().item()
        worst = max(worst, difference)
        assert difference <= tolerance, f"chunk {chunk}: log probabilities differ by {difference:.2e}"
        assert actual["greedy"] == expected_greedy, f"chunk {chunk}: {actual['greedy']} is not {expected_greedy}"
    return worst


def report(name, make_model, folder, tolerance):
    """Prints how one model compares; True when it agrees."""
    try:
        print(f"ok      {name}: largest difference {check(make_model(), folder, tolerance):.1e}", flush=True)
        return True
    except AssertionError as error:
        print(f"FAILED  {name}: {error}", flush=True)
        return False


def main():
    find_modules()
    import tiny_checkpoints
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    wanted = sys.argv[1:]
    results = []
    for case in tiny_checkpoints.CASES:
        if not wanted or case.name in wanted:
            with tempfile.TemporaryDirectory() as folder:
                make_model = lambda: tiny_checkpoints.make(case, folder)
                results.append(report(case.name, make_model, folder, TOLERANCE))
    if not wanted or "bundled" in wanted:
        results.append(report("bundled", lambda: tiny_checkpoints.load(BUNDLED), BUNDLED, BUNDLED_TOLERANCE))
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
