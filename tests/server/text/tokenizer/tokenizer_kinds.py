"""Tokenizers of every kind that well-known models use, with small vocabularies trained on the spot by Hugging Face
tokenizers."""

import json

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_texts import SENTENCES, code_text, english_text, repository_text

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"\p{L}+|", r"[\p{L}\p{M}]+|").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

ADDED = [AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False),
         AddedToken("<|im_start|>", special=True, normalized=False),
         AddedToken("<mask>", special=True, normalized=False, lstrip=True),
         AddedToken("<pad>", special=True, normalized=False, rstrip=True),
         AddedToken("<both>", special=True, normalized=False, lstrip=True, rstrip=True),
         AddedToken("<tool_call>", special=False, normalized=False),
         AddedToken("foo bar", special=False, normalized=True),
         AddedToken("word", special=False, normalized=False, single_word=True),
         # No vocabulary has these: where they are no word of their own, other tokens spell them.
         AddedToken("zqvx", special=False, normalized=False, single_word=True),
         AddedToken("Xvqz", special=False, normalized=True, single_word=True),
         AddedToken("\u0298", special=False, normalized=False, single_word=True)]
# Gemma's: runs of line breaks, tabs and blanks, and the tags of HTML.
GEMMA_ADDED = ADDED + [AddedToken(text, special=False, normalized=False)
                       for text in ["<start_of_turn>", "<table>", "</table>", "<h1>", *("\n" * n for n in range(2, 9)),
                                    *("\t" * n for n in range(2, 5)), *("\u2581" * n for n in range(2, 9))]]
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


class Trainer:
    """Trains vocabularies of up to `vocab_size` tokens."""

    def __init__(self, vocab_size=1500, extra_texts=()):
        self.vocab_size = vocab_size
        self.texts = SENTENCES * 3 + [t[:20000] for t in repository_text()] + list(extra_texts)

    def bpe(self, normalizer=None, pre=None, decoder=None, post=None, byte_level=True, added=ADDED, **model):
        tokenizer = with_parts(models.BPE(**model), normalizer, pre)
        affixes = {k: model[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in model}
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size, show_progress=False, limit_alphabet=700,
            special_tokens=["<unk>"] + (BYTE_TOKENS if model.get("byte_fallback") else []),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [], **affixes)
        tokenizer.train_from_iterator(self.texts, trainer)
        return finish(tokenizer, added, decoder, post)

    def unigram(self, normalizer=None, pre=None, decoder=None, post=None, byte_fallback=False, added=ADDED):
        tokenizer = with_parts(models.Unigram(), normalizer, pre)
        special = ["<unk>", "<s>", "</s>"] + (BYTE_TOKENS if byte_fallback else [])
        trainer = trainers.UnigramTrainer(vocab_size=self.vocab_size, show_progress=False, special_tokens=special,
                                          unk_token="<unk>")
        tokenizer.train_from_iterator(self.texts, trainer)
        data = json.loads(tokenizer.to_str())
        data["model"]["byte_fallback"] = byte_fallback
        return finish(Tokenizer.from_str(json.dumps(data)), added, decoder, post)


def with_parts(model, normalizer, pre):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    return tokenizer


def finish(tokenizer, added, decoder, post):
    # Training marks its special tokens as such, but in a real file the byte tokens are ordinary ones.
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] == "<unk>"]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_tokens(added)
    if decoder:
        tokenizer.decoder = decoder
    if post:
        tokenizer.post_processor = post(tokenizer)
    return tokenizer


def template(single, *tokens):
    return lambda tokenizer: processors.TemplateProcessing(
        single=single, pair="$A $B", special_tokens=[(t, tokenizer.token_to_id(t)) for t in tokens])


def bos_eos_after_bytes(tokenizer):
    return processors.Sequence([processors.ByteLevel(), template("<s> $A </s>", "<s>", "</s>")(tokenizer)])


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def fallback_decoder(*last):
    return decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), *last])


def byte_level_kinds(train):
    decoder = decoders.ByteLevel()
    yield "gpt2", lambda: train.bpe(pre=pre_tokenizers.ByteLevel(add_prefix_space=False), decoder=decoder)
    yield "gpt2_prefix_space", lambda: train.bpe(
        pre=pre_tokenizers.ByteLevel(add_prefix_space=True), decoder=decoder,
        post=lambda t: processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>"))))
    yield "llama3", lambda: train.bpe(pre=byte_level(split(LLAMA3)), decoder=decoder, post=bos_eos_after_bytes,
                                      ignore_merges=True)
    yield "qwen2", lambda: train.bpe(normalizer=normalizers.NFC(), pre=byte_level(split(QWEN2)), decoder=decoder)
    yield "qwen35", lambda: train.bpe(normalizer=normalizers.NFC(), pre=byte_level(split(QWEN35)), decoder=decoder)
    yield "o200k", lambda: train.bpe(pre=byte_level(split(O200K)), decoder=decoder)
    yield "deepseek", lambda: train.bpe(
        pre=byte_level(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK)), decoder=decoder)
    yield "starcoder", lambda: train.bpe(
        pre=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False)]), decoder=decoder)


    # Over bytes, which hide nothing of what a normalizer does.
    yield "nfkc", lambda: train.bpe(normalizer=normalizers.NFKC(), pre=byte_level(), decoder=decoder)
    yield "uncased", lambda: train.bpe(
        normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]),
        pre=byte_level(split(GPT2)), decoder=decoder)


