#!/usr/bin/env python3
"""Makes a tokenizer.json (byte-level BPE) of a vocabulary that has only ranks: tekken.json (Mistral) or *.tiktoken.
  tools/bench/peers/make_tokenizer_json.py SOURCE TOKENIZER_JSON
      [--vocab-size N] [--special TOKEN]... [--pattern REGEX]
tekken.json says its pattern, its size (131072) and how many special tokens come first. The special tokens of a
.tiktoken file come last. Without --special they are Qwen's, and without --pattern the text is split by Qwen's
pattern."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import argparse
import base64
import json

QWEN_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                r"|\s+(?!\S)|\s+")
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_characters():
    """The character that stands for each byte in a byte-level vocabulary."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + index) for index, byte in enumerate(others)}


def read_tekken(source, vocab_size):
    """Tokens by rank, special tokens, the id of the first token that is not special, the pattern."""
    content = json.loads(source.read_text())
    config = content["config"]
    num_special = config["default_num_special_tokens"]
    num_tokens = (vocab_size or config["default_vocab_size"]) - num_special
    named = {entry["rank"]: entry["token_str"] for entry in content.get("special_tokens") or []}
    named = named or {0: "<unk>", 1: "<s>", 2: "</s>"}
    special = {index: named.get(index, f"<SPECIAL_{index}>") for index in range(num_special)}
    tokens = [base64.b64decode(entry["token_bytes"]) for entry in content["vocab"][:num_tokens]]
    return tokens, special, num_special, config["pattern"]


def read_tiktoken(source, special, pattern):
    ranks = [line.split() for line in source.read_bytes().splitlines() if line]
    tokens = [base64.b64decode(token) for token, _ in sorted(ranks, key=lambda rank: int(rank[1]))]
    return tokens, {len(tokens) + index: name for index, name in enumerate(special)}, 0, pattern


def find_merge(token, ranks, rank):
    """The two tokens of lower rank that byte-pair encoding leaves of a token before the last merge."""
    parts = [token[index:index + 1] for index in range(len(token))]
    while len(parts) > 2:
        candidates = [(ranks.get(parts[index] + parts[index + 1], rank), index) for index in range(len(parts) - 1)]
        lowest, index = min(candidates)
        if lowest >= rank:
            return None  # It is only found as a whole word.
        parts[index:index + 2] = [parts[index] + parts[index + 1]]
    return parts


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--vocab-size", type=int)
    parser.add_argument("--special", action="append")
    parser.add_argument("--pattern", default=QWEN_PATTERN)
    arguments = parser.parse_args()
    if arguments.source.suffix == ".json":
        tokens, special, first, pattern = read_tekken(arguments.source, arguments.vocab_size)
    else:
        tokens, special, first, pattern = read_tiktoken(
            arguments.source, arguments.special or QWEN_SPECIAL, arguments.pattern)
    characters = byte_characters()
    ranks = {token: rank for rank, token in enumerate(tokens)}
    merges = [find_merge(token, ranks, rank) for rank, token in enumerate(tokens) if len(token) > 1]

    def spell(token):
        return "".join(characters[byte] for byte in token)

    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
             "vocab": {name: index for index, name in special.items()}
             | {spell(token): first + rank for rank, token in enumerate(tokens)},
             "merges": [[spell(part) for part in merge] for merge in merges if merge]}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    added = [{"id": index, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for index, name in special.items()]
    arguments.target.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": None,
        "decoder": byte_level, "model": model}, ensure_ascii=False))
    print(f"{arguments.target}: {len(tokens)} tokens, {len(special)} special tokens, {len(model['merges'])} merges")


if __name__ == "__main__":
    main()
