"""Engines for structured output behind one interface, for measure_constraints.py.

An engine is made of a tokenizer.json and the id of the end of sequence. `compile` takes a schema's text and returns a
grammar or raises Refused; `notes` says what the engine warned about; `start` returns a new matcher of a grammar. A
matcher has `fill()`, which writes the mask of the next token into `engine.mask`, `advance(token)`, `error()`, and
`trivial()`, a call that does nothing, which shows what a call from Python costs."""

import json
import sys
from unittest import mock

import numpy


class Refused(Exception):
    """The engine does not compile this schema."""


def vocabulary(tokenizer_json):
    """Texts of tokens by id, as tokenizer.json spells them."""
    content = json.loads(open(tokenizer_json, encoding="utf-8").read())
    ids = dict(content["model"]["vocab"]) | {entry["content"]: entry["id"] for entry in content["added_tokens"]}
    texts = [""] * (max(ids.values()) + 1)
    for text, index in ids.items():
        texts[index] = text
    return texts


class Llguidance:
    """LLMatcher with default settings."""

    def __init__(self, tokenizer_json, end_of_sequence):
        import llguidance

        self.package = llguidance
        self.version = package_version("llguidance")
        self.tokenizer = llguidance.LLTokenizer(tokenizer_json, eos_token=end_of_sequence)
        self.mask = numpy.zeros((self.tokenizer.vocab_size + 31) // 32, dtype=numpy.int32)

    def compile(self, schema_text):
        matcher_class = self.package.LLMatcher
        try:
            matcher = matcher_class(self.tokenizer, matcher_class.grammar_from_json_schema(schema_text), log_level=0)
        except ValueError as error:
            raise Refused(str(error)) from error
        if matcher.is_error():
            raise Refused(matcher.get_error())
        return matcher

    def notes(self, grammar):
        return grammar.get_grammar_warnings()

    def start(self, grammar):
        return LlguidanceMatcher(grammar.deep_copy(), self.mask)


class LlguidanceMatcher:
    def __init__(self, matcher, mask):
        address, size = mask.ctypes.data, mask.nbytes
        compute = matcher.unsafe_compute_mask_ptr  # What fill_next_token_bitmask calls, without numpy's part of it.
        self.fill = lambda: compute(address, size)
        self.advance = matcher.consume_token
        self.trivial = matcher.is_error
        self.error = matcher.get_error


class Xgrammar:
    """GrammarCompiler with one thread and without a cache, strict_mode off; other settings are the default."""

    dynamic = False

    def __init__(self, tokenizer_json, end_of_sequence):
        import tvm_ffi

        # It imports both of them for types only.
        absent = [name for name in ("torch", "transformers") if not importable(name)]
        with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in absent}):
            import xgrammar

        self.package = xgrammar
        self.version = package_version("xgrammar")
        texts = vocabulary(tokenizer_json)
        info = xgrammar.TokenizerInfo(texts, xgrammar.VocabType.BYTE_LEVEL, stop_token_ids=[end_of_sequence])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False,
                                                 enable_dynamic_compilation=self.dynamic)
        self.mask = numpy.zeros((len(texts) + 31) // 32, dtype=numpy.int32)
        self.tensor = tvm_ffi.from_dlpack(self.mask.reshape(1, -1))

    def compile(self, schema_text):
        try:
            return self.compiler.compile_json_schema(schema_text, strict_mode=False)
        except Exception as error:
            raise Refused(str(error)) from error

    def notes(self, grammar):
        return []

    def start(self, grammar):
        return XgrammarMatcher(self.package.GrammarMatcher(grammar), self.tensor)


class XgrammarDynamic(Xgrammar):
    """The same with masks that are made when they are first needed."""

    dynamic = True


class XgrammarMatcher:
    def __init__(self, matcher, tensor):
        handle = matcher._handle
        fill, accept = handle.fill_next_token_bitmask, handle.accept_token
        self.fill = lambda: fill(tensor, 0, False)
        self.advance = lambda token: accept(token, False)
        self.trivial = handle.is_terminated
        self.error = lambda: ""


def importable(name):
    from importlib.util import find_spec

    return find_spec(name) is not None


def package_version(name):
    from importlib.metadata import version

    return version(name)


ENGINES = {"llguidance": Llguidance, "xgrammar": Xgrammar, "xgrammar-dynamic": XgrammarDynamic}
