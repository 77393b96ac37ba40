#!/usr/bin/env python3
"""How fast one thread encodes English text, next to Hugging Face tokenizers in the same run.

The vocabularies are trained on one half of the English that comes with Python (its help texts and the doc strings of
its library); the other half is encoded, as texts of about 4 KiB. Both sides are measured by their thread's time, so
other work on the machine matters little. "first" is the first pass over the text, with empty caches.

usage: tokenizer_speed.py TOKENIZER_TOOL [--vocab SIZE] [--kind NAME]...     (tools/tokenizer/speed builds first)
"""

import argparse
import ast
import os
import pathlib
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402

from differential_test import Tool  # noqa: E402
import tokenizer_kinds  # noqa: E402
from tokenizer_texts import english_text  # noqa: E402

MIB = 1 << 20
KINDS = ("gpt2", "llama3", "qwen2", "o200k", "deepseek", "starcoder", "llama2", "gemma", "unigram_stripped",
         "unigram_words")
NUM_ROUNDS = 5


def doc_strings():
    for path in sorted(pathlib.Path(ast.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef))]
        yield "\n\n".join(filter(None, map(ast.get_docstring, nodes)))


def in_chunks(texts, size=4096):
    joined = "\n\n".join(texts)
    return [joined[i:i + size] for i in range(0, len(joined), size)]


def reference_speeds(tokenizer, texts):
    num_bytes = sum(len(t.encode()) for t in texts)
    speeds = []
    for _ in range(NUM_ROUNDS):
        started = time.thread_time()
        for text in texts:
            tokenizer.encode_batch_fast([text], add_special_tokens=False)
        speeds.append(num_bytes / (time.thread_time() - started))
    return speeds


def our_speeds(program, tokenizer, texts):
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(f"{folder}/tokenizer.json")
        tool = Tool(program, folder)
        speeds = tool.ask([{"time": texts, "rounds": NUM_ROUNDS}])[0]
        tool.close()
        return speeds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--vocab", type=int, default=32000, metavar="SIZE")
    parser.add_argument("--kind", action="append", metavar="NAME")
    options = parser.parse_args()
    english = [*english_text(), *filter(None, doc_strings())]
    train = tokenizer_kinds.Trainer(options.vocab, english[::2])
    texts = in_chunks(english[1::2])
    print(f"{sum(len(t.encode()) for t in texts) / MIB:.2f} MiB of English, vocabularies of up to {options.vocab} tokens, "
          f"tokenizers {tokenizers.__version__}; MiB/s per thread")
    print(f"{'kind':<18}{'vocabulary':>11}{'quire first':>13}{'quire best':>12}{'their first':>13}{'their best':>12}{'ratio':>8}")
    for name, make in tokenizer_kinds.kinds_of(train):
        if name not in (options.kind or KINDS):
            continue
        tokenizer = make()
        ours, theirs = our_speeds(options.tool, tokenizer, texts), reference_speeds(tokenizer, texts)
        print(f"{name:<18}{tokenizer.get_vocab_size():>11}{ours[0] / MIB:>13.1f}{max(ours) / MIB:>12.1f}"
              f"{theirs[0] / MIB:>13.1f}{max(theirs) / MIB:>12.1f}{max(ours) / max(theirs):>7.1f}x", flush=True)


if __name__ == "__main__":
    sys.exit(main())
