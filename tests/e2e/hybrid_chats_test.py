"""Chats with tools of hybrid models' families, by the constructs of their chat templates and with no flag: reasoning that the
prompt opens, calls, and what comes back as history, over /v1/chat/completions and /v1/responses, whole and streamed."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

os.environ["NO_PROXY"] = "*"
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "server/text/chat"))

from harness import Server, main, packages
import hybrid_templates
import scripted_model

with packages():
    import openai

WEATHER = {"name": "get_weather", "description": "The weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}, "sure": {"type": "boolean"},
    "note": {"type": "string"}, "deep": {"type": "object"}}}}
NOW = {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}
WEATHER_ARGUMENTS = {"city": "Orléans", "days": [1, 2], "sure": True, "note": "two \"lines\"\n{of} it", "deep": {"a": [None]}}
CALLS = [("get_weather", WEATHER_ARGUMENTS), ("now", {})]


class FamilyChats:
    """What a family's test case has; the model writes REASONING, CONTENT and CALLS to whatever prompt."""

    TEMPLATE = ""
    SPECIAL: dict = {}
    SCRIPTS: dict = {}
    CALLS = CALLS
    REASONING, CONTENT = "I should\nlook.", "Let me look."
    THINKING = {"enable_thinking": True}

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        scripted_model.make(folder, cls.SCRIPTS, cls.SPECIAL, cls.TEMPLATE)
        cls.server = cls.enterClassContext(Server("--model", folder, "--served-model-name", "scripts", "--device", "cpu"))

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{self.server.target}/v1", api_key="none", timeout=120, max_retries=0)
        self.addCleanup(self.client.close)

    def chat(self, messages, thinking=True, **options):
        tools = [{"type": "function", "function": function} for function in (WEATHER, NOW)]
        return self.client.chat.completions.create(
            model="scripts", messages=messages, temperature=0, tools=tools,
            extra_body={"chat_template_kwargs": {"enable_thinking": thinking}}, **options)

    def prompt(self, messages, **kwargs):
        """What the model sees."""
        ids = self.client.post("../tokenize", body={"model": "scripts", "messages": messages, "chat_template_kwargs": kwargs},
                               cast_to=object)["tokens"]
        return self.client.post("../detokenize", body={"model": "scripts", "tokens": ids}, cast_to=object)["prompt"]

    def history(self):
        """A round of a tool as clients send it back."""
        answer = self.chat([{"role": "user", "content": "Weather?"}]).choices[0].message
        results = [{"role": "tool", "tool_call_id": call.id, "content": f"result {i}"}
                   for i, call in enumerate(answer.tool_calls)]
        sent = {"role": "assistant", "content": answer.content, "reasoning": answer.reasoning,
                "tool_calls": [call.model_dump() for call in answer.tool_calls]}
        return [{"role": "user", "content": "Weather?"}, sent, *results]

    def test_a_chat(self):
        choice = self.chat([{"role": "user", "content": "Weather?"}]).choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertEqual((choice.message.reasoning, choice.message.content), (self.REASONING, self.CONTENT))
        self.assertEqual([(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls],
                         self.CALLS)

    def test_a_streamed_chat(self):
        reasoning, content, calls = "", "", []
        for chunk in self.chat([{"role": "user", "content": "Weather?"}], stream=True):
            for delta in (choice.delta for choice in chunk.choices):
                reasoning += getattr(delta, "reasoning", None) or ""
                content += delta.content or ""
                for part in delta.tool_calls or []:
                    if part.function.name:
                        calls.append([part.function.name, ""])
                    calls[-1][1] += part.function.arguments or ""
        self.assertEqual((reasoning, content), (self.REASONING, self.CONTENT))
        self.assertEqual([(name, json.loads(arguments)) for name, arguments in calls], self.CALLS)

    def test_a_response(self):
        tools = [{"type": "function", **function} for function in (WEATHER, NOW)]
        options = {"model": "scripts", "input": "Weather?", "temperature": 0, "tools": tools,
                   "extra_body": {"chat_template_kwargs": self.THINKING}}
        with self.client.responses.stream(**{k: v for k, v in options.items() if k != "stream"}) as stream:
            stream.until_done()
            streamed = stream.get_final_response()
        for response in (self.client.responses.create(**options), streamed):
            self.assertEqual([item.type for item in response.output],
                             ["reasoning", "message", *["function_call"] * len(self.CALLS)])
            self.assertEqual(response.output[0].content[0].text, self.REASONING)
            self.assertEqual(response.output_text, self.CONTENT)
            self.assertEqual([(item.name, json.loads(item.arguments)) for item in response.output[2:]], self.CALLS)


class ParametersTest(FamilyChats, unittest.TestCase):
    """Qwen3.5's."""

    TEMPLATE = hybrid_templates.PARAMETERS
    SPECIAL = {"<think>": False, "</think>": False, "<tool_call>": False, "</tool_call>": False, "<|im_start|>": True,
               "<|im_end|>": True}
    SCRIPTS = {"after \n": [
        "I should\nlook.\n", "</think>", "\n\nLet me look.\n\n", "<tool_call>",
        "\n<function=get_weather>\n<parameter=city>\nOrléans\n</parameter>\n<parameter=days>\n[1, 2]\n</parameter>\n"
        "<parameter=sure>\nTrue\n</parameter>\n<parameter=note>\ntwo \"lines\"\n{of} it\n</parameter>\n"
        "<parameter=deep>\n{\"a\": [null]}\n</parameter>\n</function>\n", "</tool_call>",
        "\n<tool_call>\n<function=now>\n</function>\n</tool_call>"]}

    def test_what_the_model_sees(self):
        self.assertTrue(self.prompt([{"role": "user", "content": "a"}]).endswith("<|im_start|>assistant\n<think>\n"))
        self.assertTrue(self.prompt([{"role": "user", "content": "a"}], enable_thinking=False).endswith(
            "<|im_start|>assistant\n<think>\n\n</think>\n\n"))
        call = ("<tool_call>\n<function=get_weather>\n<parameter=city>\nOrléans\n</parameter>\n<parameter=days>\n[1, 2]\n"
                "</parameter>\n<parameter=sure>\nTrue\n</parameter>\n<parameter=note>\ntwo \"lines\"\n{of} it\n</parameter>\n"
                "<parameter=deep>\n{\"a\": [null]}\n</parameter>\n</function>\n</tool_call>\n"
                "<tool_call>\n<function=now>\n</function>\n</tool_call><|im_end|>\n")
        rest = ("<|im_start|>user\n<tool_response>\nresult 0\n</tool_response>\n<tool_response>\nresult 1\n</tool_response>"
                "<|im_end|>\n")
        seen = self.prompt(self.history())
        self.assertIn("<|im_start|>assistant\n<think>\nI should\nlook.\n</think>\n\nLet me look.\n\n" + call + rest, seen)
        # The reasoning before a later question goes, unless the template is asked to keep it.
        later = [*self.history(), {"role": "assistant", "content": "Warm."}, {"role": "user", "content": "And?"}]
        self.assertIn("<|im_start|>assistant\nLet me look.\n\n" + call + rest, self.prompt(later))
        self.assertIn("<think>\nI should\nlook.\n</think>\n\nLet me look.", self.prompt(later, keep_thinking=True))


class ChannelsTest(FamilyChats, unittest.TestCase):
    """Gemma 4's. Tags that stand twice in a script are spelled as text the second time."""

    TEMPLATE = hybrid_templates.CHANNELS
    SPECIAL = {tag: True for tag in ("<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>", "<|tool>", "<tool|>",
                                     "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>')}
    SCRIPTS = {"after \n": [
        "<|channel>", "thought\nI should\nlook.\n", "<channel|>", "Let me look.", "<|tool_call>",
        'call:get_weather{city:', '<|"|>', 'Orléans<|"|>,days:[1,2],deep:{a:[null]},note:<|"|>two "lines"\n{of} it<|"|>,sure:true}',
        "<tool_call|>", "<|tool_call>call:now{}<tool_call|>"]}
    CALL = ('<|tool_call>call:get_weather{city:<|"|>Orléans<|"|>,days:[1,2],deep:{a:[null]},'
            'note:<|"|>two "lines"\n{of} it<|"|>,sure:true}<tool_call|><|tool_call>call:now{}<tool_call|>')

    def test_what_the_model_sees(self):
        question = [{"role": "user", "content": "a"}]
        self.assertTrue(self.prompt(question).endswith("<|turn>model\n<|channel>thought\n<channel|>"))
        self.assertTrue(self.prompt(question, enable_thinking=True).endswith("<|turn>model\n"))
        round_of_tool = ("<|channel>thought\nI should\nlook.\n<channel|>" + self.CALL
                         + '<|tool_response>response:get_weather{value:<|"|>result 0<|"|>}<tool_response|>'
                         '<|tool_response>response:now{value:<|"|>result 1<|"|>}<tool_response|>')
        self.assertIn("<|turn>model\n" + round_of_tool, self.prompt(self.history()))
        self.assertTrue(self.prompt(self.history(), enable_thinking=True).endswith("<|channel>thought\n"))
        later = [*self.history(), {"role": "assistant", "content": "Warm."}, {"role": "user", "content": "And?"}]
        self.assertIn("<|turn>model\n" + self.CALL, self.prompt(later))

    def test_without_thinking(self):
        message = self.chat([{"role": "user", "content": "Weather?"}], thinking=False).choices[0].message
        self.assertEqual((getattr(message, "reasoning", None), message.content), (None, self.CONTENT))
        self.assertEqual([(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls], CALLS)


if __name__ == "__main__":
    main()
