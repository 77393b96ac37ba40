"""A call that the request forces: what the model's prompt ends with in each way that models write calls, and what becomes of
the answer, in chats and in responses. The model writes scripts (scripted_model.py)."""

import json
import os
import tempfile
import unittest

from harness import Server, main, packages
import scripted_model

os.environ["NO_PROXY"] = "*"
with packages():
    import openai

ARGUMENTS = '{"city": "Rome", "days": [1, 2]}'
SPECIAL = {"<think>": False, "</think>": False, "<tool_call>": True, "[TOOL_CALLS]": True, "[ARGS]": True,
           "<|tool_call>": True, "<tool_call|>": True, '<|"|>': True, "<|channel>": True, "<channel|>": True,
           **{tag: True for tag in ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>")}}
TEMPLATE = """{%- if tools %}tools{% endif %}
{%- for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}[answer]
{%- if enable_thinking is not defined or enable_thinking %}<think>
{% elif always_thinks %}<think>
{% endif %}{#- </think> """
WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "array"}}}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


class FormatCase:
    """One way to write calls; each letter after which the model goes on has its script."""
    TAGS = ""
    FLAGS = ()
    SCRIPTS = {}
    NAMED_END = ""  # of a prompt
    ANY_END = ""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        scripted_model.make(folder, cls.SCRIPTS, SPECIAL, TEMPLATE + cls.TAGS + " #}")
        cls.server = cls.enterClassContext(Server("--model", folder, "--served-model-name", "scripts", "--device", "cpu",
                                                  *cls.FLAGS))

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{self.server.target}/v1", api_key="none", timeout=120, max_retries=0)
        self.addCleanup(self.client.close)

    def ask(self, choice, tools=1, **options):
        tools = [{"type": "function", "function": WEATHER}, {"type": "function", "function": {"name": "now"}}][:tools]
        return self.client.chat.completions.create(
            model="scripts", messages=[{"role": "user", "content": "Hi"}], temperature=0, tools=tools, tool_choice=choice,
            **options)

    def prompt(self, answer):
        return self.client.post("../detokenize", cast_to=object, body={
            "model": "scripts", "tokens": answer.prompt_token_ids})["prompt"]

    def check(self, choice, finish, end, **options):
        answer = self.ask(choice, extra_body={"return_token_ids": True}, **options)
        self.assertEqual(self.prompt(answer), f"tools[user]Hi[answer]{end}")
        message = answer.choices[0].message
        [call] = message.tool_calls
        self.assertEqual((message.content, call.function.name, json.loads(call.function.arguments)),
                         (None, "get_weather", json.loads(ARGUMENTS)))
        self.assertEqual(answer.choices[0].finish_reason, finish)
        name, arguments, last = "", "", None
        for chunk in self.ask(choice, stream=True, **options):
            [choice_of_chunk] = chunk.choices
            self.assertFalse(choice_of_chunk.delta.content)
            for part in choice_of_chunk.delta.tool_calls or []:
                self.assertEqual(part.index, 0)
                name += part.function.name or ""
                arguments += part.function.arguments or ""
            last = choice_of_chunk.finish_reason or last
        self.assertEqual((name, json.loads(arguments), last), ("get_weather", json.loads(ARGUMENTS), finish))

    def test_a_function_that_is_named(self):
        self.check(NAMED, "stop", self.NAMED_END)
        self.check(NAMED, "stop", self.NAMED_END, tools=2)

    def test_the_only_one_is_required(self):
        self.check("required", "tool_calls", self.NAMED_END)

    def test_a_response(self):
        tools = [{"type": "function", "strict": None, **WEATHER}]
        for choice in ({"type": "function", "name": "get_weather"}, "required"):
            answer = self.client.responses.create(model="scripts", input="Hi", tools=tools, tool_choice=choice,
                                                  temperature=0)
            [item] = answer.output
            self.assertEqual((item.type, item.name, json.loads(item.arguments), item.status, answer.status),
                             ("function_call", "get_weather", json.loads(ARGUMENTS), "completed", "completed"))
            self.assertEqual(answer.model_dump()["tool_choice"], choice)


class AnyCase(FormatCase):
    """Another model of the same format: it is to choose the function itself."""

    def test_one_of_several_is_required(self):
        self.check("required", "tool_calls", self.ANY_END, tools=2)

    test_a_function_that_is_named = test_the_only_one_is_required = test_a_response = None


