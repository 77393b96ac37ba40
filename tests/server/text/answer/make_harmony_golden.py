#!/usr/bin/env python3
"""Writes golden/harmony.json: what OpenAI's own library makes of harmony, the format of gpt-oss. `prompts`: chats as
it renders them. `answers`: the text of random messages, and the messages as it parses them from the text's tokens.

Needs `pip install openai-harmony==0.0.8` and its vocabulary, o200k_base.tiktoken, which stands in the wheel of litellm
under the name below (`pip download litellm --no-deps`). Usage: make_harmony_golden.py LITELLM_WHEEL
"""
import json
import os
import pathlib
import random
import sys
import tempfile
import zipfile

import openai_harmony as harmony

VOCABULARY = "litellm/litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790"
OUTPUT = pathlib.Path(__file__).with_name("golden") / "harmony.json"
DATE = "2025-07-05"
NUM_ANSWERS = 40

TOOLS = [
    {"name": "get_weather", "description": "Weather at a place", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "The \"city\" — é"}, "unit": {"type": "string", "enum": ["C", "F"]},
            "days": {"type": "array", "items": {"type": "integer"}}, "sure": {"type": "boolean"}}}},
    {"name": "now", "description": "The time"},
]
CALL = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Rome", "days": [1, 2]}}}
ROUND = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "thinking": "I look.\n", "tool_calls": [CALL]},
         {"role": "tool", "content": "{\"sky\": \"21 °C\"}"}]
CHATS = [
    {"messages": [{"role": "user", "content": "Hi"}]},
    {"messages": [{"role": "user", "content": " <b>Hi</b> \n"}], "effort": "low"},
    {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "thinking": "no", "content": "b"},
                  {"role": "user", "content": "c"}], "effort": "high"},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], "tools": TOOLS},
    {"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}], "tools": TOOLS[1:]},
    {"messages": ROUND, "tools": TOOLS},
    {"messages": [*ROUND, {"role": "assistant", "tool_calls": [{"function": {"name": "now", "arguments": {}}}]},
                  {"role": "tool", "content": "noon"}], "tools": TOOLS, "effort": "medium"},
    {"messages": [*ROUND, {"role": "assistant", "thinking": "So.", "content": "Warm."}, {"role": "user", "content": "And?"}],
     "tools": TOOLS},
]


def conversation(chat):
    """The chat as messages of the library."""
    of_role, efforts = harmony.Message.from_role_and_content, harmony.ReasoningEffort
    system = harmony.SystemContent.new().with_conversation_start_date(DATE).with_reasoning_effort(
        efforts[chat.get("effort", "medium").upper()])
    messages, developer = [of_role(harmony.Role.SYSTEM, system)], harmony.DeveloperContent.new()
    first, *rest = chat["messages"]
    if first["role"] == "user":
        rest = chat["messages"]
    else:
        developer = developer.with_instructions(first["content"])
    if "tools" in chat:
        developer = developer.with_function_tools([harmony.ToolDescription.new(
            tool["name"], tool["description"], parameters=tool.get("parameters")) for tool in chat["tools"]])
        messages.append(of_role(harmony.Role.DEVELOPER, developer))
    function = ""
    for message in rest:
        if message["role"] == "user":
            messages.append(of_role(harmony.Role.USER, message["content"]))
        elif message["role"] == "tool":
            author = harmony.Author.new(harmony.Role.TOOL, function)
            messages.append(harmony.Message.from_author_and_content(author, json.dumps(message["content"], ensure_ascii=False))
                            .with_channel("commentary").with_recipient("assistant"))
        else:
            for text, channel in ((message.get("thinking"), "analysis"), (message.get("content"), "final")):
                if text:
                    messages.append(of_role(harmony.Role.ASSISTANT, text).with_channel(channel))
            for call in message.get("tool_calls", []):
                function = "functions." + call["function"]["name"]
                messages.append(of_role(harmony.Role.ASSISTANT, json.dumps(call["function"]["arguments"]))
                                .with_channel("commentary").with_recipient(function).with_content_type("json"))
    return harmony.Conversation.from_messages(messages)


def random_message(rng):
    texts = ["Well, 2.", " \n", "a\n\nb ", "<b>", "日本 é🚀", "{\"a\": 1}", "to=functions.now", "<| |>", "final", "x" * 40]
    text = "".join(rng.choice(texts) for _ in range(rng.randint(1, 4)))
    kind = rng.choice(["analysis", "commentary", "final", "call", "call", "other"])
    if kind == "call":
        arguments = rng.choice([{}, {"city": "Orléans", "days": [1, None, {"a": True}]}, {"text": text}])
        return (harmony.Message.from_role_and_content(harmony.Role.ASSISTANT, json.dumps(arguments, ensure_ascii=rng.random() < 0.5))
                .with_channel(rng.choice(["commentary", "commentary", "analysis"]))
                .with_recipient(rng.choice(["functions.get_weather", "functions.now"]))
                .with_content_type(rng.choice(["json", "<|constrain|>json"])))
    message = harmony.Message.from_role_and_content(harmony.Role.ASSISTANT, text)
    if kind == "other":
        return message.with_channel("analysis").with_recipient("python").with_content_type("code")
    return message.with_channel(kind)


def answers(encoding):
    rng = random.Random(1)
    for _ in range(NUM_ANSWERS):
        tokens = []
        for message in [random_message(rng) for _ in range(rng.randint(1, 4))]:
            tokens += encoding.render(message)
        # The prompt has <|start|>assistant; half of the recipients stand in the channel, as the model likes it.
        text = encoding.decode(tokens).removeprefix("<|start|>assistant")
        for name in ("functions.get_weather", "functions.now"):
            for channel in ("commentary", "analysis"):
                if rng.random() < 0.5:
                    text = text.replace(f" to={name}<|channel|>{channel}", f"<|channel|>{channel} to={name}")
        parsed = encoding.parse_messages_from_completion_tokens(
            encoding.encode(text, allowed_special="all"), harmony.Role.ASSISTANT)
        yield {"text": text, "messages": [{"channel": message.channel, "recipient": message.recipient or "",
                                           "content": message.content[0].text} for message in parsed]}


def main():
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = zipfile.ZipFile(sys.argv[1]).read(VOCABULARY)
        (pathlib.Path(folder) / "o200k_base.tiktoken").write_bytes(vocabulary)
        os.environ["TIKTOKEN_ENCODINGS_BASE"] = folder
        encoding = harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
    prompts = [{**chat, "date": DATE, "text": encoding.decode(encoding.render_conversation_for_completion(
        conversation(chat), harmony.Role.ASSISTANT))} for chat in CHATS]
    OUTPUT.parent.mkdir(exist_ok=True)
    lines = [f'"{key}": [\n' + ",\n".join(json.dumps(one, ensure_ascii=False) for one in group) + "\n]"
             for key, group in (("prompts", prompts), ("answers", answers(encoding)))]
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
