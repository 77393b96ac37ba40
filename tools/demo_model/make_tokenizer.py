#!/usr/bin/env python3
"""Trains the byte-level BPE tokenizer on generated chats and writes tokenizer.json.

    make_tokenizer.py --out configs/demo/tokenizer.json
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import argparse
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import dataset
import tasks

VOCAB_SIZE = 2048
SPECIAL_TOKENS = [dataset.END_OF_TEXT, dataset.TURN_START, dataset.TURN_END]  # the last ids, in this order
SEED = 20_001
NUM_CHATS = 60_000

# Qwen2's split: a digit is always a token of its own.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def texts():
    rng = random.Random(SEED)
    for _ in range(NUM_CHATS):
        _, turns = tasks.training_chat(rng, longest_lookup_chars=2000, lookup_share=0.2)
        for user, assistant in turns:
            yield user
            yield assistant
    for system in tasks.SYSTEM_PROMPTS:
        yield f"system\n{system}\nuser\nassistant\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE - len(SPECIAL_TOKENS), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    assert tokenizer.get_vocab_size() == VOCAB_SIZE
    tokenizer.save(args.out)


if __name__ == "__main__":
    main()
