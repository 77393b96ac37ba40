"""What vLLM's own tests of its OpenAI interface check, as far as this server says that it does the same: the cases of the
table in docs/openai.md, which this test reads, so that none is claimed that does not run."""

import json
import os
import re
import urllib.error
import urllib.request

from harness import ROOT, ServerTestCase, main, packages

os.environ["NO_PROXY"] = "*"
with packages():
    import tokenizers

TOKENIZER = tokenizers.Tokenizer.from_file(str(ROOT / "configs/demo/tokenizer.json"))
IDS = [70, 71, 72, 73, 74]
TEXT = "Once upon a time"
CAT = "I love cats 🐱"
USER = {"role": "user", "content": "What is 2 + 3?"}
SAYING = "An apple a day keeps"
TALK = [{"role": "user", "content": "Tell me a saying."}, {"role": "assistant", "content": SAYING}]
GO_ON = {"messages": TALK, "continue_final_message": True, "add_generation_prompt": False}
USAGE = {"include_usage": True}
COMPLETION = {"prompt": IDS, "max_tokens": 5, "temperature": 0, "ignore_eos": True}
CHAT = {"messages": [USER], "max_tokens": 5, "temperature": 0, "ignore_eos": True}


def text_of(choice):
    for part in ("message", "delta"):
        if part in choice:
            return choice[part].get("content") or ""
    return choice["text"]


def joined(chunks, index=0):
    return "".join(text_of(choice) for chunk in chunks for choice in chunk["choices"] if choice["index"] == index)


def sums_up(usage):
    return usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"] and usage["prompt_tokens"] > 0


def tops(answer):
    return [len(top) for top in answer["choices"][0]["logprobs"]["top_logprobs"]]


def chat_tops(answer):
    return [len(token["top_logprobs"]) for token in answer["choices"][0]["logprobs"]["content"]]


def lists_of(chunks, name):
    return [one for chunk in chunks for choice in chunk["choices"] for one in choice.get(name) or []]


def ids_of(tokens):
    return [int(token.removeprefix("token_id:")) for token in tokens]