class HermesTest(FormatCase, unittest.TestCase):
    TAGS = "<tool_call>"
    SCRIPTS = {"after :": [f" {ARGUMENTS}}}\n</tool_call>"]}
    NAMED_END = '<tool_call>\n{"name": "get_weather", "arguments":'

    def test_reasoning_that_the_template_leaves_open_is_closed(self):
        end = "<think>\n\n</think>\n\n" + self.NAMED_END
        for kwargs in ({"enable_thinking": True}, {"enable_thinking": False, "always_thinks": True}):
            answer = self.ask(NAMED, extra_body={"return_token_ids": True, "chat_template_kwargs": kwargs})
            self.assertEqual(self.prompt(answer), f"tools[user]Hi[answer]{end}")
            message = answer.choices[0].message
            self.assertEqual((message.content, message.reasoning, len(message.tool_calls)), (None, None, 1))


class AnyHermesTest(AnyCase, unittest.TestCase):
    TAGS = "<tool_call>"
    SCRIPTS = {"after :": [f' "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>']}
    ANY_END = '<tool_call>\n{"name":'


class LlamaTest(FormatCase, unittest.TestCase):
    FLAGS = ("--tool-call-parser", "llama3_json")
    SCRIPTS = {"after :": [f" {ARGUMENTS}}}"]}
    NAMED_END = '{"name": "get_weather", "parameters":'


class AnyLlamaTest(AnyCase, unittest.TestCase):
    FLAGS = ("--tool-call-parser", "llama3_json")
    SCRIPTS = {"after :": [f' "get_weather", "parameters": {ARGUMENTS}}}']}
    ANY_END = '{"name":'


class MistralTest(FormatCase, unittest.TestCase):
    TAGS = "[TOOL_CALLS] [ARGS]"
    SCRIPTS = {"after [ARGS]": [ARGUMENTS]}
    NAMED_END = "[TOOL_CALLS]get_weather[ARGS]"


class MistralListTest(FormatCase, unittest.TestCase):
    TAGS = '"[TOOL_CALLS] ["'
    SCRIPTS = {"after :": [f" {ARGUMENTS}}}]"]}
    NAMED_END = '[TOOL_CALLS] [{"name": "get_weather", "arguments":'


class AnyMistralTest(AnyCase, unittest.TestCase):
    TAGS = "[TOOL_CALLS] [ARGS]"
    SCRIPTS = {"after [TOOL_CALLS]": ["get_weather", "[ARGS]", ARGUMENTS]}
    ANY_END = "[TOOL_CALLS]"


PARAMETERS = "<parameter=city>\nRome\n</parameter>\n<parameter=days>\n[1, 2]\n</parameter>\n</function>\n</tool_call>"


class Qwen3CoderTest(FormatCase, unittest.TestCase):
    TAGS = "<tool_call> <function="
    SCRIPTS = {"after \n": [PARAMETERS]}
    NAMED_END = "<tool_call>\n<function=get_weather>\n"


class AnyQwen3CoderTest(AnyCase, unittest.TestCase):
    TAGS = "<tool_call> <function="
    SCRIPTS = {"after =": [f"get_weather>\n{PARAMETERS}"]}
    ANY_END = "<tool_call>\n<function="


GEMMA = ["city:", '<|"|>', 'Rome<|"|>,days:[1,2]}', "<tool_call|>"]


class GemmaTest(FormatCase, unittest.TestCase):
    TAGS = "<|tool_call> <tool_call|> #}{% if opens_channel %}<|channel>thought\n{% endif %}{# "
    FLAGS = ("--reasoning-parser", "gemma4")
    SCRIPTS = {"after {": GEMMA}
    NAMED_END = "<|tool_call>call:get_weather{"

    def test_reasoning_that_the_template_leaves_open_is_closed(self):
        answer = self.ask(NAMED, extra_body={"return_token_ids": True, "chat_template_kwargs": {"opens_channel": True}})
        self.assertEqual(self.prompt(answer),
                         f"tools[user]Hi[answer]<|channel>thought\n\n<channel|>\n\n{self.NAMED_END}")
        self.assertEqual(len(answer.choices[0].message.tool_calls), 1)


class AnyGemmaTest(AnyCase, unittest.TestCase):
    TAGS = "<|tool_call> <tool_call|>"
    SCRIPTS = {"after :": ["get_weather{", *GEMMA]}
    ANY_END = "<|tool_call>call:"


class HarmonyTest(FormatCase, unittest.TestCase):
    TAGS = "<|channel|>analysis<|message|>"
    SCRIPTS = {"after <|message|>": [ARGUMENTS, "<|call|>"]}
    NAMED_END = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"


class AnyHarmonyTest(AnyCase, unittest.TestCase):
    TAGS = "<|channel|>analysis<|message|>"
    SCRIPTS = {"after s": [".get_weather ", "<|constrain|>", "json", "<|message|>", ARGUMENTS, "<|call|>"]}
    ANY_END = "<|channel|>commentary to=functions"


if __name__ == "__main__":
    main()
