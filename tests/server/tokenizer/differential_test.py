#!/usr/bin/env python3
"""Compares the tokenizer with Hugging Face tokenizers on many kinds of tokenizer.json and a few MB of text.

Trains small vocabularies, writes each tokenizer to a folder, and asks tokenizer_tool for the ids and the
decoded text of every line. Any difference fails. Exit code 77 (skipped) without the tokenizers module.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    from tokenizers import AddedToken, Regex, Tokenizer
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    print("skipped: the Python module tokenizers is not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")) / "bin/tokenizer_tool"

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

SENTENCES = [
    "The quick brown fox jumps over the lazy dog. It's 12,345.67 dollars; I'LL pay, they'd say!",
    "Der schnelle braune Fuchs springt über den faulen Hund. Größe: 3½ m², Straße 7.",
    "El veloz murciélago hindú comía feliz cardillo y kiwi. ¿Qué tal? ¡Olé!",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. №42",
    "敏捷的棕色狐狸跳过了懒狗。人工智能正在改变世界，二〇二六年。",
    "いろはにほへと ちりぬるを。カタカナとひらがな、漢字も混ぜる。",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ١٢٣٤",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले १२३",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "👩‍👩‍👧‍👦 family, 🇩🇪 flag, 👍🏽 thumbs, ❤️ heart, 🤷‍♀️ shrug 🫨",
    "def f(x):\n\treturn {'a': x ** 2, \"b\": [1, 2, 3]}  # comment\r\n\r\n    pass",
    "e\u0301 vs \u00e9, \u1e9b\u0323 \u0344 \u2126 \ufb01 \u33a7 \u0130stanbul \u01c5 \uac00\u1100\u1161\u11a8",
]
# Where to draw random characters from: ASCII, blanks, Latin, marks, symbols, CJK, Hangul, emoji, and
# characters that came with Unicode 15 and 16.
POOLS = [
    [chr(c) for c in range(0x20, 0x7F)], list(" \t\n\r\x0b\x0c\x85\u00a0\u180e\u2003\u2028\u202f\u3000\u200b"),
    [chr(c) for c in range(0xA0, 0x250)], [chr(c) for c in range(0x300, 0x36F)],
    [chr(c) for c in range(0x370, 0x7B0)], [chr(c) for c in range(0x900, 0xE60)],
    [chr(c) for c in range(0x2000, 0x2800)], [chr(c) for c in range(0x4E00, 0x5000)],
    [chr(c) for c in range(0xAC00, 0xAD00)], [chr(c) for c in range(0x1F300, 0x1FA00)],
    [chr(c) for c in (0x897, 0x1C89, 0xA7CB, 0x10D40, 0x10D4E, 0x11380, 0x113B8, 0x1E4F0, 0x31350, 0x1FADF, 0x1171E)],
    list("'\u017fSsTtRrEeVvMmLlDd"), list("0123456789\u0660\u00bd\u2167"), list("\u2581 _<>|[]/s\u00e9"),
]


def repository_text():
    files = sorted(ROOT.glob("server/tokenizer/[a-n]*.cc")) + sorted(ROOT.glob("server/*/README.md"))
    return [f.read_text(encoding="utf-8") for f in files]


def random_text(rng, length):
    out = []
    while len(out) < length:
        pool = rng.choice(POOLS)
        out.extend(rng.choice(pool) for _ in range(rng.choice((1, 1, 2, 3, 6))))
    return "".join(out)


def all_code_points():
    """Every assigned-looking code point with neighbours of other classes, in lines of a few hundred."""
    points = [c for c in range(0x20, 0x33480) if not 0xD800 <= c < 0xE000] + list(range(0xE0000, 0xE01F0))
    for i in range(0, len(points), 256):
        yield "".join(f"{chr(c)}a {chr(c)}1" for c in points[i:i + 256])


def plain_texts(rng, added):
    lines = ["", " ", "  ", "\n", "a", " a", "a ", "\u2581", "'", "'s", "\U0001F600"]
    lines += SENTENCES
    for text in repository_text():
        lines += [text[i:i + 1500] for i in range(0, len(text), 1500)]
    lines += [" ".join(rng.choice(SENTENCES) for _ in range(8)) for _ in range(40)]
    lines += ["".join(rng.choices(SENTENCES[i % len(SENTENCES)], k=40)) for i in range(100)]
    lines += [random_text(rng, rng.choice((3, 10, 60, 300))) for _ in range(700)]
    for _ in range(400):
        parts = [rng.choice((rng.choice(added), random_text(rng, 4), " ", rng.choice(SENTENCES)[:9])) for _ in range(9)]
        lines.append("".join(parts))
    lines += [c * 3000 for c in "a 1\n\u4e00!"]
    return lines


ADDED = [AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False),
         AddedToken("<|im_start|>", special=True, normalized=False),
         AddedToken("<mask>", special=True, normalized=False, lstrip=True),
         AddedToken("<pad>", special=True, normalized=False, rstrip=True),
         AddedToken("<tool_call>", special=False, normalized=False),
         AddedToken("foo bar", special=False, normalized=True),
         AddedToken("word", special=False, normalized=False, single_word=True)]


def bpe(normalizer=None, pre=None, decoder=None, post=None, byte_level=True, added=ADDED, **model):
    """A tokenizer with a small vocabulary trained on the sentences and this repository's own text."""
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    special = ["<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if model.get("byte_fallback") else [])
    affixes = {k: model[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in model}
    trainer = trainers.BpeTrainer(
        vocab_size=1500, show_progress=False, special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [], limit_alphabet=700, **affixes)
    tokenizer.train_from_iterator(SENTENCES * 3 + [t[:20000] for t in repository_text()], trainer)
    # Training marks all of `special` as special; in a real file the byte tokens are ordinary ones.
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] == "<unk>"]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_tokens(added)
    if decoder:
        tokenizer.decoder = decoder
    if post:
        tokenizer.post_processor = post(tokenizer)
    return tokenizer


