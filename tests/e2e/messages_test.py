"""Anthropic's messages through the official client: text, streams, system, stop sequences, tools, thinking, prefilled answers,
errors and keys. The model writes scripts (scripted_model.py); every event is checked against the types of the client."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import sys
import tempfile
import unittest

os.environ["NO_PROXY"] = "*"

from harness import Server, main, pb  # noqa: E402
import scripted_model  # noqa: E402

try:
    import anthropic
    import pydantic
    from anthropic.types import RawMessageStreamEvent
except ImportError as error:
    print(f"skipped: {error}; tools/test installs tests/requirements.txt")
    sys.exit(77)

ARGUMENTS = {"city": "Orléans", "days": [1, 2]}
SPECIAL = {"<think>": False, "</think>": False, "<tool_call>": True}
SCRIPTS = {
    "plain": ["It is sunny.\n"],
    "two": ['Let me look.\n\n<tool_call>\n{"name": "get_weather", "arguments": ' + json.dumps(ARGUMENTS, ensure_ascii=False)
            + '}\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'],
    "reasons": ["<think>", "\nWell, I look.\n", "</think>", "\n\nIt rains."],
    "after Z": [b"QZ"],
    "endless": [b"Q"],
    "cut": ['<tool_call>{"name": "get_weather", "arguments": {"city": "Llanfair' + "pwll" * 8],
}
TEMPLATE = """{%- if enable_thinking is defined %}thinking {{ enable_thinking }}{% endif %}
{%- if reasoning_effort is defined %}effort {{ reasoning_effort }}{% endif %}
""" + scripted_model.TOOLS_TEMPLATE
WEATHER = {"name": "get_weather", "description": "The weather", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array"}}}}
NOW = {"name": "now", "input_schema": {"type": "object"}}
EVENT = pydantic.TypeAdapter(RawMessageStreamEvent)
PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
# What a request has, and the field that is blamed.
REFUSED = (
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": "x"}, "max_tokens"),
    ({"temperature": -1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": "many"}, "top_k"),
    ({"stop_sequences": [""]}, "stop_sequences"),
    ({"stop_sequences": [1]}, "stop_sequences"),
    ({"messages": []}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [PICTURE]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]},
     "messages[0].content[0].tool_use_id"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [PICTURE]}]}]},
     "messages[0].content[0].content[0]"),
    ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": "x"}]}]},
     "messages[0].content[0].input"),
    ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "input": {}}]}]},
     "messages[0].content[0].name"),
    ({"system": 5}, "system"),
    ({"tools": {}}, "tools"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
    ({"tool_choice": {"type": "maybe"}}, "tool_choice.type"),
    ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "other"}}, "tool_choice"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({"tools": [{"name": "f", "input_schema": 5}]}, "tools[0].input_schema"),
    ({"tools": [{"name": "f", "description": 5}]}, "tools[0].description"),
    ({"tools": [WEATHER], "tool_choice": {"type": "any"},
      "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "The"}]}, "tool_choice"),
    ({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [
        {"type": "tool_use", "id": "1", "name": "f", "input": {}}]}]}, "messages"),
    ({"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": 5}]}]},
     "messages[0].content[0].thinking"),
    ({"stop": ["x"]}, "stop"),
    ({"n": 2}, "n"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"guided_json": {}}, "guided_json"),
    ({"output_config": 5}, "output_config"),
    ({"mcp_servers": "x"}, "mcp_servers"),
    ({"thinking": {"type": "foo"}}, "thinking.type"),
    ({"thinking": {}}, "thinking.type"),
    ({"output_config": {"format": {"type": "json_schema", "schema": 5}}}, "output_config.format.schema"),
    ({"output_format": {"type": "json_schema"}}, "output_format"),
    ({"container": "c"}, "container"),
    ({"mcp_servers": [{"type": "url", "url": "https://example.com", "name": "x"}]}, "mcp_servers"),
    ({"stream": "yes"}, "stream"),
    ({"model": 5}, "model"),
)


class MessagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        scripted_model.make(folder, SCRIPTS, SPECIAL, TEMPLATE, max_position_embeddings=1 << 17)
        cls.folder = folder
        cls.server = cls.enterClassContext(Server("--model", folder, "--served-model-name", "scripts", "--device", "cpu"))

    def setUp(self):
        self.client = self.client_of(self.server)

    def client_of(self, server, **options):
        client = anthropic.Anthropic(**{"base_url": f"http://{server.target}", "api_key": "none", "timeout": 120,
                                        "max_retries": 0, **options})
        self.addCleanup(client.close)
        return client

    def options(self, script, **options):
        return {"model": "scripts", "max_tokens": 200, "messages": [{"role": "user", "content": f"<go:{script}>"}],
                "extra_body": {"top_k": 1}, **options}

    def ask(self, script, **options):
        answer = self.client.messages.create(**self.options(script, **options))
        type(answer).model_validate(answer.model_dump(warnings="error"))
        return answer

    def post(self, body, path="/v1/messages"):
        """The status and body of an answer as it stands on the wire."""
        connection = http.client.HTTPConnection(self.server.target, timeout=120)
        self.addCleanup(connection.close)
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()

    def events(self, script, **options):
        """Those of a stream as they stand on the wire, each checked against its type."""
        options = self.options(script, stream=True, **options)
        options.update(options.pop("extra_body"))
        events = []
        for block in self.post(options)[1].strip().split("\n\n"):
            kind, data = block.split("\n")
            event = json.loads(data.removeprefix("data: "))
            self.assertEqual(kind, f"event: {event['type']}")
            EVENT.validate_python(event, strict=False)
            events.append(event)
        return events

    def prompt_of(self, **options):
        """What the template makes of a request: it is counted as the text of the same prompt."""
        options = {"model": "scripts", **options}
        return self.client.messages.count_tokens(**options).input_tokens

    def count(self, text):
        status, body = self.post({"prompt": text, "add_special_tokens": False}, "/tokenize")
        self.assertEqual(status, 200, body)
        return json.loads(body)["count"]

    def test_a_text(self):
        answer = self.ask("plain")
        self.assertEqual([(block.type, block.text) for block in answer.content], [("text", "It is sunny.\n")])
        self.assertEqual((answer.role, answer.type, answer.model), ("assistant", "message", "scripts"))
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("end_turn", None))
        self.assertTrue(answer.id.startswith("msg_"))
        self.assertEqual(answer._request_id, answer.id)
        usage = answer.usage
        self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens,
                         self.prompt_of(messages=self.options("plain")["messages"]))
        self.assertGreater(usage.output_tokens, 3)

    def test_the_last_token_and_stop_sequences(self):
        answer = self.ask("plain", max_tokens=2)
        self.assertEqual((answer.stop_reason, answer.usage.output_tokens), ("max_tokens", 2))
        answer = self.ask("plain", stop_sequences=["is", "never"])
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", "is"))
        self.assertEqual(answer.content[0].text, "It ")
        self.assertEqual(self.events("plain", stop_sequences=["is"])[-2]["delta"],
                         {"stop_reason": "stop_sequence", "stop_sequence": "is"})

    def test_calls_are_blocks(self):
        answer = self.ask("two", tools=[WEATHER, NOW])
        text, weather, now = answer.content
        self.assertEqual((text.type, text.text, answer.stop_reason), ("text", "Let me look.", "tool_use"))
        self.assertEqual((weather.type, weather.name, weather.input), ("tool_use", "get_weather", ARGUMENTS))
        self.assertEqual((now.name, now.input), ("now", {}))
        self.assertTrue(weather.id.startswith("toolu_"))
        self.assertNotEqual(weather.id, now.id)
        one = self.ask("two", tools=[WEATHER, NOW], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        self.assertEqual([block.type for block in one.content], ["text", "tool_use"])
        none = self.ask("two", tools=[WEATHER, NOW], tool_choice={"type": "none"})
        self.assertIn("<tool_call>", none.content[0].text)
        self.assertEqual(none.stop_reason, "end_turn")

    def test_a_call_that_must_be_made_begins_the_answer(self):
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            answer = self.ask("plain", tools=[WEATHER], tool_choice=choice, max_tokens=4)
            self.assertEqual([(block.type, block.name) for block in answer.content], [("tool_use", "get_weather")])

    def test_arguments_that_are_cut_off_are_an_object(self):
        answer = self.ask("cut", tools=[WEATHER], max_tokens=20)
        self.assertEqual((answer.stop_reason, answer.content[0].type), ("max_tokens", "tool_use"))
        self.assertIsInstance(answer.content[0].input, dict)

    def test_thinking_is_a_block(self):
        answer = self.ask("reasons")
        self.assertEqual([(block.type, getattr(block, "thinking", None) or block.text) for block in answer.content],
                         [("thinking", "Well, I look."), ("text", "It rains.")])
        types = [event["delta"]["type"] for event in self.events("reasons") if event["type"] == "content_block_delta"]
        self.assertEqual(list(dict.fromkeys(types)), ["thinking_delta", "text_delta"])

    def test_events_make_up_the_message(self):
        for script, options in (("plain", {}), ("two", {"tools": [WEATHER, NOW]}), ("reasons", {})):
            expected = self.ask(script, **options)
            events = self.events(script, **options)
            self.assertEqual([event["type"] for event in events[-2:]], ["message_delta", "message_stop"])
            self.assertEqual((events[0]["type"], events[0]["message"]["content"]), ("message_start", []))
            blocks, is_open = 0, False
            for event in events[1:-2]:
                self.assertEqual(event["index"], blocks)
                self.assertEqual(is_open, event["type"] != "content_block_start")
                is_open = event["type"] != "content_block_stop"
                blocks += not is_open
            self.assertFalse(is_open)
            with self.client.messages.stream(**self.options(script, **options)) as stream:
                final = stream.get_final_message()
            for one, other in zip(final.content, expected.content, strict=True):
                self.assertEqual(one.model_dump(exclude={"id", "parsed_output"}),
                                 other.model_dump(exclude={"id", "parsed_output"}))
            self.assertEqual((final.stop_reason, final.usage.output_tokens),
                             (expected.stop_reason, expected.usage.output_tokens))

    def test_what_the_template_sees(self):
        call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "rain"}]}
        messages = [
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                                         {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
                                              {"type": "text", "text": "c"}, call]},
            {"role": "user", "content": [result, {"type": "text", "text": "d"}]}]
        expected = ("[system]be\n[user]a\nb[assistant](hm)c<get_weather in Rome>[tool]rain for toolu_1 of get_weather"
                    "[user]d")
        for system in ("be\n", [{"type": "text", "text": "be\n", "cache_control": {"type": "ephemeral"}}]):
            self.assertEqual(self.prompt_of(system=system, messages=messages), self.count(expected))
        hello = [{"role": "user", "content": "x"}]
        for options, text in (({"thinking": {"type": "disabled"}}, "thinking False[user]x"),
                              ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking True[user]x"),
                              ({"output_config": {"effort": "low"}}, "effort low[user]x"),
                              ({"messages": [*hello, {"role": "assistant", "content": "The"}]}, "[user]x[assistant]The"),
                              # A message of nothing is one, and no answer goes on.
                              ({"messages": [*hello, {"role": "assistant", "content": "The"}, {"role": "user", "content": [
                                  {"type": "text", "text": None}]}]}, "[user]x[assistant]The[user]")):
            self.assertEqual(self.prompt_of(**{"messages": hello, **options}), self.count(text), options)
        tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
        self.assertEqual(self.prompt_of(messages=hello, tools=[NOW]), self.count(json.dumps([tool]) + "[user]x"))

    def test_an_answer_goes_on_with_its_beginning(self):
        messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "<go:plain>"}]
        self.assertEqual(self.ask("plain", messages=messages).content[0].text, "It is sunny.\n")

    def test_an_answer_can_be_sent_back(self):
        first = self.ask("two", tools=[WEATHER, NOW])
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": "sun"}
                   for block in first.content if block.type == "tool_use"]
        again = self.ask("plain", tools=[WEATHER, NOW], messages=[
            {"role": "user", "content": "x"}, {"role": "assistant", "content": [b.model_dump() for b in first.content]},
            {"role": "user", "content": [*results, {"type": "text", "text": "<go:plain>"}]}])
        self.assertEqual((again.content[0].text, again.stop_reason), ("It is sunny.\n", "end_turn"))

    def test_refusals_name_the_field(self):
        for options, field in REFUSED:
            body = {"model": "scripts", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], **options}
            status, text = self.post(body)
            error = json.loads(text)
            self.assertEqual((status, error["type"], error["error"]["type"]), (400, "error", "invalid_request_error"), body)
            self.assertTrue(error["error"]["message"].startswith(field + ": "), (field, error))

    def test_an_operator_ends_a_request_for_good(self):
        """The client does not send it again, as it does after a status of 500."""
        options = self.options("endless", max_tokens=100_000, extra_headers={"x-request-id": "doomed"})
        client = self.client_of(self.server, max_retries=2)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answer = pool.submit(client.messages.create, **options)
            self.server.wait_until_busy()
            self.assertTrue(self.server.admin.Abort(pb.AbortRequest(request_id="doomed")).found)
            with self.assertRaises(anthropic.APIStatusError) as caught:
                answer.result(timeout=60)
        self.assertEqual(caught.exception.status_code, 499)
        self.assertIn("operator", caught.exception.api_message)
        self.server.wait_until_idle()

    def test_errors_have_the_client_s_types(self):
        with self.assertRaises(anthropic.NotFoundError) as caught:
            self.ask("plain", model="other")
        self.assertEqual(caught.exception.type, "not_found_error")
        self.assertIn('serves "scripts"', caught.exception.api_message)
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.ask("plain", messages=[{"role": "user", "content": "x " * 100_000}])
        self.assertEqual(caught.exception.type, "invalid_request_error")

    def test_the_key_is_the_client_s(self):
        keys = pathlib.Path(self.folder, "keys.txt")
        keys.write_text('{"key": "key-of-alice-000001", "name": "alice"}\n')
        keys.chmod(0o600)
        with Server("--model", self.folder, "--served-model-name", "scripts", "--device", "cpu",
                    "--api-key-file", str(keys)) as server:
            answer = self.client_of(server, api_key="key-of-alice-000001").messages.create(**self.options("plain"))
            self.assertEqual(answer.stop_reason, "end_turn")
            with self.assertRaises(anthropic.AuthenticationError) as caught:
                self.client_of(server, api_key="key-of-nobody-00001").messages.create(**self.options("plain"))
            self.assertEqual(caught.exception.type, "authentication_error")


if __name__ == "__main__":
    main()
