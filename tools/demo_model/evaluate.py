#!/usr/bin/env python3
"""Scores the answers that transformers gives to the held-out items under greedy decoding, per task and in total; those of
a running server: quire-bench quality.

Exits with 1 if the total is below --require. Needs torch and transformers.
"""

import argparse
import collections
import json
import pathlib
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


# --- scoring ------------------------------------------------------------------------------------------------------------

def load(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def is_right(item, text):
    """The text is the answer; for JSON, it parses to the same object."""
    if item["task"] != "json":
        return text.strip() == item["answer"]
    try:
        return json.loads(text) == json.loads(item["answer"])
    except json.JSONDecodeError:
        return False


def scores(items, texts):
    """{task: (right, all)}, with "total" as the last."""
    result = collections.OrderedDict()
    for item, text in zip(items, texts, strict=True):
        for name in (item["task"], "total"):
            right, number = result.get(name, (0, 0))
            result[name] = (right + is_right(item, text), number + 1)
    result.move_to_end("total")
    return result


# --- answers ------------------------------------------------------------------------------------------------------------

def answers_of_torch(items, model_dir):
    """Generates with transformers, one item at a time."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16).to(device)
    texts = []
    for item in items:
        prompt = tokenizer.apply_chat_template(item["messages"], tokenize=False, add_generation_prompt=True)
        ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).to(device)
        output = model.generate(**ids, do_sample=False, max_new_tokens=item["max_tokens"])[0]
        texts.append(tokenizer.decode(output[ids.input_ids.shape[1]:], skip_special_tokens=True))
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "configs/demo", help="folder")
    parser.add_argument("--heldout", type=pathlib.Path, default=ROOT / "configs/demo/heldout.jsonl")
    parser.add_argument("--every", type=int, default=1, help="ask only every n-th item")
    parser.add_argument("--require", type=float, default=0.95, help="least total score")
    parser.add_argument("--show-wrong", action="store_true")
    args = parser.parse_args()

    items = load(args.heldout)[::args.every]
    begin = time.monotonic()
    texts = answers_of_torch(items, args.model)
    seconds = time.monotonic() - begin

    if args.show_wrong:
        for item, text in zip(items, texts):
            if not is_right(item, text):
                asked = item["messages"][-1]["content"][-200:]
                print(f"{item['task']}: asked {asked!r}, expected {item['answer']!r}, got {text!r}")
    result = scores(items, texts)
    for task, (right, number) in result.items():
        print(f"{task:16} {right:4} of {number:4}  {right / number:6.1%}")
    print(f"in {seconds:.1f} s")
    right, number = result["total"]
    if right < args.require * number:
        raise SystemExit(f"the total is below {args.require:.0%}")


if __name__ == "__main__":
    main()
