"""Small model folders in which the files beside tokenizer.json say something about tokens: what auto_tokenizer_test.py
and make_auto_tokenizer_golden.py load."""

import json
import pathlib

TEXTS = ["ab", "", "a<s>b</s>", "a</s> b", "a<x>b", "a <y> b", "a<z>b", "<q>a", "a [PAD] b"]
END = {"__type": "AddedToken", "content": "</s>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}


def byte_level_alphabet():
    """The character that stands for each byte, as GPT-2 has them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def added(token_id, content, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **flags}


def tokenizer(post=None, **more):
    """Byte-level: ids 0..255 are the bytes and 256 is <y>, which tokenizer.json does not add; added are 257 <s>,
    258 </s> and 259 <x>, the last of them an ordinary token."""
    vocab = {character: byte for byte, character in byte_level_alphabet().items()}
    vocab["<y>"] = 256
    file = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None,
            "added_tokens": [added(257, "<s>"), added(258, "</s>"), added(259, "<x>", special=False)],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": []}}
    if post:
        file["post_processor"] = {
            "type": "TemplateProcessing", "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "single": [{"Sequence": {"id": "A", "type_id": 0}} if piece == "$A" else {"SpecialToken": {"id": piece, "type_id": 0}}
                       for piece in post],
            "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}
                               for token, token_id in (("<s>", 257), ("</s>", 258)) if token in post}}
    return {**file, **more}


def folder(config=None, post=None, special_map=None, added_tokens=None, model=None, **more):
    files = {"tokenizer.json": tokenizer(post, **more)}
    for name, value in (("tokenizer_config.json", config), ("special_tokens_map.json", special_map),
                        ("added_tokens.json", added_tokens), ("config.json", model)):
        if value is not None:
            files[name] = value
    return files


def outer_tokens():
    """add_bos_token and add_eos_token, under every class that well-known models name."""
    classes = [None, "PreTrainedTokenizerFast", "TokenizersBackend", "Qwen2TokenizerFast", "Qwen2Tokenizer", "GPT2TokenizerFast",
               "LlamaTokenizerFast", "LlamaTokenizer", "CohereTokenizerFast"]
    for name in classes:
        of_class = {"tokenizer_class": name} if name else {}
        for flags in ({"add_eos_token": True}, {"add_bos_token": True, "add_eos_token": True}):
            yield f"{name} {flags}", folder({**NAMES, **of_class, **flags})
        flags = {"add_bos_token": False, "add_eos_token": False}
        yield f"{name} {flags} after a post-processor", folder({**NAMES, **of_class, **flags}, post=["<s>", "$A", "</s>"])
    for model_type in ("llama", "qwen2", "qwen3", "mistral", "phi3", "smollm3"):
        yield f"model_type {model_type}", folder({**NAMES, "add_bos_token": True, "add_eos_token": True},
                                                 model={"model_type": model_type})


def special_tokens():
    """Which tokens are special, and where they are named."""
    yield "no other file", folder()
    yield "names as strings", folder(NAMES)
    yield "names as objects", folder({"bos_token": {**END, "content": "<s>"}, "eos_token": END})
    yield "names are null", folder({"bos_token": None, "eos_token": None})
    yield "the map alone", folder(special_map={"bos_token": "<s>", "eos_token": END})
    yield "the map beside the configuration", folder({"eos_token": "<s>"}, special_map={"eos_token": "</s>"})
    yield "the map does not count beside added_tokens_decoder", folder(
        {"eos_token": "<s>", "added_tokens_decoder": {"258": END}}, special_map={"eos_token": "</s>"})
    yield "the end is an ordinary added token", folder({"eos_token": "<x>"})
    yield "the end is a token of the vocabulary", folder({"eos_token": "<y>"})
    yield "the end is an object that takes white space along", folder(
        {"eos_token": {**END, "content": "<y>", "lstrip": True, "rstrip": True}})
    yield "padding is a token of the vocabulary", folder({**NAMES, "pad_token": "<y>"})
    yield "padding is an ordinary added token", folder({**NAMES, "pad_token": "<x>"})
    yield "a token for images", folder({**NAMES, "image_token": "<y>"})
    yield "unknown, separator, class, mask", folder({**NAMES, "unk_token": "<y>", "sep_token": "<x>", "cls_token": "<s>",
                                                     "mask_token": {**END, "content": "<y>"}})
    yield "additional special tokens", folder({**NAMES, "additional_special_tokens": ["<y>", {**END, "content": "<x>"}]})
    yield "extra special tokens", folder({**NAMES, "extra_special_tokens": ["<y>", "<x>"]})
    yield "extra special tokens by name", folder({**NAMES, "extra_special_tokens": {"image_token": "<y>"}})
    yield "extra special tokens of the map", folder(NAMES, special_map={"additional_special_tokens": ["<y>"]})
    yield "added_tokens_decoder makes a token special", folder({**NAMES, "added_tokens_decoder": {"259": {**END, "content": "<x>"}}})
    yield "added_tokens_decoder has a token of the vocabulary", folder(
        {**NAMES, "added_tokens_decoder": {"256": {**END, "content": "<y>", "special": False}}})
    yield "added_tokens.json", folder(NAMES, added_tokens={"<y>": 256})
    yield "added_tokens.json has a special token", folder({**NAMES, "pad_token": "<y>"}, added_tokens={"<y>": 256})


def new_tokens():
    """Tokens that tokenizer.json does not have at all. Of those that only have an office (a new pad_token) we differ: the
    model has no row for them, so that they stay text."""
    yield "added_tokens_decoder has a new token", folder({**NAMES, "added_tokens_decoder": {"260": {**END, "content": "<z>"}}})
    yield "added_tokens_decoder has a new ordinary token", folder(
        {**NAMES, "added_tokens_decoder": {"260": {**END, "content": "<z>", "special": False}}})
    yield "added_tokens.json has new tokens", folder(NAMES, added_tokens={"<z>": 260, "<q>": 261})


def harmless():
    """Keys that change nothing."""
    yield "lengths, sides, classes", folder({
        **NAMES, "model_max_length": 3, "padding_side": "left", "truncation_side": "left", "use_fast": True, "legacy": False,
        "clean_up_tokenization_spaces": False, "errors": "replace", "sp_model_kwargs": {},
        "spaces_between_special_tokens": False, "use_default_system_prompt": False, "processor_class": "X",
        "model_input_names": ["input_ids"], "add_prefix_space": True})
    yield "truncation and padding of tokenizer.json", folder(
        NAMES, truncation={"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0},
        padding={"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
                 "pad_token": "!"})


def cases():
    for family in (outer_tokens, special_tokens, new_tokens, harmless):
        yield from family()


def write(files, path):
    for name, value in files.items():
        pathlib.Path(path, name).write_text(json.dumps(value), encoding="utf-8")


def ask_transformers(path):
    """What AutoTokenizer.from_pretrained makes of a folder."""
    from transformers import AutoTokenizer
    loaded = AutoTokenizer.from_pretrained(path)
    ids = [loaded(text).input_ids for text in TEXTS]
    return {"bos": loaded.bos_token_id, "eos": loaded.eos_token_id, "ids": ids,
            "texts": [loaded.decode(one, skip_special_tokens=True) for one in ids]}
