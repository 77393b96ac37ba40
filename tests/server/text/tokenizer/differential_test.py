#!/usr/bin/env python3
"""Compares the tokenizer with Hugging Face tokenizers on every kind of tokenizer.json, and on many small ones made at
random (--kind random_added, random_merges or random_ties). Any difference fails.

Asks tokenizer_tool for the ids and the decoded text of every text, with special tokens parsed and as plain text,
decoded at once and as a stream. Exit code 77 (skipped) without the Python modules.

usage: differential_test.py TOKENIZER_TOOL [--chars MILLIONS] [--vocab SIZE] [--kind NAME]... [--seed N]
Without --chars, what every kind must at least have, in about a minute; tools/tokenizer/compare is the long run.
"""

import argparse
import codecs
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

try:
    import tokenizers
    from tokenizers import Tokenizer, decoders
except ImportError as error:
    print(f"skipped: the Python module {error.name} is not installed")
    sys.exit(77)

import random_tokenizers
import tokenizer_kinds
import tokenizer_texts

BATCH = 4000  # requests at a time, so that memory does not grow with the run
LONGEST_SPLIT = 48  # ids of a text that is decoded after every token of it
SHOWN = 3  # differences per kind

# Every byte that is part of no character becomes a U+FFFD of its own.
codecs.register_error("each", lambda error: ("\ufffd" * (error.end - error.start), error.end))


class Failure(Exception):
    pass


