#!/usr/bin/env python3
"""Compares the decoder with Hugging Face transformers: tiny random checkpoints of every family, and the bundled
model.

    hf_parity_test.py [--device cpu|cuda] [CASE...]

In float32, log probabilities agree and greedy answers are equal, however the prompt is cut into steps. On a GPU also in
bfloat16, where Quire may be no further from transformers in float32 than transformers itself is, with eager attention or
SDPA; how far those two are from each other is printed too.

Needs torch and transformers, which are large: tools/make_hf_venv.sh makes build/venv-hf, and this test uses it when
its own Python lacks them. Without either it is skipped (exit code 77). To run it:

    tools/make_hf_venv.sh && tools/test hf_parity -V
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from hf_modules import find_modules

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUNDLED = ROOT / "configs/demo"
# Tolerances of natural-log probabilities, float32 against float32. The trained model's logits are up to ten times as
# large; on a GPU sums have no fixed order.
TOLERANCE = {"cpu": 1e-4, "cuda": 1e-3}
BUNDLED_TOLERANCE = {"cpu": 5e-4, "cuda": 1e-3}
# Two roundings at different places are not equally far off: factors for the largest and for the mean error.
BF16_MAX_FACTOR, BF16_MEAN_FACTOR = 2.0, 1.3
# The share of the mean change by an 8-bit cache that may be left against a reference with such a cache.
FLOAT8_SHARE = 0.05
# The same where activations are bfloat16, which the reference does not round. Many digits of the cache then fall the
# other way, so that the error may be as large as the effect, beside the error that bfloat16 makes without such a cache.
# The second path's prompts round queries and probabilities to e4m3 as well. A wrong scale or layout is far beyond this.
FLOAT8_BF16_SHARE, FLOAT8_PROMPT_SHARE = 1.0, 1.5
# The head sizes that the second attention path has.
TRTLLM_HEAD_DIMS = (64, 128, 256)
NUM_FLOAT8_RETRIES = 5
NUM_GREEDY = 64
CHUNKS = {"cpu": [1000, 7, 1], "cuda": [1000, 7]}  # prompt at once, in awkward pieces, and token by token


def run_tool(device, folder, dtype, chunks, prompt):
    """What decoder_tool computes, for each way to cut the prompt."""
    tool = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")) / "bin/decoder_tool"
    command = [tool, device, folder, dtype, ",".join(map(str, chunks)), NUM_GREEDY, *prompt]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f"decoder_tool exited with {result.returncode}: {result.stderr.strip()}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def check_float32(device, folder, prompt, expected, expected_greedy, tolerance):
    """The largest difference of a log probability over all chunkings; AssertionError when something differs."""
    import torch
    worst = 0.0
    for chunk, actual in zip(CHUNKS[device], run_tool(device, folder, "float32", CHUNKS[device], prompt), strict=True):
        difference = (torch.tensor(actual["logprobs"], dtype=torch.float64) - expected).abs().max().item()
        worst = max(worst, difference)
        assert difference <= tolerance, f"chunk {chunk}: log probabilities differ by {difference:.2e}"
        assert actual["greedy"] == expected_greedy, f"chunk {chunk}: {actual['greedy']} is not {expected_greedy}"
    return f"float32 {worst:.1e}"


def float8_errors(device, model, folder, prompt, exact, name, dtype):
    """For each chunking: the mean difference from a reference that rounds what it keeps in the same way, over the mean
    effect that this rounding has."""
    import tiny_checkpoints
    import torch
    expected = tiny_checkpoints.logprobs_with_float8_cache(model, prompt, dtype)
    effect = (expected - exact).abs().mean().item()
    return [(torch.tensor(actual["logprobs"], dtype=torch.float64) - expected).abs().mean().item() / effect
            for actual in run_tool(device, folder, f"float32/{name}", CHUNKS[device], prompt)]


def check_float8_cache(device, model, folder, prompt, exact):
    """Of 8-bit caches. A last digit of a key that falls the other way changes all that follows, in a trained model by
    a tenth of the effect and more (the reference in float32 and in float64 differ as much): so what is far off for one
    prompt must be near for another, shorter one. A wrong rounding is far off for each."""
    import tiny_checkpoints
    import torch
    texts = []
    for name, dtype in (("fp8_e4m3", torch.float8_e4m3fn), ("fp8_e5m2", torch.float8_e5m2)):
        errors = float8_errors(device, model, folder, prompt, exact, name, dtype)
        for seed in range(8, 8 + NUM_FLOAT8_RETRIES):
            if max(errors) <= FLOAT8_SHARE:
                break
            other = tiny_checkpoints.prompt(model.config.get_text_config().vocab_size, 24, seed)
            again = float8_errors(device, model, folder, other, tiny_checkpoints.logprobs(model, other), name, dtype)
            errors = [min(pair) for pair in zip(errors, again, strict=True)]
        text = f"{name} {max(errors):.3f} of its effect"
        assert max(errors) <= FLOAT8_SHARE, f"{text} off; chunks {CHUNKS[device]}: {errors}"
        texts.append(text)
    return ", ".join(texts)


def check_float8_on_both_paths(device, model, folder, prompt, exact):
    """A GPU's paths with bfloat16 activations and a cache of e4m3, prompts and decodes, against the same reference."""
    import tiny_checkpoints
    import torch
    expected = tiny_checkpoints.logprobs_with_float8_cache(model, prompt, torch.float8_e4m3fn)

    def error(path, dtypes, chunk, reference):
        logprobs = run_tool(path, folder, dtypes, [chunk], prompt)[0]["logprobs"]
        return (torch.tensor(logprobs, dtype=torch.float64) - reference).abs().mean().item()

    effect = (expected - exact).abs().mean().item()
    rounding = error(device, "bfloat16", 1000, exact)
    config = model.config.get_text_config()
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    paths = [device] + [f"{device}/trtllm"] * (head_dim in TRTLLM_HEAD_DIMS)
    texts = []
    for path in paths:
        for chunk in (1000, 1):
            own = error(path, "bfloat16/fp8_e4m3", chunk, expected)
            share = FLOAT8_PROMPT_SHARE if path != device and chunk > 1 else FLOAT8_BF16_SHARE
            texts.append(f"{path}, chunks of {chunk}: {own:.4f}")
            assert own <= rounding + share * effect, (
                f"bfloat16 with fp8_e4m3 is too far off: {texts}; without it {rounding:.4f}, its effect {effect:.4f}")
    return f"bfloat16 with fp8_e4m3 (effect {effect:.4f}, without it {rounding:.4f}) {', '.join(texts)}"