def sentencepiece_bpe_kinds(train):
    characters = {"byte_level": False, "unk_token": "<unk>"}
    fallback = {"fuse_unk": True, "byte_fallback": True, **characters}
    yield "llama2", lambda: train.bpe(
        normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
        pre=split("\u2581+[^\u2581]*|[^\u2581]+"), decoder=fallback_decoder(decoders.Strip(" ", 1, 0)),
        post=template("<s> $A", "<s>"), **fallback)
    for scheme in ("first", "always", "never"):
        pre = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "first")
        decoder = decoders.Metaspace(prepend_scheme=scheme)
        if scheme == "always":
            decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        yield f"mistral_{scheme}", lambda pre=pre, decoder=decoder: train.bpe(pre=pre, decoder=decoder, **fallback)
    yield "gemma", lambda: train.bpe(normalizer=normalizers.Replace(" ", "\u2581"),
                                     pre=pre_tokenizers.Split(" ", "merged_with_previous"), decoder=fallback_decoder(),
                                     post=template("<s> $A", "<s>"), added=GEMMA_ADDED, **fallback)
    yield "unknown", lambda: train.bpe(normalizer=normalizers.NFKC(), pre=pre_tokenizers.Whitespace(), **characters)
    yield "affixes", lambda: train.bpe(
        normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()]),
        pre=pre_tokenizers.WhitespaceSplit(), decoder=decoders.BPEDecoder(suffix="</w>"),
        continuing_subword_prefix="##", end_of_word_suffix="</w>", **characters)
    yield "classes", lambda: train.bpe(
        pre=pre_tokenizers.Sequence([split(r"[\w]+"), split(r"\W"), split(r"\b[\dA-F]"), split(r"\h+|\S(?=\w)"),
                                     pre_tokenizers.Punctuation(), pre_tokenizers.Digits()]),
        fuse_unk=False, **characters)
    yield "lookahead", lambda: train.bpe(
        normalizer=normalizers.Sequence([normalizers.NFKD(), normalizers.Replace(Regex(r"\s+"), " ")]),
        pre=pre_tokenizers.Sequence([split(r"(?=[A-Z])", "merged_with_next"), split(r"\d+", "contiguous"),
                                     split(r"\w\b", "merged_with_previous"),
                                     pre_tokenizers.Split("e", "merged_with_next"), split(r"\s", "removed")]),
        **characters)


def unigram_kinds(train):
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always")
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    decoder = decoders.Metaspace(prepend_scheme="always")
    yield "unigram_stripped", lambda: train.unigram(
        normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(left=False),
                                         normalizers.Replace(Regex(" {2,}"), "\u2581")]),
        pre=metaspace, decoder=decoder, post=template("$A </s>", "</s>"))
    yield "unigram_words", lambda: train.unigram(normalizer=normalizers.NFKC(), pre=words, decoder=decoder,
                                                 post=template("<s> $A </s>", "<s>", "</s>"))
    # With byte fallback, as the tokenizer of Sarashina 2.2, a Llama.
    yield "unigram_bytes", lambda: train.unigram(
        normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
        decoder=fallback_decoder(decoders.Strip(" ", 1, 0)), byte_fallback=True)
    yield "unigram_nmt", lambda: train.unigram(
        normalizer=normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                         normalizers.Replace(Regex(" {2,}"), " ")]),
        pre=pre_tokenizers.Metaspace(prepend_scheme="never", split=False),
        decoder=decoders.Metaspace(prepend_scheme="never"))


def kinds_of(train):
    """(name, function that makes the tokenizer) of every kind."""
    yield from byte_level_kinds(train)
    yield from sentencepiece_bpe_kinds(train)
    yield from unigram_kinds(train)


def kinds(vocab_size=1500):
    """As kinds_of, with vocabularies of that size."""
    extra = [t[:3000] for t in english_text()[:60] + code_text()] if vocab_size > 3000 else []
    return kinds_of(Trainer(vocab_size, extra))