class Tool:
    """tokenizer_tool with one tokenizer."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def ask(self, requests):
        requests = list(requests)
        # Written beside the reading: neither side may fill its pipe while the other does not read.
        writer = threading.Thread(target=self.write, args=(requests,))
        writer.start()
        answers = []
        for request in requests:
            line = self.process.stdout.readline()
            if not line:
                raise Failure(f"tokenizer_tool exits {self.process.wait()} at {request!r:.500}")
            answers.append(json.loads(line))
        writer.join()
        return answers

    def write(self, requests):
        try:
            for request in requests:
                self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.write("\n")  # asks for nothing but the answers so far
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the reader says what happened

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise Failure(f"tokenizer_tool exits {self.process.returncode}")


class Comparison:
    """One tokenizer.json on both sides, and the differences so far. Both read the file: a tokenizer in memory may have
    other scores than the one that its file is read as."""

    def __init__(self, program, name, tokenizer, rng, make_plain=None):
        self.name, self.rng = name, rng
        self.num_chars = self.num_texts = self.num_ids = self.num_differences = 0
        self.folder = tempfile.TemporaryDirectory()
        path = f"{self.folder.name}/tokenizer.json"
        tokenizer.save(path)
        self.tokenizer = Tokenizer.from_file(path)
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        self.plain = Tokenizer.from_str(json.dumps((make_plain or with_other_special_pieces)(data)))
        self.plain.encode_special_tokens = True
        self.has_byte_fallback = '"ByteFallback"' in json.dumps(data["decoder"])
        self.tool = Tool(program, self.folder.name)

    def close(self):
        self.tool.close()
        self.folder.cleanup()

    def counts(self):
        return [self.num_texts, self.num_chars, self.num_ids, self.num_differences]

    def compare(self, what, requests, expected, answers):
        for request, want, got in zip(requests, expected, answers, strict=True):
            if want == got:
                continue
            self.num_differences += 1
            if self.num_differences > SHOWN:
                continue
            first = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), 0) if isinstance(got, (str, list)) else 0
            around = slice(max(0, first - 10), first + 30)
            print(f"{self.name}: {what} of {request!r:.2000}\ndiffer at {first}, around it\n"
                  f"  tokenizers: {(want[around] if isinstance(want, (str, list)) else want)!r}\n"
                  f"  quire:      {(got[around] if isinstance(got, (str, list)) else got)!r}")

    def check(self, texts):
        """Ids with special tokens and as plain text; their text at once, without special tokens, as a stream, and
        as a stream that ends after each of its tokens."""
        ask, tokenizer = self.tool.ask, self.tokenizer
        encoded = [e.ids for e in tokenizer.encode_batch_fast(texts)]
        self.compare("ids", texts, encoded, ask(texts))
        decoded = tokenizer.decode_batch(encoded, skip_special_tokens=False)
        self.compare("text", encoded, decoded, ask(encoded))
        self.compare("streamed text", encoded, decoded, ask({"stream": ids} for ids in encoded))
        self.compare("text without special tokens", encoded, tokenizer.decode_batch(encoded, skip_special_tokens=True),
                     ask({"skip": ids} for ids in encoded))
        plain = [e.ids for e in self.plain.encode_batch_fast(texts, add_special_tokens=False)]
        self.compare("ids of plain", texts, plain, ask({"plain": t} for t in texts))
        short = [ids for ids in encoded if len(ids) <= LONGEST_SPLIT]
        self.compare("splits", short, [None] * len(short), ask({"splits": ids} for ids in short))
        self.num_texts += len(texts)
        self.num_chars += sum(map(len, texts))
        self.num_ids += sum(map(len, encoded))

    def check_ids(self, texts):
        """Ids with special tokens and as plain text, where the reference has an answer: it panics at some."""
        for what, tokenizer, request in (("ids", self.tokenizer, lambda t: t), ("ids of plain", self.plain, lambda t: {"plain": t})):
            with no_panic_messages():
                wanted = [(text, ids) for text in texts if (ids := ids_or_none(tokenizer, text)) is not None]
            requests = [request(text) for text, _ in wanted]
            self.compare(what, requests, [ids for _, ids in wanted], self.tool.ask(requests))
            self.num_texts += len(wanted)
            self.num_chars += sum(len(text) for text, _ in wanted)
            self.num_ids += sum(len(ids) for _, ids in wanted)

    def check_bytes(self, count):
        """What is not UTF-8 is refused at the byte where Python refuses it."""
        requests, expected = [], []
        for data in tokenizer_texts.broken_bytes(self.rng, count):
            requests.append({"hex": data.hex()})
            try:
                expected.append(self.tokenizer.encode(data.decode()).ids)
            except UnicodeDecodeError as error:
                expected.append({"error": f"INVALID_ARGUMENT: the text is not valid UTF-8 at byte {error.start}"})
        self.compare("ids of bytes", requests, expected, self.tool.ask(requests))

    def check_noise(self, count):
        """Random ids: bytes that are no characters, and tokens where none would come."""
        size = self.tokenizer.get_vocab_size()
        noise = [[self.rng.randrange(size) for _ in range(self.rng.randrange(12))] for _ in range(count)]
        if self.has_byte_fallback:
            byte_ids = [self.tokenizer.token_to_id(t) for t in tokenizer_kinds.BYTE_TOKENS]
            ids_of = lambda data: [byte_ids[b] for b in data]
            others = range(size - len(self.tokenizer.get_added_tokens_decoder()) - 1)
            for data in tokenizer_texts.broken_bytes(self.rng, count):
                noise.append(ids_of(data) + [self.rng.choice(others)] + ids_of(data[:self.rng.randrange(5)]))
        expected = [self.decode(ids) for ids in noise]
        self.compare("text of random ids", noise, expected, self.tool.ask(noise))
        self.compare("streamed text of random ids", noise, expected, self.tool.ask({"stream": i} for i in noise))
        self.compare("splits of random ids", noise, [None] * len(noise), self.tool.ask({"splits": i} for i in noise))

    def decode(self, ids):
        """The reference's text, but a run of byte tokens that is not UTF-8 loses its bad bytes only: a stream could
        not take back what it has sent, as the reference does."""
        if not self.has_byte_fallback:
            return self.tokenizer.decode(ids, skip_special_tokens=False)
        tokens, run, is_broken = [], bytearray(), False
        for token in [self.tokenizer.id_to_token(i) for i in ids] + [None]:
            if token and token.startswith("<0x") and len(token) == 6:
                run.append(int(token[3:5], 16))
                continue
            if run:
                text = run.decode(errors="each")
                is_broken = is_broken or text.encode() != bytes(run)
                tokens.append(text.replace("\u2581", "\U0010fff0"))  # no decoder step may take it for a blank
                run.clear()
            tokens.extend([token] if token else [])
        if not is_broken:
            return self.tokenizer.decode(ids, skip_special_tokens=False)
        return self.tokenizer.decoder.decode(tokens).replace("\U0010fff0", "\u2581")


def special_pieces(data):
    """The special tokens that are pieces of a Unigram vocabulary. The reference finds them in text that spells them
    once it is normalised; like SentencePiece, we do not."""
    if data["model"]["type"] != "Unigram":
        return []
    return [t for t in data["added_tokens"] if t["special"] and t["id"] < len(data["model"]["vocab"])]


def with_other_special_pieces(data):
    """A tokenizer.json for which text never spells a special token: special pieces get texts that do not occur."""
    pieces = special_pieces(data)
    for token in pieces:
        token["content"] = f"\U0010fff1{token['id']}"
        data["model"]["vocab"][token["id"]][0] = token["content"]
    if pieces:
        data["post_processor"] = None
    return data


@contextlib.contextmanager
def no_panic_messages():
    """Nothing on the standard error, where the reference describes its panics at length."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def ids_or_none(tokenizer, text):
    try:
        return tokenizer.encode(text, add_special_tokens=False).ids
    except BaseException as error:  # a panic is no Exception
        if type(error).__name__ != "PanicException":
            raise
        return None


