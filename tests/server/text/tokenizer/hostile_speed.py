#!/usr/bin/env python3
"""How fast one thread encodes a megabyte of one character class, and whether twice the text takes twice the time.

For every kind of tokenizer and every Unicode general category: a run of one character, one of random characters of the
category, and mixtures that make patterns look far ahead and back. By the thread's own time, the best and
the median of some rounds.

usage: hostile_speed.py TOKENIZER_TOOL [--vocab SIZE] [--kind NAME]...     (tools/tokenizer/hostile builds first)
"""

import argparse
import os
import random
from statistics import median
import sys
import tempfile
import unicodedata

from differential_test import Tool
import tokenizer_kinds

MIB = 1 << 20
MIXTURES = {"letters and marks": "a\u0301", "blanks and breaks": " \n", "marks of two classes": "\u0334\u0315",
            "added tokens": "<s>", "almost an added token": "<|im_star", "apostrophes": "'s", "digits in groups": "1234"}


def of_size(unit, size):
    return unit * (size // len(unit.encode()) + 1)


def hostile_texts(size):
    """(name, text of about `size` bytes)"""
    draw = random.Random(5)
    categories = {}
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category != "Cs":
            categories.setdefault(category, []).append(chr(code))
    for category, characters in sorted(categories.items()):
        yield f"{category}, one", of_size(draw.choice(characters), size)
        yield f"{category}, many", of_size("".join(draw.choices(characters, k=4096)), size)
    for name, unit in MIXTURES.items():
        yield name, of_size(unit, size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--vocab", type=int, default=8000, metavar="SIZE")
    parser.add_argument("--kind", action="append", metavar="NAME")
    options = parser.parse_args()
    # The tool keeps its memory: fetching it anew from the system for every text costs more than encoding, and
    # begins at some size.
    os.environ.update(MALLOC_MMAP_THRESHOLD_=str(1 << 30), MALLOC_TRIM_THRESHOLD_=str(1 << 30))
    halves, wholes = dict(hostile_texts(MIB // 2)), dict(hostile_texts(MIB))
    print(f"{len(wholes)} texts of 1 MiB a kind; MB/s per thread, and time of 1 MiB over that of 0.5 MiB")
    print(f"{'kind':<14}{'median':>8}{'least':>8}  {'at':<24}{'greatest ratio':>15}  at")
    for name, make in tokenizer_kinds.kinds(options.vocab):
        if options.kind and name not in options.kind:
            continue
        with tempfile.TemporaryDirectory() as folder:
            make().save(f"{folder}/tokenizer.json")
            tool = Tool(options.tool, folder)
            speeds = {}
            for text, whole in wholes.items():
                tries = []
                # Often enough that other work on the machine does not decide.
                while len(tries) < 3 or (median(r for _, r in tries) > 2.2 and len(tries) < 9):
                    half_speed, speed = (max(answer) for answer in tool.ask(
                        {"time": [t], "rounds": 2} for t in (halves[text], whole)))
                    tries.append((speed, 2 * half_speed / speed))
                speeds[text] = max(s for s, _ in tries), median(r for _, r in tries)
            tool.close()
        slowest = min(speeds, key=lambda text: speeds[text][0])
        steepest = max(speeds, key=lambda text: speeds[text][1])
        print(f"{name:<14}{median(speed for speed, _ in speeds.values()) / 1e6:>8.1f}{speeds[slowest][0] / 1e6:>8.1f}  {slowest:<24}"
              f"{speeds[steepest][1]:>15.2f}  {steepest}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
