"""Functions and reasoning in OpenAI's responses: items, their events, and what comes back as input. The model writes scripts
(scripted_model.py); every event is checked against the types of the official client."""

import http.client
import json
import os
import tempfile
import unittest

from harness import Server, main, packages
import scripted_model

os.environ["NO_PROXY"] = "*"
with packages():
    import openai
    import pydantic
    from openai.types.responses import ResponseStreamEvent

ARGUMENTS = '{"city": "Orléans", "days": [1, 2]}'
SPECIAL = {"<think>": False, "</think>": False, "<tool_call>": True}
SCRIPTS = {
    "plain": ["It is sunny.\n"],
    "two": ['Let me look.\n\n<tool_call>\n{"name": "get_weather", "arguments": ' + ARGUMENTS
            + '}\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'],
    "reasons": ["<think>", "\nWell, I look.\n", "</think>", '\n\n<tool_call>{"name": "mcp__clock__now", "arguments": {}}</tool_call>'],
    "cut": ['<tool_call>{"name": "get_weather", "arguments": {"city": "Llanfair' + "pwll" * 8],
}
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array"}}}}
NOW = {"type": "function", "name": "now"}
EVENT = pydantic.TypeAdapter(ResponseStreamEvent)


class ResponsesToolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        scripted_model.make(folder, SCRIPTS, SPECIAL, scripted_model.TOOLS_TEMPLATE)
        cls.server = cls.enterClassContext(Server("--model", folder, "--served-model-name", "scripts", "--device", "cpu"))

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{self.server.target}/v1", api_key="none", timeout=120, max_retries=0)
        self.addCleanup(self.client.close)

    def ask(self, script, **options):
        return self.client.responses.create(**{"model": "scripts", "input": f"<go:{script}>", "temperature": 0,
                                               "tools": [WEATHER, NOW], **options})

    def events(self, script, **options):
        """Those of a stream as they stand on the wire, each checked against its type."""
        connection = http.client.HTTPConnection(self.server.target, timeout=120)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/responses", json.dumps(
            {"model": "scripts", "input": f"<go:{script}>", "temperature": 0, "tools": [WEATHER, NOW], "stream": True,
             **options}), {"content-type": "application/json"})
        text = connection.getresponse().read().decode()
        events = []
        for number, block in enumerate(text.strip().split("\n\n")):
            kind, data = block.split("\n")
            event = json.loads(data.removeprefix("data: "))
            self.assertEqual((kind, event["sequence_number"]), (f"event: {event['type']}", number))
            EVENT.validate_python(event, strict=False)
            events.append(event)
        return events

    def check_events(self, events):
        """Items come one after the other, each from its beginning to its end, and make up the response."""
        self.assertEqual([event["type"] for event in events[:2]], ["response.created", "response.in_progress"])
        items, item, text, last = [], None, "", events[-1]
        for event in events[2:-1]:
            self.assertEqual(event["output_index"], len(items))
            kind = event["type"].removeprefix("response.")
            if kind == "output_item.added":
                self.assertIsNone(item)
                item, text = event["item"], ""
                self.assertEqual(item["status"], "in_progress")
            elif kind == "output_item.done":
                self.assertEqual(event["item"]["id"], item["id"])
                whole = event["item"].get("arguments", None)
                self.assertEqual(event["item"]["content"][0]["text"] if whole is None else whole, text)
                items.append(event["item"])
                item = None
            else:
                self.assertEqual(event["item_id"], item["id"])
                text += event.get("delta", "")
                if kind.endswith(("text.done", "arguments.done")):
                    self.assertEqual(event.get("text", event.get("arguments")), text)
        self.assertIsNone(item)
        self.assertEqual(last["response"]["output"], items)
        self.assertEqual(len({one["id"] for one in items}), len(items))
        return items

    def test_calls_are_items(self):
        answer = self.ask("two")
        type(answer).model_validate(answer.model_dump(warnings="error"))
        message, weather, now = answer.output
        self.assertEqual((message.type, answer.output_text, answer.status), ("message", "Let me look.", "completed"))
        self.assertEqual((weather.type, weather.name, weather.arguments, weather.status),
                         ("function_call", "get_weather", ARGUMENTS, "completed"))
        self.assertEqual((now.name, now.arguments), ("now", "{}"))
        self.assertTrue(weather.call_id.startswith("call_") and weather.id.startswith("fc_"))
        self.assertNotEqual(weather.call_id, now.call_id)
        self.assertEqual([tool.model_dump(exclude_unset=True) for tool in answer.tools], [WEATHER, NOW])

    def test_events_of_calls(self):
        events = self.events("two")
        items = self.check_events(events)
        self.assertEqual([(item["type"], item.get("arguments")) for item in items],
                         [("message", None), ("function_call", ARGUMENTS), ("function_call", "{}")])
        kinds = [event["type"].removeprefix("response.") for event in events if event.get("output_index") == 1]
        deltas = kinds.count("function_call_arguments.delta")
        self.assertGreater(deltas, 0)
        self.assertEqual(kinds, ["output_item.added", *["function_call_arguments.delta"] * deltas,
                                 "function_call_arguments.done", "output_item.done"])
        self.assertEqual(events[-1]["type"], "response.completed")

    def test_the_client_puts_a_stream_together(self):
        with self.client.responses.stream(model="scripts", input="<go:two>", temperature=0, tools=[WEATHER, NOW]) as stream:
            done = [event.arguments for event in stream if event.type == "response.function_call_arguments.done"]
            final = stream.get_final_response()
        self.assertEqual(done, [ARGUMENTS, "{}"])
        self.assertEqual(final.output[1].parsed_arguments, json.loads(ARGUMENTS))

    def test_reasoning_is_an_item_and_namespaces_come_back(self):
        clock = {"type": "namespace", "name": "mcp__clock", "description": "A clock", "tools": [NOW]}
        answer = self.ask("reasons", tools=[clock])
        reasoning, call = answer.output
        self.assertEqual((reasoning.type, reasoning.content[0].text, reasoning.summary), ("reasoning", "Well, I look.", []))
        self.assertEqual((call.name, call.namespace), ("now", "mcp__clock"))
        self.assertGreater(answer.usage.output_tokens_details.reasoning_tokens, 0)
        self.assertLess(answer.usage.output_tokens_details.reasoning_tokens, answer.usage.output_tokens)
        events = self.events("reasons", tools=[clock])
        self.assertEqual([item["type"] for item in self.check_events(events)], ["reasoning", "function_call"])
        kinds = [event["type"].removeprefix("response.") for event in events if event.get("output_index") == 0]
        self.assertEqual(list(dict.fromkeys(kinds)), ["output_item.added", "content_part.added", "reasoning_text.delta",
                                                      "reasoning_text.done", "content_part.done", "output_item.done"])

    def test_one_call_at_a_time(self):
        self.assertEqual([item.type for item in self.ask("two", parallel_tool_calls=False).output],
                         ["message", "function_call"])

    def test_a_call_that_is_cut_off(self):
        answer = self.ask("cut", max_output_tokens=self.ask("cut").usage.output_tokens - 2)
        [call] = answer.output
        self.assertEqual((answer.status, call.type, call.status), ("incomplete", "function_call", "incomplete"))
        self.check_events(self.events("cut", max_output_tokens=3))

    def test_no_tool_may_be_called(self):
        answer = self.ask("two", tool_choice="none")
        self.assertEqual([item.type for item in answer.output], ["message"])
        self.assertIn("<tool_call>", answer.output_text.replace("\n", ""))

    def prompt(self, **body):
        """What the model sees: the answer's prompt has as many tokens."""
        return self.client.responses.input_tokens.count(model="scripts", **body).input_tokens

    def chat_prompt(self, text):
        return self.client.post("../tokenize", body={"model": "scripts", "prompt": text}, cast_to=object)["count"]

    def test_calls_and_their_outputs_as_input(self):
        items = [{"role": "user", "content": "Hi"},
                 {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None,
                  "content": [{"type": "reasoning_text", "text": "Hm."}]},
                 {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well"}]},
                 {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Rome"}'},
                 {"type": "function_call", "call_id": "c2", "name": "now", "namespace": "x", "arguments": '{"city": 1}'},
                 {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
                 {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "noon"}]},
                 {"type": "function_call", "call_id": "c3", "name": "now", "arguments": "oops"}]
        seen = ("[user]Hi[assistant](Hm.)Well<get_weather in Rome><x__now in 1>[tool]sunny for c1 of get_weather"
                "[tool]noon for c2 of x__now[assistant]<now in >")
        self.assertEqual(self.prompt(input=items), self.chat_prompt(seen))
        tools = json.dumps([{"type": "function", "function": {"name": "now"}}])
        self.assertEqual(self.prompt(input="Hi", tools=[NOW]), self.chat_prompt(f"{tools}[user]Hi"))
        answer = self.ask("plain", input=[*items, {"role": "user", "content": "<go:plain>"}])
        self.assertEqual(answer.output_text, "It is sunny.\n")

    def test_an_answer_can_be_sent_back(self):
        first = self.ask("reasons", tools=[{"type": "namespace", "name": "mcp__clock", "description": "", "tools": [NOW]}])
        again = [*[item.model_dump() for item in first.output],
                 {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "noon"},
                 {"role": "user", "content": "<go:plain>"}]
        self.assertEqual(self.ask("plain", input=again).output_text, "It is sunny.\n")

    def test_what_codex_sends(self):
        """As Codex asks a provider of another name: tools that run at OpenAI are listed, too."""
        shell = {"type": "function", "name": "exec_command", "description": "Runs a command", "strict": False,
                 "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"],
                                "additionalProperties": False}}
        body = {"instructions": "You are a coding agent.", "tool_choice": "auto", "parallel_tool_calls": False,
                "reasoning": None, "store": False, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "thread-1",
                "client_metadata": {"x-codex-installation-id": "1"},
                "tools": [shell, {"type": "web_search", "external_web_access": False}, {"type": "tool_search"},
                          WEATHER],
                "input": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules"}]},
                          {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<go:two>"}]}]}
        events = self.events("two", **body)
        self.assertEqual([item["type"] for item in self.check_events(events)], ["message", "function_call"])
        self.assertEqual([tool["name"] for tool in events[-1]["response"]["tools"]], ["exec_command", "get_weather"])


if __name__ == "__main__":
    main()