def without_hidden_pieces(tokenizer, texts):
    """Those of `texts` that do not spell a special piece only once they are normalised."""
    pieces = [t["content"] for t in special_pieces(json.loads(tokenizer.to_str()))]
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text) if pieces else text
        if all(normal.count(piece) <= text.count(piece) for piece in pieces):
            yield text


def batches(texts):
    batch = []
    for text in texts:
        batch.append(text)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def all_texts(name, added, rng, num_chars, is_long):
    yield from tokenizer_texts.fixed_texts(added)
    if is_long or name in ("gpt2", "qwen2", "nfkc", "uncased", "classes", "unigram_words"):
        yield from tokenizer_texts.all_code_points()
    yield from tokenizer_texts.random_texts(rng, added, num_chars, longest_run=50000 if is_long else 3000)


def compare_kind(options, name, make, num_chars):
    rng = random.Random(f"{options.seed} {name}")
    comparison = Comparison(options.tool, name, make(), rng)
    is_long = options.chars > 0
    added = [t.content for t in comparison.tokenizer.get_added_tokens_decoder().values()]
    texts = all_texts(name, added, rng, num_chars, is_long)
    for batch in batches(without_hidden_pieces(comparison.tokenizer, texts)):
        comparison.check(batch)
    comparison.check_bytes(20000 if is_long else 500)
    comparison.check_noise(20000 if is_long else 300)
    comparison.close()
    return comparison.counts()


def compare_family(options, name, make):
    """Many small tokenizers made at random, each with texts of its own."""
    totals = [0, 0, 0, 0]
    for i in range(2000 if options.chars > 0 else 150):
        rng = random.Random(f"{options.seed} {name} {i}")
        tokenizer, texts = make(rng)
        comparison = Comparison(options.tool, f"{name} {i}", tokenizer, rng, random_tokenizers.without_special)
        comparison.check_ids(texts)
        if comparison.num_differences and totals[3] < SHOWN:
            print(tokenizer.to_str())
        comparison.close()
        totals = [a + b for a, b in zip(totals, comparison.counts())]
    return totals


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--chars", type=float, default=0, metavar="MILLIONS", help="of random text, all kinds together")
    parser.add_argument("--vocab", type=int, default=1500, metavar="SIZE")
    parser.add_argument("--kind", action="append", metavar="NAME")
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args()
    is_wanted = lambda name: not options.kind or name in options.kind
    kinds = [(n, make) for n, make in tokenizer_kinds.kinds(options.vocab) if is_wanted(n)]
    families = [(n, make) for n, make in random_tokenizers.FAMILIES.items() if is_wanted(n)]
    if not kinds + families:
        raise Failure("no such kind")
    num_chars = options.chars * 1e6 / max(1, len(kinds)) if options.chars > 0 else 60000
    comparisons = [(n, lambda n=n, make=make: compare_kind(options, n, make, num_chars)) for n, make in kinds]
    comparisons += [(n, lambda n=n, make=make: compare_family(options, n, make)) for n, make in families]
    totals = [0, 0, 0, 0]
    print(f"{'kind':<18}{'texts':>9}{'characters':>13}{'ids':>12}{'differences':>13}{'seconds':>9}", flush=True)
    for name, compare in comparisons:
        started = time.monotonic()
        row = compare()
        totals = [a + b for a, b in zip(totals, row)]
        print(f"{name:<18}{row[0]:>9}{row[1]:>13,}{row[2]:>12,}{row[3]:>13}{time.monotonic() - started:>9.0f}", flush=True)
    print(f"{'all':<18}{totals[0]:>9}{totals[1]:>13,}{totals[2]:>12,}{totals[3]:>13}")
    print(f"{totals[1] / 1e6:.1f} million characters compared with tokenizers {tokenizers.__version__}: "
          f"{totals[3]} differences")
    return 1 if totals[3] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(str(failure))
