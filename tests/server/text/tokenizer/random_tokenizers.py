"""Small tokenizers made at random, for rules that trained ones seldom reach: what counts as an added token, and which of
several spellings a vocabulary takes. Each comes with texts of its own few characters."""

from tokenizers import AddedToken, Tokenizer
from tokenizers import models, normalizers, pre_tokenizers

from tokenizer_kinds import BYTE_TOKENS, GPT2, LLAMA3, QWEN2, split

# Around an added token: every way to be a word character, or a blank, or neither.
NEIGHBOURS = list("ab1_ \n\t\r.<>wWéÉ日\u2581\u0301\u0903\u20dd\u0660\u2167\u24b6\U0001f170\u203f\uff3f\u00aa\u200d\u200c"
                  "\u00bd\u00b2\u00ad\u180e\u200b\u2060\ufeff\u3000\u00a0\u2028\u0085\u001c\u001f\u0897\U00010d40\u1c89")
CONTENTS = ["word", "Word", "wo", "wordword", "word1", "1", "a1", "ab", "aba", "ba", "a", "b", "_", "<", "<a>", "é", "e\u0301",
            "\u0301", "日", "\u00bd", "\u2581a", "a b", " word", "word ", " ", "  ", "\n\n"]


def random_text(rng, parts, longest):
    return "".join(rng.choice(parts) for _ in range(rng.randrange(1, longest)))


def random_added(rng, count, may_be_blank):
    contents = set()
    for _ in range(count):
        contents.add(rng.choice(CONTENTS) if rng.random() < 0.8 else random_text(rng, NEIGHBOURS, 4))
    tokens = []
    for content in sorted(c for c in contents if may_be_blank or c.strip()):
        special = rng.random() < 0.3  # one is looked for in the text as it is
        tokens.append(AddedToken(content, special=special, normalized=not special and rng.random() < 0.5,
                                 single_word=rng.random() < 0.6, lstrip=rng.random() < 0.3, rstrip=rng.random() < 0.3))
    return tokens


def random_merges(rng, letters, count):
    """Merges of `letters`, and the tokens that they make."""
    tokens, merges = list(letters), []
    for _ in range(count):
        left, right = rng.choice(tokens), rng.choice(tokens)
        if (left, right) not in merges and len(left + right) < 7:
            merges.append((left, right))
            if left + right not in tokens:
                tokens.append(left + right)
    return tokens, merges


def bytes_of(rng):
    """Most often all byte tokens, sometimes only some: then a character may miss one."""
    return BYTE_TOKENS if rng.random() < 0.7 else [t for t in BYTE_TOKENS if rng.random() < 0.8]


def byte_level_bpe(rng):
    tokens, merges = random_merges(rng, "abword", rng.randrange(12))
    whole = [t for t in ("word", "ab1", "wo") if rng.random() < 0.3]  # tokens that no merge makes
    texts = dict.fromkeys([*sorted(pre_tokenizers.ByteLevel.alphabet()), *tokens, *whole])
    vocab = {t: i for i, t in enumerate(texts)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=rng.random() < 0.6))
    pattern = rng.choice((GPT2, LLAMA3, QWEN2, r"\w+", r"\s"))
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = rng.choice((pre_tokenizers.Sequence([split(pattern), bytes_only]), bytes_only))
    return tokenizer


def character_bpe(rng):
    letters = [c for c in "abwordé1_\u2581\u0301 " if rng.random() < 0.8]
    tokens, merges = random_merges(rng, letters, rng.randrange(14)) if letters else ([], [])
    whole = [t for t in ("word", "ab1", "\u2581a", "日") if rng.random() < 0.3]
    fallback = rng.random() < 0.5
    texts = dict.fromkeys(["<unk>", *tokens, *whole, *(bytes_of(rng) if fallback else [])])
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(texts)}, merges, fuse_unk=rng.random() < 0.5,
                                     unk_token="<unk>", byte_fallback=fallback, ignore_merges=rng.random() < 0.5))
    pre = rng.choice((None, pre_tokenizers.Metaspace(prepend_scheme="always"), split(LLAMA3), pre_tokenizers.Whitespace()))
    if pre:
        tokenizer.pre_tokenizer = pre
    return tokenizer


