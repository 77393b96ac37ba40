"""Texts to compare tokenizers on: from languages, code and everything that could confuse one. The same seed gives
the same texts on the same machine (English and code come with Python itself)."""

import pathlib
import pydoc_data.topics
import random

ROOT = pathlib.Path(__file__).resolve().parents[3]

SENTENCES = [
    "The quick brown fox jumps over the lazy dog. It's 12,345.67 dollars; I'LL pay, they'd say!",
    "Der schnelle braune Fuchs springt über den faulen Hund. Größe: 3½ m², Straße 7.",
    "El veloz murciélago hindú comía feliz cardillo y kiwi. ¿Qué tal? ¡Olé!",
    "Portez ce vieux whisky au juge blond qui fume; l'œuvre d'où naît l'été, n'est-ce pas ?",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. №42",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Τι ώρα είναι;",
    "敏捷的棕色狐狸跳过了懒狗。人工智能正在改变世界，二〇二六年。",
    "いろはにほへと ちりぬるを。カタカナとひらがな、漢字も混ぜる。ﾊﾝｶｸ ＡＢＣ１２３",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ١٢٣٤",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले १२३",
    "ক্ষুদ্র বাংলা পাঠ; தமிழ் உரை கொஞ்சம்; తెలుగు వచనం; ಕನ್ನಡ; മലയാളം",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "မြန်မာစာ ភាសាខ្មែរ ພາສາລາວ བོད་ཡིག ᠮᠣᠩᠭᠣᠯ አማርኛ ქართული Հայերեն",
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Pijamalı hasta yağız şoföre çabucak güvendi. İıĞğ",
    "Tiếng Việt: Tôi có thể ăn thủy tinh mà không hại gì. Chữ ghép: e\u0323\u0302 o\u031b\u0301",
    "👩‍👩‍👧‍👦 family, 🇩🇪 flag, 👍🏽 thumbs, ❤️ heart, 🤷‍♀️ shrug 🫨",
    "def f(x):\n\treturn {'a': x ** 2, \"b\": [1, 2, 3]}  # comment\r\n\r\n    pass",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] * 0x1F; }  // https://example.org/a?b=c&d=%20\n",
    "e\u0301 vs \u00e9, \u1e9b\u0323 \u0344 \u2126 \ufb01 \u33a7 \u0130stanbul \u01c5 \uac00\u1100\u1161\u11a8",
    "$x_{i+1} = \\frac{1}{2}(x_i + a/x_i)$, 10⁻³ ≤ ∑√∞, ½⅓, ①②③, ℝ→ℂ, 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛",
]

# Where to draw random characters from: ASCII, blanks, Latin, marks, symbols, scripts, CJK, Hangul, emoji, controls
# and format characters, private use, and characters that came with Unicode 15 and 16.
POOLS = [
    [chr(c) for c in range(0x20, 0x7F)], list(" \t\n\r\x0b\x0c\x85\u00a0\u180e\u2003\u2028\u202f\u3000\u200b"),
    [chr(c) for c in range(0xA0, 0x250)], [chr(c) for c in range(0x300, 0x36F)],
    [chr(c) for c in range(0x370, 0x7B0)], [chr(c) for c in range(0x900, 0xE60)],
    [chr(c) for c in range(0xE60, 0x1100)], [chr(c) for c in range(0x1100, 0x1200)],
    [chr(c) for c in range(0x1200, 0x1C00)], [chr(c) for c in range(0x1E00, 0x2000)],
    [chr(c) for c in range(0x2000, 0x2800)], [chr(c) for c in range(0x3000, 0x3400)],
    [chr(c) for c in range(0x4E00, 0x5000)], [chr(c) for c in range(0xA000, 0xAC00)],
    [chr(c) for c in range(0xAC00, 0xAD00)], [chr(c) for c in range(0xF900, 0xFFFE)],
    [chr(c) for c in range(0x10000, 0x12000)], [chr(c) for c in range(0x1D400, 0x1D800)],
    [chr(c) for c in range(0x1F000, 0x1FA00)], [chr(c) for c in range(0x20, 0x7F)],
    [chr(c) for c in (0x897, 0x1C89, 0xA7CB, 0x10D40, 0x10D4E, 0x11380, 0x113B8, 0x1E4F0, 0x31350, 0x1FADF, 0x1171E)],
    list("'\u017fSsTtRrEeVvMmLlDd"), list("0123456789\u0660\u00bd\u2167"), list("\u2581 _<>|[]/s\u00e9"),
    [chr(c) for c in [*range(0x00, 0x20), *range(0x7F, 0xA1), 0xAD, *range(0x600, 0x606), *range(0x2060, 0x2070)]],
    list("\ue000\uf8ff\U000f0000\U0010fffd\ufffd\uffff\ufffe\u0378\U000e0001\U000e0100\U000323b0"),
    list("\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"),
]

EMOJI = ["😀", "👍", "👍🏽", "❤️", "❤", "🇩🇪", "🇩", "1️⃣", "#\ufe0f\u20e3", "🏴\U000e0067\U000e0062\U000e0065\U000e007f",
         "👩‍👩‍👧‍👦", "🤷🏿‍♀️", "🏳️‍🌈", "\u200d", "\ufe0f", "🏽", "©️", "©", "™", "ℹ️", "\u20e3", "🫨", "\U0001fae9"]

# Long runs of these: one class each, and mixtures that make patterns look ahead and back.
RUN_UNITS = ["a", "Z", "é", "日", "ᄀ", "1", "½", "!", " ", "\n", "\r\n", "\t", "\u3000", "\u0301", "😀", "\u200d", "'",
             "\u0334\u0315", " \n", " a", "a ", "\u180e", "\U00010d4a", "'s", "\u2581", "\x00", "ab", "क्", "1a", "!\n", "'ſ"]


