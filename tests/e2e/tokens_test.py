"""What answers tell of their tokens, on every surface: a token is an id and bytes, of which a text may need several. The model
writes scripts (scripted_model.py); its tokenizer puts <s> before each text."""

import json
import math
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import CLIENT, Answer, Server, main, packages, pb
import scripted_model

os.environ["NO_PROXY"] = "*"
with packages():
    import openai

EMOJI = "🙂"
BYTES = [[byte] for byte in EMOJI.encode()]
SPELLED = ["bytes:\\xf0", "bytes:\\x9f", "bytes:\\x99", "bytes:\\x82"]
BOS = "<s>"
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


def make_model(folder):
    scripts = {"emoji": [EMOJI.encode(), "ok"], "special": ["one", "<x>", "two"]}
    scripted_model.make(folder, scripts, {BOS: True, "<x>": True}, TEMPLATE)
    path = pathlib.Path(folder, "tokenizer.json")
    tokenizer = json.loads(path.read_text())
    bos = tokenizer["model"]["vocab"][BOS]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": BOS, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {BOS: {"id": BOS, "ids": [bos], "tokens": [BOS]}}}
    path.write_text(json.dumps(tokenizer))
    return tokenizer["model"]["vocab"]


class TokensTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.vocab = make_model(folder)
        cls.server = cls.enterClassContext(Server("--model", folder, "--served-model-name", "scripts", "--device", "cpu"))

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{self.server.target}/v1", api_key="none", timeout=120, max_retries=0)
        self.addCleanup(self.client.close)

    def complete(self, prompt, **options):
        return self.client.completions.create(model="scripts", prompt=prompt, **{"temperature": 0} | options)

    def chat(self, **options):
        return self.client.chat.completions.create(
            model="scripts", messages=[{"role": "user", "content": "<go:emoji>"}], temperature=0, logprobs=True, **options)

    def check_content(self, content):
        self.assertEqual([one.bytes for one in content[:4]], BYTES)
        self.assertEqual([one.token for one in content[:4]], SPELLED)
        self.assertEqual(bytes(byte for one in content[:5] for byte in one.bytes).decode(), f"{EMOJI}o")
        for one in content:
            self.assertEqual((one.top_logprobs[0].bytes, one.top_logprobs[0].token), (one.bytes, one.token))

    def test_chats(self):
        choice = self.chat(top_logprobs=2).choices[0]
        self.assertEqual(choice.message.content, f"{EMOJI}ok")
        self.check_content(choice.logprobs.content)
        self.check_content([one for chunk in self.chat(top_logprobs=2, stream=True)
                            if chunk.choices[0].logprobs for one in chunk.choices[0].logprobs.content])

    def test_responses(self):
        options = {"model": "scripts", "input": "<go:emoji>", "temperature": 0, "top_logprobs": 1,
                   "include": ["message.output_text.logprobs"]}
        answer = self.client.responses.create(**options)
        self.assertEqual(answer.output_text, f"{EMOJI}ok")
        self.check_content(answer.output[0].content[0].logprobs)

    def test_completions(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                answer = self.complete("<go:emoji>", logprobs=1, stream=stream)
                parts = [chunk.choices[0].logprobs for chunk in (answer if stream else [answer])]
                tokens, offsets, tops = ([one for part in parts for one in getattr(part, name)]
                                         for name in ("tokens", "text_offset", "top_logprobs"))
                self.assertEqual(tokens[:4], SPELLED)
                self.assertEqual([list(top) for top in tops[:4]], [[token] for token in SPELLED])
                self.assertEqual(offsets, [0, 0, 0, 0, 1, 2, 3][:len(offsets)])

    def test_grpc(self):
        request = pb.GenerateRequest()
        request.text.text = "<go:emoji>"
        request.sampling.temperature = 0
        request.output.logprobs = 1
        request.output.prompt_logprobs = 0
        once = self.server.inference.GenerateOnce(request)
        stream = Answer(self.server.inference.Generate(request))
        for prompt, tokens in ((once.prompt_logprobs, once.choices[0].logprobs),
                               (stream.started.prompt_logprobs, stream.logprobs)):
            self.assertEqual([list(one.token_bytes) for one in tokens[:4]], BYTES)
            self.assertEqual([list(one.top[0].token_bytes) for one in tokens[:4]], BYTES)
            self.assertEqual([one.token for one in tokens[:5]], ["\ufffd"] * 4 + ["o"])
            self.assertEqual([one.text_offset for one in tokens[:6]], [0, 0, 0, 0, 1, 2])
            self.assertEqual([(one.token, one.token_bytes, one.text_offset) for one in prompt],
                             [(BOS, BOS.encode(), 0), ("<go:emoji>", b"<go:emoji>", 0)])

    def test_the_client(self):
        command = [CLIENT, "generate", "--target", self.server.target, "<go:emoji>", "--temperature", "0", "--logprobs", "1"]
        table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for byte in EMOJI.encode():
            self.assertIn(f'"\\x{byte:02x}"', table)
        answer = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
        logprobs = answer["choices"][0]["logprobs"]
        self.assertEqual([one["bytes"] for one in logprobs[:4]], BYTES)
        self.assertEqual([one["top"][0]["bytes"] for one in logprobs[:4]], BYTES)
        self.assertEqual([one["text_offset"] for one in logprobs[:5]], [0, 0, 0, 0, 1])

    def test_offsets_count_the_text_that_is_there(self):
        ids = [self.vocab[token] for token in (BOS, "a", "b")]
        go_on = {"max_tokens": 2, "logprobs": 0, "echo": True, "extra_body": {"ignore_eos": True}}
        for prompt, text, offsets in (("ab", "ab!!", [0, 0, 1, 2, 3]), (ids, "<s>ab!!", [0, 3, 4, 5, 6]),
                                      ("<s>ab", "<s>ab!!", [0, 0, 3, 4, 5, 6]),
                                      (f"ü{EMOJI}a", f"ü{EMOJI}a!!", [0, 0, 0, 1, 1, 1, 1, 2, 3, 4])):
            with self.subTest(prompt=prompt):
                choice = self.complete(prompt, **go_on).choices[0]
                self.assertEqual((choice.text, choice.logprobs.text_offset), (text, offsets))
                chunks = [chunk.choices[0] for chunk in self.complete(prompt, stream=True, **go_on)]
                self.assertEqual("".join(chunk.text for chunk in chunks), text)
                self.assertEqual([one for chunk in chunks for one in chunk.logprobs.text_offset], offsets)
        plain = go_on | {"extra_body": {"add_special_tokens": False, "ignore_eos": True}}
        self.assertEqual(self.complete("ab", **plain).choices[0].logprobs.text_offset, [0, 1, 2, 3])

    def test_offsets_of_an_answer_with_special_tokens(self):
        whole = self.complete("<go:special>", logprobs=0, echo=True, extra_body={"skip_special_tokens": False})
        short = self.complete("<go:special>", logprobs=0, echo=True)
        for answer, text in ((whole, "onetwo".replace("e", "e<x>")), (short, "onetwo")):
            choice = answer.choices[0]
            self.assertTrue(choice.text.startswith(f"<go:special>{text}"), choice.text)
            self.assertEqual(choice.logprobs.text_offset[choice.logprobs.tokens.index("t")], choice.text.index("two"))

    def test_offsets_end_with_the_text(self):
        choice = self.complete("<go:emoji>", logprobs=0, stop="ok").choices[0]
        self.assertEqual((choice.text, choice.logprobs.text_offset), (EMOJI, [0, 0, 0, 0, 1, 1]))

    def test_an_echo_goes_on_within_a_character(self):
        choice = self.complete([self.vocab["<go:emoji>"], *(self.vocab[scripted_model.LETTERS[byte]] for byte in b"\xf0\x9f")],
                               max_tokens=2, logprobs=0, echo=True).choices[0]
        self.assertEqual((choice.text, choice.logprobs.text_offset), (f"<go:emoji>{EMOJI}", [0, 10, 10, 10, 10]))

    def test_a_prompt_is_scored(self):
        ids = [self.vocab[token] for token in (BOS, "a", "b", "<go:emoji>", scripted_model.LETTERS[0xF0])]
        one_more = self.complete(ids, max_tokens=1, logprobs=1, echo=True).choices[0]
        text = "<s>ab<go:emoji>\ufffd"
        for stream in (False, True):
            with self.subTest(stream=stream):
                answer = self.complete(ids, max_tokens=0, logprobs=1, echo=True, stream=stream)
                chunks = list(answer) if stream else [answer]
                self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), text)
                self.assertEqual(chunks[-1].choices[0].finish_reason, "length")
                for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                    self.assertEqual([one for chunk in chunks for one in getattr(chunk.choices[0].logprobs, name)],
                                     getattr(one_more.logprobs, name)[:len(ids)])
                if not stream:
                    self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens), (len(ids), 0))
        scores = self.complete([ids, ids[:2]], max_tokens=0, logprobs=1, echo=True, n=2).choices
        self.assertEqual([len(choice.logprobs.tokens) for choice in scores], [len(ids)] * 2 + [2] * 2)
        self.assertIsNone(scores[0].logprobs.token_logprobs[0])
        self.assertTrue(all(math.isfinite(one) for one in scores[0].logprobs.token_logprobs[1:]))

    def test_no_tokens(self):
        self.assertEqual(self.complete("ab", max_tokens=0, echo=True).choices[0].text, "ab")
        choice = self.complete("ab", max_tokens=0, extra_body={"prompt_logprobs": 0}).choices[0]
        self.assertEqual((choice.text, len(choice.prompt_logprobs)), ("", 3))
        for options in ({}, {"logprobs": 1}):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.complete("ab", max_tokens=0, **options)
            self.assertEqual(caught.exception.param, "max_tokens")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete([99999], echo=True)
        self.assertEqual(caught.exception.param, "prompt")


if __name__ == "__main__":
    main()
