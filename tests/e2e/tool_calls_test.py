"""Calls of tools and reasoning, as the official openai client gets them from a model that writes scripts
(scripted_model.py): whole and streamed, in each way that models write them."""

import json
import os
import tempfile
import unittest

from harness import Server, comes_in_parts, main, packages
import scripted_model

os.environ["NO_PROXY"] = "*"
with packages():
    import openai

ARGUMENTS = '{"city": "Orléans", "days": [1, 2]}'
SPECIAL = {"<think>": False, "</think>": False, "<tool_call>": True, "[TOOL_CALLS]": True, "[ARGS]": True,
           "<|python_tag|>": True, "<|other|>": True}
SCRIPTS = {
    "plain": ["It is <b>sunny</b>.\n"],
    "two": ['Let me look.\n\n<tool_call>\n{"name": "get_weather", "arguments": ' + ARGUMENTS
            + '}\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'],
    "special": ["<tool_call>", '\n{"arguments": {"city": "Rome"}, "name": "get_weather"}\n</tool_call>', "<|other|>"],
    "broken": ['<tool_call>{"nam": "now"}</tool_call>'],
    "cut": ['<tool_call>{"name": "get_weather", "arguments": {"city": "Llanfair' + "pwll" * 8],
    "reasons": ["<think>", "\nWell, 2.\n", "</think>", "\n\nTwo."],
    "llama": ['{"type": "function", "name": "get_weather", "parameters": ' + ARGUMENTS + "}"],
    "mistral": ["[TOOL_CALLS]", "get_weather", "[ARGS]", ARGUMENTS],
    "coder": ["<tool_call><function=get_weather>\n<parameter=city>\nOrléans\n</parameter>\n<parameter=days>\n[1, 2]\n"
              "</parameter>\n</function></tool_call>"],
    "sloppy": ["<tool_call><function=get_weather>\n<parameter=city>\nRome\n<parameter=days>\n[1, 2,]\n</function>"],
}
# Shows what it is given; its last words choose the script.
TEMPLATE = """{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}[{{ message.role }}]
{%- if message.reasoning_content %}({{ message.reasoning_content }}){% endif %}
{%- for call in message.tool_calls or [] %}{{ call.function.name }} in {{ call.function.arguments.city }}{% endfor %}
{{- message.content }}{% endfor %}
{%- if open_think %}{{ '<think>' }}{% endif %}
{#- <tool_call> </think> #}"""
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array"}}}}},
    {"type": "function", "function": {"name": "now"}},
]


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    scripted_model.make(folder.name, SCRIPTS, SPECIAL, TEMPLATE)
    ScriptTest.MODEL = folder.name


class ScriptTest(unittest.TestCase):
    MODEL = ""
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--model", cls.MODEL, "--served-model-name", "scripts", "--device", "cpu",
                                                  *cls.FLAGS))

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{self.server.target}/v1", api_key="none", timeout=120, max_retries=0)
        self.addCleanup(self.client.close)

    def ask(self, script, tools=TOOLS, messages=(), **options):
        return self.client.chat.completions.create(
            model="scripts", messages=[*messages, {"role": "user", "content": f"<go:{script}>"}], temperature=0,
            **({"tools": tools} if tools else {}), **options)

    def stream(self, script, **options):
        """A streamed answer, put together."""
        chunks = list(self.ask(script, stream=True, **options))
        text = {"content": "", "reasoning": "", "reasoning_content": ""}
        calls, finish = [], None
        for chunk in chunks:
            for choice in chunk.choices:
                for name in text:
                    text[name] += getattr(choice.delta, name, None) or ""
                for part in choice.delta.tool_calls or []:
                    if part.index == len(calls):
                        self.assertEqual(part.type, "function")
                        calls.append([part.id, part.function.name, ""])
                    else:
                        self.assertEqual((part.id, part.function.name, part.index), (None, None, len(calls) - 1))
                    calls[-1][2] += part.function.arguments
                finish = choice.finish_reason or finish
        return text, calls, finish, chunks

    def check(self, script, content, calls, finish="tool_calls", reasoning="", **options):
        """What it says is the same whole and streamed."""
        choice = self.ask(script, **options).choices[0]
        message = choice.message
        self.assertEqual(message.content, content)
        self.assertEqual([(call.function.name, call.function.arguments) for call in message.tool_calls or []], calls)
        self.assertEqual(choice.finish_reason, finish)
        self.assertEqual(getattr(message, "reasoning", None) or "", reasoning)
        text, parts, streamed_finish, chunks = self.stream(script, **options)
        self.assertEqual(text, {"content": content or "", "reasoning": reasoning, "reasoning_content": reasoning})
        self.assertEqual([(name, arguments) for _, name, arguments in parts], calls)
        self.assertEqual(streamed_finish, finish)
        ids = [call[0] for call in parts] + [call.id for call in message.tool_calls or []]
        self.assertEqual(len(set(ids)), len(ids))
        return chunks, ids