def repository_text():
    files = sorted(ROOT.glob("server/text/tokenizer/*/[a-n]*.cc")) + sorted(ROOT.glob("server/*/README.md"))
    return [f.read_text(encoding="utf-8") for f in files]


def english_text():
    """About 460 KB of English prose: Python's own help texts."""
    return list(pydoc_data.topics.topics.values())


def code_text():
    """A few MB of code, some of it with other languages in its comments and tables: Python's library."""
    names = ("argparse", "ast", "ctypes/util", "datetime", "decimal", "encodings/cp437", "enum", "html/entities", "inspect",
             "mimetypes", "optparse", "pdb", "pickle", "pydoc", "re/_parser", "tarfile", "turtle", "typing", "zipfile")
    library = pathlib.Path(random.__file__).parent
    return [(library / f"{name}.py").read_text(encoding="utf-8") for name in names
            if (library / f"{name}.py").exists()]


def random_text(rng, length):
    out = []
    while len(out) < length:
        pool = rng.choice(POOLS)
        out.extend(rng.choice(pool) for _ in range(rng.choice((1, 1, 2, 3, 6))))
    return "".join(out)


def all_code_points():
    """Every code point of the planes with characters, and some of each other one, between characters of other
    classes, in lines of a few hundred."""
    points = [c for c in range(0x33480) if not 0xD800 <= c < 0xE000]
    points += [*range(0x33480, 0xE0000, 251), *range(0xE0000, 0xE01F0), *range(0xE01F0, 0x110000, 257), 0x10FFFF]
    for i in range(0, len(points), 256):
        yield "".join(f"{chr(c)}a {chr(c)}1" for c in points[i:i + 256])


def added_token_texts(added):
    """Each added token alone, at both ends, doubled, cut short, and inside and around everything."""
    around = ["", " ", "  ", "\n", "a", "a ", " a", "é", "日本", ".", "'s", "\u2581", "\u0301", "</", "<", "1", "½", "_"]
    for token in added:
        for before in around:
            for after in around:
                yield f"{before}{token}{after}"
        yield from (token * 2, f"{token} {token}", token * 50, token[:-1], token[1:], token[:-1] + token, token + token[1:],
                    token.upper(), f"x{token}y{token[:3]}{token}z")
    for first in added:
        for second in added:
            yield f"{first}{second}"
            yield f" {first} {second} word{first}"


def chunk(rng, texts, size):
    text = rng.choice(texts)
    start = rng.randrange(max(1, len(text) - size))
    return text[start:start + size]


def fixed_texts(added):
    """What every comparison has."""
    yield from ("", " ", "  ", "\n", "a", " a", "a ", "\u2581", "'", "'s", "\U0001F600", "\x00", "\ufeff", "\r\n", "a" * 300)
    yield from SENTENCES
    for text in repository_text():
        yield from (text[i:i + 1500] for i in range(0, len(text), 1500))
    yield from added_token_texts(added)
    yield from (unit * (2000 // len(unit)) for unit in RUN_UNITS)
    yield from (f"a{unit * 40}b {unit * 7} c" for unit in RUN_UNITS)


def random_texts(rng, added, num_chars, longest_run):
    """At least `num_chars` characters of everything, in texts of a few to a few thousand characters."""
    english, code = english_text(), code_text()
    makers = [
        lambda: chunk(rng, english, 2000),
        lambda: chunk(rng, english, 2000),
        lambda: chunk(rng, code, 2000),
        lambda: " ".join(rng.choice(SENTENCES) for _ in range(8)),
        lambda: "".join(rng.choices(rng.choice(SENTENCES), k=60)),
        lambda: random_text(rng, rng.choice((3, 10, 60, 300, 1500))),
        lambda: random_text(rng, rng.choice((3, 10, 60, 300, 1500))),
        lambda: "".join(rng.choice(POOLS[rng.randrange(len(POOLS))]) for _ in range(200)),
        lambda: "".join(rng.choice(EMOJI) for _ in range(rng.choice((2, 5, 60)))),
        lambda: "".join(rng.choice((rng.choice(added), random_text(rng, 4), " ", rng.choice(SENTENCES)[:9]))
                        for _ in range(rng.choice((3, 9, 30)))),
        lambda: "".join(rng.choice(RUN_UNITS) * rng.randrange(1, 40) for _ in range(8)),
        lambda: "".join(rng.choice("aé가\u1100e日o ") + "".join(rng.choice(POOLS[3]) for _ in range(rng.randrange(6)))
                        for _ in range(40)),
    ]
    total = 0
    while total < num_chars:
        for maker in makers:
            text = maker()
            total += len(text)
            yield text
        if rng.random() < 0.02:
            text = rng.choice(("", "x ", "\n")) + rng.choice(RUN_UNITS) * rng.randrange(longest_run)
            total += len(text)
            yield text


def broken_bytes(rng, count):
    """Byte strings that are mostly not UTF-8: cut, overlong, surrogates, stray and changed bytes."""
    bad = [b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x80\x80\x80",
           b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xfe", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xe2\x82a"]
    for _ in range(count):
        data = bytearray(random_text(rng, rng.choice((1, 4, 20))).encode())
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(data) + 1)
            if rng.random() < 0.5:
                data[at:at] = rng.choice(bad)
            elif at < len(data):
                data[at] = rng.randrange(256)
        yield bytes(data[:rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)