def merges_and_affixes(rng):
    """A BPE whose merges are of any order and make each other's parts, with or without affixes and fallback."""
    prefix, suffix = rng.choice(("", "", "##", "a")), rng.choice(("", "", "</w>", "b"))
    letters = rng.choice(("ab", "abc", "aé\u2581", "ab1"))
    written = dict.fromkeys(p + c + s for c in letters for p in ("", prefix) for s in ("", suffix))
    tokens, merges = [t for t in written if rng.random() < 0.93] or ["a"], []
    for _ in range(rng.randrange(16)):
        left, right = rng.choice(tokens), rng.choice(tokens)
        if right.startswith(prefix) and len(left + right) < 12:
            merges.append((left, right))
            tokens.append(left + right.removeprefix(prefix))
    fallback, has_unknown = rng.random() < 0.4, rng.random() < 0.8
    texts = dict.fromkeys(["<unk>"] * has_unknown + tokens + (list(bytes_of(rng)) if fallback else []))
    options = {k: v for k, v in (("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix),
                                 ("unk_token", "<unk>" * has_unknown)) if v}
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(texts)}, merges, byte_fallback=fallback,
                                     fuse_unk=rng.random() < 0.5, ignore_merges=rng.random() < 0.4, **options))
    pre = rng.choice((None, pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(), split(r"\w{1,5}")))
    if pre:
        tokenizer.pre_tokenizer = pre
    return tokenizer, [random_text(rng, letters * 4 + "x é", 30) for _ in range(100)]


def added_tokens(rng):
    """A BPE with added tokens of all flags, most of which its vocabulary does not have."""
    tokenizer = rng.choice((byte_level_bpe, character_bpe))(rng)
    normalizer = rng.choice((None, None, normalizers.Lowercase(), normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(),
                             normalizers.Strip(), normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")))
    if normalizer:
        tokenizer.normalizer = normalizer
    added = random_added(rng, rng.randrange(1, 7), may_be_blank=not isinstance(normalizer, normalizers.Strip))
    normal = normalizer.normalize_str if normalizer else str
    seen = set()
    for token in added:
        if token.special and len(token.content) > 1 and tokenizer.token_to_id(token.content) is not None:
            continue  # the reference would make it from text that spells it
        key = (token.normalized, normal(token.content) if token.normalized else token.content)
        if key not in seen:  # the reference refuses two that are one once normalised
            tokenizer.add_tokens([token])
        seen.add(key)
    parts = [t.content for t in added] * 4 + NEIGHBOURS
    return tokenizer, [random_text(rng, parts, 10) for _ in range(150)]


def random_scores(rng, pieces):
    """Scores that often add up to the same, or nearly so: the last bits and the order of the sum decide."""
    how = rng.randrange(5)
    if how == 0:
        return [-rng.randrange(5) / 2 for _ in pieces]
    if how == 1:
        return [-rng.randrange(1, 40) / 10 for _ in pieces]
    few = [-rng.uniform(0, 15) for _ in range(4)]
    if how == 2:
        return [rng.choice(few) for _ in pieces]
    letter = {c: rng.choice(few) if how == 3 else -rng.uniform(0, 15) for c in sorted(set("".join(pieces)))}
    return [sum(letter[c] for c in (p if rng.random() < 0.5 else reversed(p))) for p in pieces]


def unigram_ties(rng):
    """A Unigram of which most texts have several spellings of equal score."""
    letters = rng.choice(("ab", "abc", "aé", "a日b", "ab\u0301", "a\U0001f600"))
    pieces = {c for c in letters if rng.random() < 0.9} | {random_text(rng, letters, 6) for _ in range(rng.randrange(2, 14))}
    unknown = [random_text(rng, "xy" + letters[0], 4) for _ in range(rng.randrange(3))]  # of characters that it lacks
    pieces = sorted(pieces.union(unknown))
    rng.shuffle(pieces)
    vocab = list(zip(pieces, random_scores(rng, pieces)))
    fallback = rng.random() < 0.4
    vocab += [(t, rng.choice((0.0, -3.5))) for t in bytes_of(rng) if fallback]
    unk_id = rng.randrange(len(vocab) + 1)
    vocab.insert(unk_id, ("<unk>", rng.choice((0.0, -2.5, -40.0))))
    if rng.random() < 0.2:
        vocab.append((rng.choice(pieces), -1.25))  # a second score of the same piece
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id, fallback))
    if rng.random() < 0.5:
        tokenizer.pre_tokenizer = split(rng.choice((LLAMA3, r"b")))
    parts = [*letters * 6, *"xxyé\u2581", "<unk>", "<0x41>"]
    return tokenizer, [random_text(rng, parts, 50) for _ in range(150)]


FAMILIES = {"random_added": added_tokens, "random_merges": merges_and_affixes, "random_ties": unigram_ties}


def without_special(data):
    """The same tokenizer.json, whose special tokens are found in no text. The others keep their ids."""
    added = []
    for token in data["added_tokens"]:
        if not token["special"]:
            added.append(token)
        elif token["id"] >= len(data["model"]["vocab"]):
            added.append({**token, "content": f"\U0010fff1{token['id']}"})
    return {**data, "added_tokens": added}
