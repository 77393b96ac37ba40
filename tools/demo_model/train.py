#!/usr/bin/env python3
"""Trains the bundled model and writes model.safetensors (bf16) and config.json.

    train.py --tokenizer configs/demo/tokenizer.json --out configs/demo --steps 8000
    train.py ... --init configs/demo/model.safetensors --seed 2    # goes on from weights
    train.py ... --steps 3 --tokens 4096 --workers 1               # smoke run, also without a GPU

--tokens N (per step), --matrix-lr, --other-lr, --decay-from SHARE (of the steps, after which the rate falls),
--lookup-share SHARE (of chats about a text), --tool-share SHARE (of chats with tools), --workers N, --max-seconds N (stops there, whatever the step).
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import argparse
import functools
import json
import os
import random
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import dataset
import tasks
import tool_use
from model import CONFIG, Model

DEV_SEED = 30_001
DEV_ITEMS_PER_TASK = 150


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made orthogonal (Newton-Schulz), for matrices; those of one shape are done together."""

    COEFFICIENTS = (3.4445, -4.7750, 2.0315)

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.02):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @staticmethod
    def orthogonalise(x):  # [num_matrices, rows, columns]
        tall = x.shape[1] > x.shape[2]
        x = x.bfloat16().mT if tall else x.bfloat16()
        x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
        a, b, c = Muon.COEFFICIENTS
        for _ in range(5):
            square = x @ x.mT
            x = a * x + (b * square + c * square @ square) @ x
        return x.mT if tall else x

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                by_shape.setdefault(p.shape, []).append(p)
            for shape, params in by_shape.items():
                grads = torch.stack([p.grad for p in params])
                state = self.state[params[0]]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(grads)
                state["momentum"].lerp_(grads, 1 - group["momentum"])
                update = self.orthogonalise(grads.lerp_(state["momentum"], group["momentum"]))
                scale = group["lr"] * max(1, shape[0] / shape[1]) ** 0.5
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(params, list(update.float().unbind()), alpha=-scale)


def learning_rate_factor(step, steps, warmup, decay_from):
    """Rises over `warmup` steps, is 1, and falls to 0 over the part of the steps after `decay_from`."""
    return min(1.0, (step + 1) / warmup, (steps - step) / (steps * (1 - decay_from)))


class Shards(torch.utils.data.Dataset):
    """The shards of a training run as tensors, made by number in the worker processes."""

    def __init__(self, args):
        self.args = args
        self.tokenizer = None

    def __len__(self):
        return self.args.steps

    def __getitem__(self, number):
        args = self.args
        self.tokenizer = self.tokenizer or Tokenizer.from_file(args.tokenizer)  # once per process
        progress = 1.0 if args.init else number / args.steps
        shard = dataset.training_shard(self.tokenizer, args.seed, number, progress, args.tokens, args.lookup_share,
                                       args.tool_share)
        return to_tensors(shard)


def to_tensors(shard):
    """(tokens, positions, starts, targets, weights); starts of a fixed size, by empty chats at the end."""
    size = len(shard.tokens) // 96
    assert len(shard.starts) <= size, "too many chats in a shard"
    starts = np.full(size, shard.starts[-1], np.int32)
    starts[:len(shard.starts)] = shard.starts
    ids = (x.astype(np.int16) for x in (shard.tokens, shard.positions, shard.targets))
    tokens, positions, targets = map(torch.from_numpy, ids)
    return tokens, positions, torch.from_numpy(starts), targets, torch.from_numpy(shard.weights)


def logits_of(model, tokens, positions, starts):
    return model(tokens.long(), positions.long(), starts, dataset.MAX_TOKENS)


def loss_of(model, tokens, positions, starts, targets, weights):
    logits = logits_of(model, tokens, positions, starts).float()
    return (F.cross_entropy(logits, targets.long(), reduction="none") * weights).sum() / weights.sum()


