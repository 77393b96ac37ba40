#!/usr/bin/env python3
"""Writes the held-out items, one JSON object per line: task, messages, answer, max_tokens.

    make_heldout.py --out configs/demo/heldout.jsonl
"""

import argparse
import json
import pathlib
import random

import tasks
import tool_use

SEED = 40_001
TOOL_SEED = 40_002


def record(system, item):
    messages = [{"role": "system", "content": system}] if system else []
    for user, assistant in item.turns:
        messages += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    answer = messages.pop()["content"]
    # A token is at least one character, so this is enough for the right answer.
    return {"task": item.task, "messages": messages, "answer": answer, "max_tokens": len(answer) + 8}


def records():
    items = [record(system, item) for system, item in tasks.heldout_items(random.Random(SEED))]
    return items + [record(item.system, item) for item in tool_use.heldout_items(random.Random(TOOL_SEED))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.out.write_text("".join(json.dumps(r) + "\n" for r in records()))


if __name__ == "__main__":
    main()