def check_bfloat16(device, folder, prompt, expected):
    """Errors of Quire against those of transformers, as text; AssertionError when they are larger."""
    import tiny_checkpoints
    import torch

    def error(a, b):
        return (a - b).abs().max().item(), (a - b).abs().mean().item()

    # SDPA knows no soft cap, and some versions of transformers leave it out there instead of refusing.
    capped = json.loads((pathlib.Path(folder) / "config.json").read_text()).get("attn_logit_softcapping")
    theirs = [tiny_checkpoints.logprobs(tiny_checkpoints.load(folder, torch.bfloat16, attention, device), prompt).cpu()
              for attention in ("eager", "eager" if capped else "sdpa")]
    actual = run_tool(device, folder, "bfloat16", [1000], prompt)[0]["logprobs"]
    own_max, own_mean = error(torch.tensor(actual, dtype=torch.float64), expected)
    their_max = max(error(one, expected)[0] for one in theirs)
    their_mean = max(error(one, expected)[1] for one in theirs)
    apart_max, apart_mean = error(*theirs)
    text = (f"bfloat16 max {own_max:.3f} mean {own_mean:.4f}, transformers {their_max:.3f} {their_mean:.4f}, "
            f"its eager and SDPA apart {apart_max:.3f} {apart_mean:.4f}")
    assert own_max <= BF16_MAX_FACTOR * their_max and own_mean <= BF16_MEAN_FACTOR * their_mean, text
    return text


def check(device, model, folder, tolerance):
    import tiny_checkpoints
    prompt = tiny_checkpoints.prompt(model.config.get_text_config().vocab_size, 70, seed=7)
    expected = tiny_checkpoints.logprobs(model, prompt)
    greedy = tiny_checkpoints.greedy(model, prompt, NUM_GREEDY)
    text = check_float32(device, folder, prompt, expected, greedy, tolerance)
    text += "; " + check_float8_cache(device, model, folder, prompt, expected)
    if device == "cpu":
        return text
    text += "; " + check_float8_on_both_paths(device, model, folder, prompt, expected)
    return text + "; " + check_bfloat16(device, folder, prompt, expected)


def check_mixture(device, model, folder, num_ids, tolerance):
    """Of float32 alone: where numbers are rounded, a token's choice of experts may hang on it."""
    import tiny_checkpoints
    prompt = tiny_checkpoints.prompt(num_ids, 70, seed=7)
    return check_float32(device, folder, prompt, tiny_checkpoints.logprobs(model, prompt),
                         tiny_checkpoints.greedy(model, prompt, NUM_GREEDY), tolerance)


def report(name, compare):
    """Prints how one model compares; True when it agrees."""
    try:
        print(f"ok      {name}: largest differences {compare()}", flush=True)
        return True
    except AssertionError as error:
        print(f"FAILED  {name}: {error}", flush=True)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    find_modules()
    import tiny_checkpoints
    import tiny_moe
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    results = []
    for case in tiny_checkpoints.CASES:
        if not args.cases or case.name in args.cases:
            with tempfile.TemporaryDirectory() as folder:
                compare = lambda: check(args.device, tiny_checkpoints.make(case, folder), folder, TOLERANCE[args.device])
                results.append(report(case.name, compare))
    for name, (seed, make, num_ids) in tiny_moe.CASES.items():
        if not args.cases or name in args.cases:
            with tempfile.TemporaryDirectory() as parent:
                folder = pathlib.Path(parent) / name
                compare = lambda: check_mixture(args.device, make(folder, seed)[0], folder, num_ids, TOLERANCE[args.device])
                results.append(report(name, compare))
    if not args.cases or "bundled" in args.cases:
        compare = lambda: check(args.device, tiny_checkpoints.load(BUNDLED), BUNDLED, BUNDLED_TOLERANCE[args.device])
        results.append(report("bundled", compare))
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