def bos_template(tokenizer):
    return processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                         special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])


def bos_eos_template(tokenizer):
    template = processors.TemplateProcessing(
        single="<s> $A </s>", pair="$A $B",
        special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<s>", "</s>")])
    return processors.Sequence([processors.ByteLevel(), template])


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def kinds():
    bytes_decoder = decoders.ByteLevel()
    llama2_decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                        decoders.Strip(" ", 1, 0)])
    characters = {"byte_level": False, "unk_token": "<unk>"}
    fallback = {"fuse_unk": True, "byte_fallback": True, **characters}
    yield "gpt2", bpe(pre=pre_tokenizers.ByteLevel(add_prefix_space=False), decoder=bytes_decoder)
    yield "gpt2_prefix_space", bpe(pre=pre_tokenizers.ByteLevel(add_prefix_space=True), decoder=bytes_decoder,
                                   post=lambda t: processors.RobertaProcessing(
                                       ("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>"))))
    yield "llama3", bpe(pre=byte_level(split(LLAMA3)), decoder=bytes_decoder, post=bos_eos_template, ignore_merges=True)
    yield "qwen2", bpe(normalizer=normalizers.NFC(), pre=byte_level(split(QWEN2)), decoder=bytes_decoder)
    yield "o200k", bpe(pre=byte_level(split(O200K)), decoder=bytes_decoder)
    yield "deepseek", bpe(pre=byte_level(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK)),
                          decoder=bytes_decoder)
    yield "starcoder", bpe(pre=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                        pre_tokenizers.ByteLevel(add_prefix_space=False)]),
                           decoder=bytes_decoder)
    yield "llama2", bpe(normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
                        pre=split("\u2581+[^\u2581]*|[^\u2581]+"), decoder=llama2_decoder, post=bos_template, **fallback)
    for scheme in ("first", "always", "never"):
        yield f"mistral_{scheme}", bpe(pre=pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "first"),
                                       decoder=decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
                                       if scheme == "always" else decoders.Metaspace(prepend_scheme=scheme), **fallback)
    yield "unknown", bpe(normalizer=normalizers.NFKC(), pre=pre_tokenizers.Whitespace(), **characters)
    yield "affixes", bpe(normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(),
                                                          normalizers.Strip()]),
                         pre=pre_tokenizers.WhitespaceSplit(), decoder=decoders.BPEDecoder(suffix="</w>"),
                         continuing_subword_prefix="##", end_of_word_suffix="</w>", **characters)
    yield "lookahead", bpe(normalizer=normalizers.Sequence([normalizers.NFKD(), normalizers.Replace(Regex(r"\s+"), " ")]),
                           pre=pre_tokenizers.Sequence([split(r"(?=[A-Z])", "merged_with_next"),
                                                        split(r"\d+", "contiguous"), split(r"\w\b", "merged_with_previous"),
                                                        pre_tokenizers.Split("e", "merged_with_next"),
                                                        split(r"\s", "removed")]), **characters)