# What is asked beside COMPLETION or CHAT, and what must hold of the answer.
COMPLETIONS = {
    "one completion": ({}, lambda a: (a["choices"][0]["finish_reason"], a["usage"]["completion_tokens"]) == (
        "length", 5) and sums_up(a["usage"]) and a["usage"]["prompt_tokens_details"]["cached_tokens"] >= 0),
    "token ids as prompt": ({}, lambda a: a["usage"]["prompt_tokens"] == 5 and text_of(a["choices"][0])),
    "no logprobs": ({"logprobs": None}, lambda a: a["choices"][0]["logprobs"] is None),
    "zero logprobs": ({"logprobs": 0}, lambda a: tops(a) == [1] * 5),
    "some logprobs": ({"logprobs": 5}, lambda a: all(5 <= top <= 6 for top in tops(a))),
    "prompt logprobs": ({"prompt": ["A robot", "My name is"], "prompt_logprobs": 1}, lambda a: all(
        c["prompt_logprobs"][0] is None and all(1 <= len(p) <= 2 for p in c["prompt_logprobs"][1:]) and
        len(c["prompt_logprobs"]) > 1 for c in a["choices"])),
    "zero prompt logprobs": ({"prompt_logprobs": 0}, lambda a: [len(p) for p in a["choices"][0]["prompt_logprobs"][1:]]
                             == [1] * 4),
    "no prompt logprobs": ({}, lambda a: a["choices"][0].get("prompt_logprobs") is None),
    "n": ({"n": 3, "temperature": 1, "seed": 42, "max_tokens": 50}, lambda a: [c["index"] for c in a["choices"]] == [
        0, 1, 2] and len({text_of(c) for c in a["choices"]}) == 3 and all(c["finish_reason"] for c in a["choices"])),
    "list of texts": ({"prompt": [TEXT] * 2}, lambda a: len({text_of(c) for c in a["choices"]}) == 1 and
                      len(a["choices"]) == 2),
    "list of token ids": ({"prompt": [IDS] * 2}, lambda a: len({text_of(c) for c in a["choices"]}) == 1 and
                          len(a["choices"]) == 2),
    "list of prompts with n": ({"prompt": [TEXT] * 2, "n": 2, "temperature": 1, "seed": 7, "max_tokens": 30}, lambda a: [
        c["index"] for c in a["choices"]] == [0, 1, 2, 3] and text_of(a["choices"][0]) != text_of(a["choices"][1])),
    "echo with logprobs": ({"prompt": TEXT, "echo": True, "logprobs": 1}, lambda a: text_of(
        a["choices"][0]).startswith(TEXT) and a["choices"][0]["logprobs"]["token_logprobs"][0] is None and
        a["choices"][0]["logprobs"]["top_logprobs"][0] is None and all(
            1 <= len(top) <= 2 for top in a["choices"][0]["logprobs"]["top_logprobs"][1:])),
    "echo of token ids": ({"echo": True}, lambda a: text_of(a["choices"][0]).startswith(TOKENIZER.decode(IDS))),
    "truncated prompt": ({"truncate_prompt_tokens": 3, "return_token_ids": True}, lambda a: a["choices"][0][
        "prompt_token_ids"] == IDS[-3:] and a["usage"]["prompt_tokens"] == 3),
    "truncation at the end": ({"truncate_prompt_tokens": 3, "truncation_side": "right", "return_token_ids": True},
                              lambda a: a["choices"][0]["prompt_token_ids"] == IDS[:3]),
    "token ids in the answer": ({"prompt": CAT, "return_token_ids": True, "logprobs": 1}, lambda a: TOKENIZER.decode(
        a["choices"][0]["prompt_token_ids"]) == CAT and len(a["choices"][0]["token_ids"]) == 5 and TOKENIZER.decode(
            a["choices"][0]["token_ids"]).startswith(text_of(a["choices"][0]).rstrip("\ufffd"))),
    "no token ids unless asked": ({}, lambda a: "token_ids" not in a["choices"][0] and
                                  "prompt_token_ids" not in a["choices"][0]),
    "tokens as token ids": ({
        "prompt": TEXT, "echo": True, "logprobs": 1, "prompt_logprobs": 1, "return_token_ids": True,
        "return_tokens_as_token_ids": True}, lambda a: ids_of(a["choices"][0]["logprobs"]["tokens"]) == a["choices"][0][
            "prompt_token_ids"] + a["choices"][0]["token_ids"] and len(a["choices"][0]["prompt_logprobs"]) == len(
                a["choices"][0]["prompt_token_ids"])),
    "stop reason": ({"stop": [" "], "max_tokens": 50, "prompt": TEXT}, lambda a: (
        a["choices"][0]["finish_reason"], a["choices"][0]["stop_reason"]) == ("stop", " ")),
    "system fingerprint": ({}, lambda a: a["system_fingerprint"].startswith("quire-")),
}
CHATS = {
    "no logprobs of a chat": ({"logprobs": False}, lambda a: a["choices"][0]["logprobs"] is None),
    "zero logprobs of a chat": ({"logprobs": True, "top_logprobs": 0}, lambda a: chat_tops(a) == [0] * 5),
    "some logprobs of a chat": ({"logprobs": True, "top_logprobs": 5}, lambda a: chat_tops(a) == [5] * 5),
    "prompt logprobs of a chat": ({"prompt_logprobs": 2}, lambda a: all(
        2 <= len(p) <= 3 for p in a["prompt_logprobs"][1:]) and len(a["prompt_logprobs"]) == a["usage"]["prompt_tokens"]),
    "no prompt logprobs of a chat": ({}, lambda a: a.get("prompt_logprobs") is None),
    "one chat": ({"max_completion_tokens": 3}, lambda a: (a["choices"][0]["finish_reason"], a["choices"][0]["message"][
        "role"], a["usage"]["completion_tokens"]) == ("length", "assistant", 3) and sums_up(a["usage"])),
    "several turns": ({"messages": [USER, {"role": "assistant", "content": "5"}, USER]},
                      lambda a: text_of(a["choices"][0])),
    "n of a chat": ({"n": 3, "temperature": 2, "seed": 42, "max_tokens": 20}, lambda a: [
        c["index"] for c in a["choices"]] == [0, 1, 2] and len({text_of(c) for c in a["choices"]}) > 1),
    "echo of a chat": (GO_ON | {"echo": True}, lambda a: text_of(a["choices"][0]).startswith(SAYING)),
    "no echo of a chat": (GO_ON, lambda a: SAYING not in text_of(a["choices"][0])),
    "token ids of a chat": ({"messages": [USER | {"content": CAT}], "return_token_ids": True, "logprobs": True},
                            lambda a: CAT in TOKENIZER.decode(a["prompt_token_ids"]) and
                            len(a["choices"][0]["token_ids"]) == 5),
    "extra fields are ignored": ({"nonsense": 1}, lambda a: text_of(a["choices"][0])),
}
STREAMS = {
    "a stream is the whole answer": ("completions", {"prompt": TEXT}, lambda c: [
        choice["finish_reason"] for chunk in c for choice in chunk["choices"]].count(None) == len(c) - 1),
    "n of a stream": ("completions", {"n": 3, "temperature": 1, "seed": 42, "max_tokens": 30}, lambda c: len({
        joined(c, i) for i in range(3)}) == 3 and sum(bool(x["choices"][0]["finish_reason"]) for x in c) == 3),
    "a stream of several prompts": ("completions", {"prompt": [TEXT] * 2}, lambda c: joined(c, 0) == joined(c, 1) and
                                    all(len(x["choices"]) == 1 for x in c)),
    "usage: no": ("completions", {"stream_options": {"include_usage": False, "continuous_usage_stats": False}},
                  lambda c: not any(x.get("usage") for x in c)),
    "usage: continuous alone is none": ("completions", {"stream_options": {"continuous_usage_stats": True}},
                                        lambda c: not any(x.get("usage") for x in c)),
    "usage: no options": ("completions", {"stream_options": {}}, lambda c: not any(x.get("usage") for x in c)),
    "usage: at the end": ("completions", {"stream_options": USAGE}, lambda c: c[-1]["choices"] == [] and sums_up(
        c[-1]["usage"]) and not any(x["usage"] for x in c[:-1])),
    "usage: continuous": ("completions", {"stream_options": USAGE | {"continuous_usage_stats": True}}, lambda c: all(
        sums_up(x["usage"]) for x in c) and c[-1]["choices"] == []),
    "usage of a chat: at the end": ("chat/completions", {"stream_options": USAGE}, lambda c: c[-1]["choices"] == [] and
                                    sums_up(c[-1]["usage"]) and not any(x["usage"] for x in c[:-1])),
    "usage of a chat: continuous": ("chat/completions", {
        "stream_options": USAGE | {"continuous_usage_stats": True}}, lambda c: [
            x["usage"]["completion_tokens"] for x in c] == sorted(x["usage"]["completion_tokens"] for x in c) and
        c[-1]["usage"]["completion_tokens"] == 5),
    "a chat's stream": ("chat/completions", {}, lambda c: c[0]["choices"][0]["delta"]["role"] == "assistant" and
                        c[-1]["choices"][0]["finish_reason"] == "length"),
    "n of a chat's stream": ("chat/completions", {"n": 2, "temperature": 1}, lambda c: joined(c, 0) and joined(c, 1)),
    "text offsets of a stream": ("completions", {"prompt": TEXT, "logprobs": 0, "stop": ["\n\n"]}, lambda c: [
        o for x in c for o in x["choices"][0]["logprobs"]["text_offset"]] == [0, *[
            sum(map(len, [t for x in c for t in x["choices"][0]["logprobs"]["tokens"]][:i])) for i in range(1, 5)]]),
    "token ids of a stream": ("completions", {
        "prompt": TEXT, "return_token_ids": True, "logprobs": 1, "return_tokens_as_token_ids": True}, lambda c: c[0][
            "choices"][0]["prompt_token_ids"] == TOKENIZER.encode(TEXT).ids and lists_of(c, "token_ids") == ids_of(
                token for x in c for token in x["choices"][0]["logprobs"]["tokens"]) and all(
                    "prompt_token_ids" not in x["choices"][0] for x in c[1:])),
    "token ids of a chat's stream": ("chat/completions", {"return_token_ids": True}, lambda c: len(
        c[0]["prompt_token_ids"]) > 0 and len(lists_of(c, "token_ids")) == 5 and all(
            "prompt_token_ids" not in x for x in c[1:])),
}
# Path, what is asked, and the field that is blamed with 400.
REFUSALS = {
    "too many logprobs": ("completions", {"logprobs": 21}, "logprobs"),
    "too many logprobs in a stream": ("completions", {"logprobs": 30, "stream": True}, "logprobs"),
    "too many logprobs of a chat": ("chat/completions", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    "all prompt logprobs": ("completions", {"prompt_logprobs": -1}, "prompt_logprobs"),
    "all prompt logprobs of a chat": ("chat/completions", {"prompt_logprobs": -1}, "prompt_logprobs"),
    "prompt logprobs in a stream": ("completions", {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    "usage without a stream": ("completions", {"stream_options": USAGE}, "stream_options"),
    "no usage without a stream": ("chat/completions", {"stream_options": {"include_usage": None}}, "stream_options"),
    "no prompt": ("completions", {"prompt": None}, "prompt"),
    "no prompts": ("completions", {"prompt": []}, "prompt"),
    "an empty prompt of ids": ("completions", {"prompt": [[]]}, "prompt"),
    "a negative id": ("completions", {"prompt": [-1]}, "prompt"),
    "a negative id in a list": ("completions", {"prompt": [[-1]]}, "prompt"),
    "an id out of the vocabulary": ("completions", {"prompt": [999999]}, "prompt"),
    "a stop token out of the vocabulary": ("chat/completions", {"stop_token_ids": [999999]}, "stop_token_ids"),
    "a bias out of the vocabulary": ("chat/completions", {"logit_bias": {"999999": 1}}, "logit_bias"),
    "a bias that is too large": ("chat/completions", {"logit_bias": {"70": 101}}, "logit_bias[70]"),
    "a seed that is too large": ("chat/completions", {"seed": 2**63}, "seed"),
    "a seed that is too small": ("chat/completions", {"seed": -2**63 - 1}, "seed"),
    "beam search": ("completions", {"use_beam_search": True, "n": 2}, "use_beam_search"),
    "a pattern that is wrong": ("completions", {"structured_outputs": {"regex": "[.*"}}, "structured_outputs.regex"),
    "a schema that is missing": ("chat/completions", {"response_format": {"type": "json_schema"}}, "response_format"),
    "two constraints": ("chat/completions", {"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs.regex"),
    "bad words": ("completions", {"bad_words": ["x"]}, "bad_words"),
    "allowed token ids": ("completions", {"allowed_token_ids": [70]}, "allowed_token_ids"),
    "truncation to nothing": ("completions", {"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
    "truncation of the middle": ("completions", {"truncation_side": "middle"}, "truncation_side"),
}


class ConformanceTest(ServerTestCase):
    FLAGS = ("--served-model-name", "demo")

    def post(self, path, body):
        request = urllib.request.Request(f"http://{self.server.target}{path}", json.dumps(body).encode(),
                                         {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["error"]
        if not body.get("stream"):
            return 200, json.loads(text)
        events = text.split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        return 200, [json.loads(event.removeprefix("data: ")) for event in events[:-2]]

    def ask(self, path, extra):
        return self.post(f"/v1/{path}", (CHAT if path == "chat/completions" else COMPLETION) | extra)

    def check(self, name, path, extra, holds):
        with self.subTest(name):
            status, answer = self.ask(path, extra)
            self.assertEqual(status, 200, answer)
            self.assertTrue(holds(answer), json.dumps(answer, indent=1)[:4000])

    def test_completions(self):
        for name, (extra, holds) in COMPLETIONS.items():
            self.check(name, "completions", extra, holds)

    def test_chats(self):
        for name, (extra, holds) in CHATS.items():
            self.check(name, "chat/completions", extra, holds)

    def test_streams(self):
        for name, (path, extra, holds) in STREAMS.items():
            self.check(name, path, extra | {"stream": True}, holds)
            with self.subTest(f"{name}, whole"):
                whole = {key: value for key, value in extra.items() if key != "stream_options"}
                chunks = self.ask(path, extra | {"stream": True})[1]
                for choice in self.ask(path, whole)[1]["choices"]:
                    self.assertEqual(joined(chunks, choice["index"]) if "seed" in extra or "n" not in extra else
                                     text_of(choice), text_of(choice))

    def test_refusals(self):
        for name, (path, extra, field) in REFUSALS.items():
            with self.subTest(name):
                status, error = self.ask(path, extra)
                self.assertEqual((status, error.get("param")), (400, field), error)
        self.assertEqual(self.ask("completions", {})[0], 200)  # the server still works

    def test_tokenize(self):
        for special in (False, True):
            with self.subTest("tokenize", special=special):
                answer = self.post("/tokenize", {"prompt": CAT, "add_special_tokens": special})[1]
                ids = TOKENIZER.encode(CAT, add_special_tokens=special).ids
                self.assertEqual(answer, {"tokens": ids, "count": len(ids), "max_model_len": 4096, "token_strs": None})
        answer = self.post("/tokenize", {"prompt": CAT, "return_token_strs": True})[1]
        self.assertEqual(answer["token_strs"], TOKENIZER.encode(CAT).tokens)
        ids = TOKENIZER.encode(CAT, add_special_tokens=False).ids
        self.assertEqual(self.post("/detokenize", {"tokens": ids})[1], {"prompt": CAT})

    def test_tokenize_chat(self):
        for extra in ({}, {"add_generation_prompt": False}, GO_ON):
            request = {"messages": TALK} | extra
            chat = self.ask("chat/completions", request | {"return_token_ids": True, "max_tokens": 1})[1]
            self.assertEqual(self.post("/tokenize", request)[1]["tokens"], chat["prompt_token_ids"])

    def test_parts_are_as_a_text(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": USER["content"]}]}]
        answers = [self.ask("chat/completions", {"messages": messages})[1] for messages in ([USER], parts)]
        self.assertEqual(answers[0]["choices"], answers[1]["choices"])

    def test_seeds_repeat(self):
        request = {"temperature": 1, "seed": 11, "n": 2, "max_tokens": 20}
        for path in ("completions", "chat/completions"):
            first, second = (self.ask(path, request)[1]["choices"] for _ in range(2))
            self.assertEqual(first, second)

    def test_every_claim_of_the_documentation_runs(self):
        names = {*COMPLETIONS, *CHATS, *STREAMS, *REFUSALS, *(name for name in dir(self) if name.startswith("test_"))}
        for other in ("openai", "openai_http", "responses", "harmony_chats", "structured"):
            names.update(re.findall(r"def (test_\w+)", (ROOT / f"tests/e2e/{other}_test.py").read_text()))
        rows = re.findall(r"^\|.*\| (?:same|refused)\b.*\| (.*) \|$", (ROOT / "docs/openai.md").read_text(), re.M)
        claimed = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
        self.assertGreater(len(claimed), 50)
        self.assertEqual(claimed - names, set())
        self.assertEqual({*COMPLETIONS, *CHATS, *STREAMS, *REFUSALS} - claimed, set())


if __name__ == "__main__":
    main()