def dev_items():
    """Single-turn items from the held-out side, by task; not those of heldout.jsonl, which has another seed."""
    rng = random.Random(DEV_SEED)
    makers = {f.__name__: f for f in tasks.SHORT_TASKS}
    for longest in (1000, 4000, tasks.MAX_LOOKUP_CHARS):
        makers[f"lookup up to {longest} chars"] = functools.partial(
            lambda rng, most: tasks.lookup_in_text(rng, rng.randint(most // 2, most), 1), most=longest)
    for name in tool_use.HELDOUT_COUNTS:
        makers[name] = functools.partial(tool_use.heldout_item, task=name)
    for name, make in makers.items():
        yield name, [tasks.draw(lambda: make(rng), heldout=True) for _ in range(DEV_ITEMS_PER_TASK)]


@torch.no_grad()
def score(model, tokenizer, items, device, num_tokens):
    """The share of items whose answer tokens are all the most likely ones, which is a right greedy answer."""
    encoded = list(dataset.encode_chats(tokenizer, [dataset.chat_segments(item.system, item.turns) for item in items]))
    right, per_shard = 0, num_tokens // dataset.MAX_TOKENS  # so many always fit
    for first in range(0, len(encoded), per_shard):
        batch = encoded[first:first + per_shard]
        shard = dataset.pack(batch, num_tokens, CONFIG["pad_token_id"])
        *inputs, targets, weights = (x.to(device) for x in to_tensors(shard))
        hit = (logits_of(model, *inputs).argmax(-1) == targets) | (weights <= dataset.PROMPT_WEIGHT)
        right += sum(bool(hit[shard.starts[i]:shard.starts[i + 1]].all()) for i in range(len(batch)))
    return right / len(items)


def export(model, out):
    out.mkdir(parents=True, exist_ok=True)
    tensors = {name: p.detach().to("cpu", torch.bfloat16).contiguous() for name, p in model.named_parameters()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--steps", required=True, type=int)
    parser.add_argument("--tokens", type=int, default=131072, help="tokens per step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--init", help="model.safetensors to go on from, with the longest texts from the start")
    parser.add_argument("--matrix-lr", type=float, default=0.02)
    parser.add_argument("--other-lr", type=float, default=0.003)
    parser.add_argument("--decay-from", type=float, default=0.5, help="part of the steps after which the rate falls")
    parser.add_argument("--lookup-share", type=float, default=0.15, help="chance that a chat is about a text")
    parser.add_argument("--tool-share", type=float, default=0.2, help="chance that a chat has tools")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--max-seconds", type=float, default=1e9, help="stop there, whatever the step")
    args = parser.parse_args()

    begin = time.monotonic()
    torch.manual_seed(args.seed)
    tokenizer = Tokenizer.from_file(args.tokenizer)
    shards = iter(torch.utils.data.DataLoader(Shards(args), batch_size=None, num_workers=args.workers, prefetch_factor=8))
    device = "cuda" if torch.cuda.is_available() else "cpu"

    model = Model().to(device)
    if args.init:
        model.load_state_dict({name: x.float() for name, x in load_file(args.init).items()})
    print(f"{sum(p.numel() for p in model.parameters())} parameters on {device}", flush=True)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    optimizers = [Muon(matrices, args.matrix_lr), torch.optim.AdamW(others, args.other_lr, (0.9, 0.98), weight_decay=0.0)]
    base_rates = [args.matrix_lr, args.other_lr]
    step_loss = torch.compile(loss_of) if device == "cuda" else loss_of
    autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")

    for step, shard in enumerate(shards):
        factor = learning_rate_factor(step, args.steps, 100, args.decay_from)
        for optimizer, rate in zip(optimizers, base_rates):
            optimizer.param_groups[0]["lr"] = rate * factor
        with autocast:
            loss = step_loss(model, *(x.to(device) for x in shard))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        if step % 500 == 0 or step == args.steps - 1:
            print(f"step {step} loss {loss.item():.4f} after {time.monotonic() - begin:.0f} s", flush=True)
        if time.monotonic() - begin > args.max_seconds:
            print(f"out of time after step {step}", flush=True)
            break
    del shards

    export(model, args.out)
    with autocast:
        for name, items in dev_items():
            print(f"dev {name}: {score(model, tokenizer, items, device, args.tokens):.3f}", flush=True)


if __name__ == "__main__":
    main()