class HermesTest(ScriptTest):
    """Found by the template and the tokenizer: no flag says it."""

    CALLS = [("get_weather", ARGUMENTS), ("now", "{}")]

    def test_calls(self):
        _, ids = self.check("two", "Let me look.", self.CALLS)
        self.assertTrue(all(call.startswith("call_") for call in ids), ids)

        def num_parts():
            return sum(len(chunk.choices[0].delta.tool_calls or []) for chunk in self.stream("two")[3])

        self.assertTrue(comes_in_parts(num_parts, 6))

    def test_the_client_puts_a_stream_together(self):
        tools = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
        with self.client.chat.completions.stream(model="scripts", temperature=0, tools=tools, messages=[
                {"role": "user", "content": "<go:two>"}]) as stream:
            finished = [(event.name, event.arguments) for event in stream
                        if event.type == "tool_calls.function.arguments.done"]
            message = stream.get_final_completion().choices[0].message
        self.assertEqual(finished, self.CALLS)
        self.assertEqual([call.function.parsed_arguments for call in message.tool_calls],
                         [json.loads(arguments) for _, arguments in self.CALLS])

    def test_tags_that_are_special_tokens_are_found_and_others_left_out(self):
        self.check("special", None, [("get_weather", '{"city": "Rome"}')])
        self.assertEqual(self.ask("special", tools=None).choices[0].message.content,
                         '\n{"arguments": {"city": "Rome"}, "name": "get_weather"}\n</tool_call>')

    def test_what_is_no_call_is_content(self):
        self.check("plain", SCRIPTS["plain"][0], [], finish="stop")
        self.check("broken", SCRIPTS["broken"][0], [], finish="stop")
        self.check("two", SCRIPTS["two"][0], [], finish="stop", tools=None)
        self.check("two", SCRIPTS["two"][0], [], finish="stop", tool_choice="none")

    def test_an_answer_that_is_cut_off(self):
        usage = self.ask("cut").usage
        short = self.ask("cut", max_tokens=usage.completion_tokens - 2).choices[0]
        self.assertEqual(short.finish_reason, "length")
        [call] = short.message.tool_calls
        self.assertTrue(json.loads(call.function.arguments)["city"].startswith("Llanfairpwll"))

    def test_one_call_at_a_time(self):
        self.check("two", "Let me look.", self.CALLS[:1], parallel_tool_calls=False)

    def test_continuations_usage_logprobs_and_stop(self):
        answer = self.ask("two", n=3, logprobs=True)
        self.assertEqual({len(choice.message.tool_calls) for choice in answer.choices}, {2})
        tokens = [token.token for token in answer.choices[0].logprobs.content]
        self.assertEqual(answer.usage.completion_tokens, 3 * len(tokens))
        chunks = list(self.ask("two", n=3, logprobs=True, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].usage, answer.usage)
        for index in range(3):
            choices = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
            self.assertEqual(sum(bool(part.id) for choice in choices for part in choice.delta.tool_calls or []), 2)
            self.assertEqual([token.token for choice in choices if choice.logprobs for token in choice.logprobs.content],
                             tokens)
        # The stop string ends the second call before it is one.
        self.check("two", "Let me look.<tool_call>\n", self.CALLS[:1], stop=['{"name": "now"'])

    def test_reasoning(self):
        self.check("reasons", "Two.", [], finish="stop", reasoning="Well, 2.", tools=None)
        self.check("reasons", "Two.", [], finish="stop", tools=None, extra_body={"include_reasoning": False})
        # The prompt has the tag, so the answer begins within reasoning.
        kwargs = {"chat_template_kwargs": {"open_think": True}}
        self.check("plain", "Two.", [], finish="stop", reasoning="Well, 2.", extra_body=kwargs)
        # A message that the answer goes on with.
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "<think>Hm.<go:plain>"}]
        answer = self.client.chat.completions.create(
            model="scripts", messages=messages, temperature=0,
            extra_body={"continue_final_message": True, "add_generation_prompt": False})
        self.assertIsNone(answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].message.reasoning, SCRIPTS["plain"][0])

    def prompt(self, **body):
        """What the model sees."""
        ids = self.client.post("../tokenize", body={"model": "scripts", **body}, cast_to=object)["tokens"]
        return self.client.post("../detokenize", body={"model": "scripts", "tokens": ids}, cast_to=object)["prompt"]

    def test_what_the_template_sees(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
        odd = {"id": "call_2", "type": "function", "function": {"name": "get_weather", "arguments": "{oops"}}
        messages = [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "Well."},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sunny"}]},
        ]
        self.assertEqual(self.prompt(messages=messages), "[user]Hello[assistant](Well.)get_weather in Orléans[tool]sunny")
        seen = self.prompt(messages=messages[:1], tools=TOOLS)
        tools, _, rest = seen.partition("[user]")
        self.assertEqual((json.loads(tools), rest), (TOOLS, "Hello"))
        self.assertEqual(self.prompt(messages=messages[:1], tools=TOOLS, tool_choice="none"), "[user]Hello")
        self.assertEqual(self.prompt(messages=[{"role": "assistant", "content": "", "tool_calls": [odd]}]),
                         "[assistant]get_weather in ")

    def test_refused_requests_name_the_field(self):
        tool = TOOLS[1]
        for options, field in (
                ({"tools": 5}, "tools"),
                ({"tools": ["now"]}, "tools[0].type"),
                ({"tools": [tool, {"type": "custom", "custom": {"name": "x"}}]}, "tools[1].type"),
                ({"tools": [{"type": "function"}]}, "tools[0].function"),
                ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
                ({"tools": [{"type": "function", "function": {"name": "x" * 257}}]}, "tools[0].function.name"),
                ({"tools": [{"type": "function", "function": {"name": "x", "parameters": []}}]},
                 "tools[0].function.parameters"),
                ({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "then"}}}, "tool_choice"),
                ({"tools": [tool], "tool_choice": {"type": "function", "function": {}}}, "tool_choice"),
                ({"tools": [tool], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice"),
                ({"tool_choice": "required"}, "tool_choice"),
                ({"tools": [tool], "tool_choice": "required", "add_generation_prompt": False}, "tool_choice"),
                ({"tools": [{"type": "function", "function": {"name": "<|im_end|>"}}], "tool_choice": "required"},
                 "tool_choice"),
                ({"tools": [tool], "tool_choice": "perhaps"}, "tool_choice"),
                ({"tools": [tool], "parallel_tool_calls": 1}, "parallel_tool_calls"),
                ({"functions": []}, "functions"),
        ):
            with self.subTest(field=field, options=options), self.assertRaises(openai.BadRequestError) as caught:
                self.ask("plain", tools=None, extra_body=options)
            self.assertEqual(caught.exception.param, field)


class LlamaTest(ScriptTest):
    FLAGS = ("--tool-call-parser", "llama3_json", "--reasoning-parser", "none")

    def test_calls(self):
        self.check("llama", None, [("get_weather", ARGUMENTS)])
        self.check("llama", SCRIPTS["llama"][0], [], finish="stop", tools=TOOLS[1:])
        self.check("reasons", "<think>\nWell, 2.\n</think>\n\nTwo.", [], finish="stop")


class MistralTest(ScriptTest):
    FLAGS = ("--tool-call-parser", "mistral")

    def test_calls(self):
        _, ids = self.check("mistral", None, [("get_weather", ARGUMENTS)])
        self.assertEqual({len(call) for call in ids}, {9})


class Qwen3CoderTest(ScriptTest):
    FLAGS = ("--tool-call-parser", "qwen3_coder")

    def test_calls(self):
        self.check("coder", None, [("get_weather", ARGUMENTS)])
        self.check("sloppy", None, [("get_weather", '{"city": "Rome", "days": [1, 2]}')])


class DeepSeekTest(ScriptTest):
    FLAGS = ("--reasoning-parser", "deepseek_r1")

    def test_answers_begin_with_reasoning(self):
        self.check("plain", None, [], finish="stop", reasoning=SCRIPTS["plain"][0])
        self.check("reasons", "Two.", [], finish="stop", reasoning="Well, 2.")


class NoParserTest(ScriptTest):
    FLAGS = ("--tool-call-parser", "none")

    def test_tools_are_refused(self):
        with self.assertRaisesRegex(openai.BadRequestError, "--tool-call-parser"):
            self.ask("two")
        self.check("two", SCRIPTS["two"][0], [], finish="stop", tool_choice="none")


if __name__ == "__main__":
    main()
