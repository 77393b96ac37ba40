#!/usr/bin/env python3
"""Chats that a template of gpt-oss's kind renders are what OpenAI's own library renders (make_harmony_golden.py in
tests/server/text/answer), in whatever form clients send them. Usage: harmony_test.py TEMPLATE_TOOL"""
import copy
import datetime
import json
import os
import pathlib
import subprocess
import sys
import unittest

import family_templates

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "answer/golden/harmony.json"


def as_clients_send(messages):
    """The same under other names and in other forms."""
    sent = copy.deepcopy(messages)
    for message in sent:
        if "thinking" in message:
            message["reasoning_content"] = message.pop("thinking")
        if "tool_calls" in message:
            message.setdefault("content", None)
        elif message["role"] == "assistant":
            message["tool_calls"] = []
        if message["content"]:
            message["content"] = [{"type": "text", "text": message["content"]}]
    return sent


class HarmonyTest(unittest.TestCase):
    def render(self, chat, messages, adapts):
        now = datetime.datetime.fromisoformat(chat["date"]).replace(hour=12, tzinfo=datetime.timezone.utc)
        given = {"messages": messages, "add_generation_prompt": True, "now": int(now.timestamp())}
        if "tools" in chat:
            given["tools"] = [{"type": "function", "function": tool} for tool in chat["tools"]]
        if "effort" in chat:
            given["kwargs"] = {"reasoning_effort": chat["effort"]}
        request = {"template": family_templates.TYPESCRIPT, "input": given, "adapts": adapts}
        answer = subprocess.run([TOOL], input=json.dumps(request), capture_output=True, text=True, check=True,
                                env={**os.environ, "TZ": "UTC"})
        return json.loads(answer.stdout).get("text", answer.stdout)

    def test_prompts_are_openais(self):
        chats = json.loads(GOLDEN.read_text(encoding="utf-8"))["prompts"]
        self.assertGreater(len(chats), 5)
        for chat in chats:
            with self.subTest(messages=chat["messages"]):
                self.assertEqual(self.render(chat, chat["messages"], adapts=False), chat["text"])
                self.assertEqual(self.render(chat, as_clients_send(chat["messages"]), adapts=True), chat["text"])


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    unittest.main()