class Failure(Exception):
    pass


def ask(folder, requests):
    """The tool's answers to `requests`."""
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    result = subprocess.run([TOOL, folder], input=lines, capture_output=True, encoding="utf-8", check=False)
    if result.returncode != 0:
        raise Failure(f"tokenizer_tool exits {result.returncode}: {result.stderr}")
    return [json.loads(line) for line in result.stdout.split("\n") if line]


def compare(name, what, requests, expected, answers):
    if len(answers) != len(expected):
        raise Failure(f"{name}: {len(answers)} answers for {len(expected)} requests")
    for request, want, got in zip(requests, expected, answers):
        if want != got:
            first = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
            around = slice(max(0, first - 10), first + 30)
            raise Failure(f"{name}: {what} of {request!r:.2000}\ndiffer at {first}, around it\n"
                          f"  tokenizers: {want[around]!r}\n  quire:      {got[around]!r}")


def check(name, tokenizer, texts, rng):
    """Compares ids both ways and every form of decoding; returns the number of bytes of text."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(f"{folder}/tokenizer.json")
        encoded = [e.ids for e in tokenizer.encode_batch_fast(texts)]
        compare(name, "ids", texts, encoded, ask(folder, texts))
        compare(name, "text", encoded, tokenizer.decode_batch(encoded, skip_special_tokens=False), ask(folder, encoded))
        compare(name, "text without special tokens", encoded, tokenizer.decode_batch(encoded, skip_special_tokens=True),
                ask(folder, [{"skip": ids} for ids in encoded]))
        compare(name, "streamed text", encoded, tokenizer.decode_batch(encoded, skip_special_tokens=False),
                ask(folder, [{"stream": ids} for ids in encoded]))
        tokenizer.encode_special_tokens = True
        plain = [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        tokenizer.encode_special_tokens = False
        compare(name, "ids of plain", texts, plain, ask(folder, [{"plain": t} for t in texts]))
        if isinstance(tokenizer.decoder, decoders.ByteLevel):  # bytes that are no characters
            size = tokenizer.get_vocab_size()
            noise = [[rng.randrange(size) for _ in range(rng.randrange(12))] for _ in range(300)]
            compare(name, "text of random ids", noise, tokenizer.decode_batch(noise, skip_special_tokens=False),
                    ask(folder, noise))
    return sum(len(t.encode()) for t in texts)


def main():
    rng = random.Random(20260101)
    texts = plain_texts(rng, [t.content for t in ADDED])
    total = 0
    for name, tokenizer in kinds():
        sample = texts + (list(all_code_points()) if name in ("gpt2", "qwen2", "unknown") else [])
        total += check(name, tokenizer, sample, rng)
        print(f"{name}: {len(sample)} texts, no difference")
    print(f"{total / 1e6:.1f} MB compared")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(str(failure))
