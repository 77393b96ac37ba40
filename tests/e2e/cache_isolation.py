"""Can one principal tell by the time to the first token whether another has sent a prompt? Measures; asserts no time.

A victim sends a prompt. Then a prober sends the same prompt and a new one of the same length, in random order. AUC is
the chance that the known prompt was answered sooner than the new one (ties count half): 0.5 tells nothing, 1 tells
all. The control is the same with the victim as its own prober.

    cache_isolation.py [--pairs 400] [--tokens 1500] [--seed N]"""

import argparse
import bisect
import json
import math
import os
import pathlib
import random
import tempfile
import time

from harness import Server, ids_request, pb_grpc

KEYS = {"victim": "key-of-the-victim-01", "prober": "key-of-the-prober-01"}


def first_token(stub, name, ids):
    """Milliseconds to the first token, and how many tokens came from the cache."""
    began = time.perf_counter()
    elapsed = None
    cached = 0
    for response in stub.Generate(ids_request(ids, max_tokens=1), timeout=120,
                                  metadata=[("authorization", f"Bearer {KEYS[name]}")]):
        kind = response.WhichOneof("event")
        if elapsed is None and kind == "delta":
            elapsed = (time.perf_counter() - began) * 1000
        elif kind == "finished":
            cached = response.finished.usage.cached_tokens
    return elapsed, cached


def auc(known, new):
    """The chance that one of `known` is below one of `new`, and its standard error when both are the same."""
    ordered = sorted(new)
    below = sum(len(ordered) - (bisect.bisect_left(ordered, value) + bisect.bisect_right(ordered, value)) / 2
                for value in known)
    n = len(known)
    return below / n**2, math.sqrt((2 * n + 1) / (12 * n * n))


def measure(stub, prober, args, draw):
    known, new, cached_known, cached_new = [], [], 0, 0
    for _ in range(args.pairs):
        prompt, other = ([draw.randrange(10, 900) for _ in range(args.tokens)] for _ in range(2))
        first_token(stub, "victim", prompt)
        for ids in draw.sample((prompt, other), 2):
            elapsed, cached = first_token(stub, prober, ids)
            if ids is prompt:
                known.append(elapsed)
                cached_known += cached
            else:
                new.append(elapsed)
                cached_new += cached
    value, error = auc(known, new)
    median = sorted(known)[len(known) // 2], sorted(new)[len(new) // 2]
    print(f"{prober:7} {args.pairs} pairs: AUC {value:.4f} (standard error of chance {error:.4f}), median "
          f"{median[0]:.2f} and {median[1]:.2f} ms, cached tokens {cached_known} and {cached_new}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    args = parser.parse_args()
    print(f"seed {args.seed}, {args.tokens} tokens a prompt")
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="quire_isolation_") as folder:
        keys = pathlib.Path(folder, "keys")
        keys.write_text("".join(json.dumps({"key": key, "name": name}) + "\n" for name, key in KEYS.items()))
        os.chmod(keys, 0o600)
        with Server("--api-key-file", str(keys), wait=False) as server:
            server.wait_until_serving()
            stub = pb_grpc.InferenceStub(server.channel)
            for name in KEYS:
                first_token(stub, name, [1, 2, 3])
            measure(stub, "prober", args, draw)
            measure(stub, "victim", args, draw)


if __name__ == "__main__":
    main()
