"""From chats to packed token arrays. The shard of a given number is always the same, whoever makes it."""

import dataclasses
import itertools
import random

import numpy as np

import tasks
import tool_use

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
MAX_TOKENS = 4096  # of one chat; the context of the model
MAX_MISSES = 8
PLAIN_SHARE = 0.04  # of the training chats are plain text instead
PROMPT_WEIGHT = 0.02  # loss weight of a token that is not part of an answer


@dataclasses.dataclass
class Shard:
    """Chats one after the other, padded at the end. Position i predicts targets[i] with weights[i] in the loss."""
    tokens: np.ndarray  # [num_tokens] uint16
    targets: np.ndarray  # [num_tokens] uint16
    weights: np.ndarray  # [num_tokens] float32
    positions: np.ndarray  # [num_tokens] uint16, counts from 0 in each chat
    starts: np.ndarray  # [num_chats + 1] int32, where each chat starts; the last is num_tokens


def chat_segments(system, turns):
    """[(text, is_answer)] in the form of chat_template of tokenizer_config.json."""
    segments = []
    head = f"{TURN_START}system\n{system}{TURN_END}\n" if system else ""
    for user, assistant in turns:
        segments.append((f"{head}{TURN_START}user\n{user}{TURN_END}\n{TURN_START}assistant\n", False))
        segments.append((assistant + TURN_END, not isinstance(assistant, tasks.Given)))
        head = "\n"
    return segments


def completion_segments(prompt, completion):
    """Plain text without a chat template."""
    return [(prompt, False), (completion + END_OF_TEXT, True)]


def encode_chats(tokenizer, chats):
    """(token ids, loss weight of each id) of each of the lists of segments. A short answer weighs more per token."""
    chats = iter(chats)
    while batch := list(itertools.islice(chats, 64)):
        texts = [text for chat in batch for text, _ in chat]
        encodings = iter(tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        for chat in batch:
            ids, weights = [], []
            for _, is_answer in chat:
                new = next(encodings).ids
                ids += new
                weights += [len(new) ** -0.5 if is_answer else PROMPT_WEIGHT] * len(new)
            yield ids[:MAX_TOKENS], weights[:MAX_TOKENS]


def pack(encoded, num_tokens, pad_id):
    """A shard of the chats up to where `MAX_MISSES` did not fit any more."""
    tokens = np.full(num_tokens, pad_id, np.uint16)
    targets = np.full(num_tokens, pad_id, np.uint16)
    weights = np.zeros(num_tokens, np.float32)
    positions = np.zeros(num_tokens, np.uint16)
    starts, end, misses = [0], 0, 0
    for ids, chat_weights in encoded:
        n = len(ids)
        if end + n > num_tokens:
            misses += 1
            if misses == MAX_MISSES:
                break
            continue
        tokens[end:end + n] = ids
        targets[end:end + n - 1] = ids[1:]
        weights[end:end + n - 1] = chat_weights[1:]
        positions[end:end + n] = np.arange(n)
        end += n
        starts.append(end)
    while end < num_tokens:  # padding is chats of pad tokens without weight
        end = min(end + MAX_TOKENS, num_tokens)
        starts.append(end)
    return Shard(tokens, targets, weights, positions, np.array(starts, np.int32))


def longest_lookup_chars(progress):
    """The length curriculum: short texts first, the whole context from the middle of the training on."""
    return int(600 * (tasks.MAX_LOOKUP_CHARS / 600) ** min(1.0, progress / 0.5))


def training_chats(seed, number, progress, lookup_share, tool_share):
    """Segments of chat after chat, without end."""
    rng = random.Random(f"{seed} {number}")
    longest = longest_lookup_chars(progress)
    while True:
        if rng.random() < PLAIN_SHARE:
            yield completion_segments(*tasks.training_completion(rng))
        elif rng.random() < tool_share:
            yield chat_segments(*tool_use.training_chat(rng))
        else:
            yield chat_segments(*tasks.training_chat(rng, longest, lookup_share))


def training_shard(tokenizer, seed, number, progress, num_tokens, lookup_share, tool_share):
    """The shard of that number; `progress` in 0..1 is how far the training is."""
    chats = training_chats(seed, number, progress, lookup_share, tool_share)
    return pack(encode_chats(tokenizer, chats), num_tokens, tokenizer.token_to_id(END_OF_TEXT))
