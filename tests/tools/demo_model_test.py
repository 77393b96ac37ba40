#!/usr/bin/env python3
"""The bundled model's data and files: answers are right, held-out items were never trained on, the folder is sound."""

import json
import math
import pathlib
import random
import re
import struct
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "configs/demo"
sys.path.insert(0, str(ROOT / "tools/demo_model"))

import evaluate
import lookup
import make_heldout
import smalltalk
import tasks
import tool_use

SAMPLES = 300


def samples(make):
    rng = random.Random(7)
    for _ in range(SAMPLES):
        yield make(rng)


def single_turns(make):
    for item in samples(make):
        (user, answer), = item.turns
        yield user, answer


def numbers(text):
    return [int(number) for number in re.findall(r"\d+", text)]


class AnswersAreRight(unittest.TestCase):
    """Every answer is worked out again from the words of the request alone."""

    def test_addition(self):
        for user, answer in single_turns(tasks.addition):
            self.assertEqual(sum(numbers(user)), int(answer), user)

    def test_subtraction(self):
        for user, answer in single_turns(tasks.subtraction):
            a, b = numbers(user)
            self.assertEqual(abs(a - b), int(answer), user)

    def test_multiplication(self):
        for user, answer in single_turns(tasks.multiplication):
            self.assertEqual(math.prod(numbers(user)), int(answer), user)

    def test_copy(self):
        for user, answer in single_turns(tasks.copy):
            self.assertEqual(re.split(r": |\n|:\n", user, maxsplit=1)[1], answer)

    def test_reverse_letters(self):
        for user, answer in single_turns(tasks.reverse_letters):
            self.assertIn("".join(reversed(answer)), re.findall(r"\w+", user))

    def listed(self, user, answer):
        """(the words that the request lists, the words of the answer); they are the same but for their order."""
        separator = re.search(r": |\n", user) or re.search(" ", user)
        listed = user[separator.end():]
        given, words = re.split(", | ", listed), answer.split(", ")
        self.assertCountEqual(given, words, user)
        return given, words

    def test_reverse_list(self):
        for user, answer in single_turns(tasks.reverse_list):
            given, words = self.listed(user, answer)
            self.assertEqual(given[::-1], words)

    def test_sort(self):
        for user, answer in single_turns(tasks.sort):
            _, words = self.listed(user, answer)
            self.assertTrue(all(a < b for a, b in zip(words, words[1:])), answer)

    def test_count(self):
        for user, answer in single_turns(tasks.count):
            first, last = numbers(user)
            step = 1 if first < last else -1
            self.assertEqual(list(range(first, last + step, step)), numbers(answer))

    def test_json(self):
        for user, answer in single_turns(tasks.json_record):
            record = json.loads(answer)
            self.assertIn(", ".join(record), user)
            for value in record.values():
                self.assertRegex(user, rf"\b{value}\b")

    def test_records(self):
        for document in samples(lambda rng: lookup.records(rng, 400)):
            table = dict(line.split(": ") for line in document.text.split("\n"))
            self.assertEqual(len(table), document.text.count("\n") + 1, "a key stands twice")
            for question, answer in document.questions:
                key = max((key for key in table if key in question), key=len)
                self.assertEqual(table[key], answer, question)

    def test_prose(self):
        relation_of = {}
        for relation in lookup.RELATIONS:
            for question in relation.questions:
                head, tail = question.split("{s}")
                relation_of[re.compile(re.escape(head) + "(.+)" + re.escape(tail))] = relation
        for document in samples(lambda rng: lookup.prose(rng, 600, 0.5)):
            for question, answer in document.questions:
                found = set()
                for pattern, relation in relation_of.items():
                    match = pattern.fullmatch(question)
                    for statement in relation.statements if match else ():
                        fact = re.escape(statement).replace(r"\{s\}", re.escape(match[1])).replace(r"\{v\}", r"([\w ]+?)")
                        for value in re.findall(rf"(?:^|[.\s]){fact[:-2]}\.(?:\s|$)", document.text, re.IGNORECASE):
                            found.add(relation.answer.format(v=value))
                self.assertIn(answer, found, question)

    def test_the_story_is_about_the_hero(self):
        for request, start, rest in samples(smalltalk.story):
            animal, name = re.search(r"a (\w+) called (\w+)\.", request).groups()
            self.assertIn(f"a {animal} called {name}.", start)
            self.assertIn(f"asked {name}. The {animal} ", rest)

    def test_a_name_is_remembered(self):
        for (told, _), (_, answer) in samples(smalltalk.introduction):
            self.assertIn(answer.removeprefix("Your name is "), told)


CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


def tools_of(system):
    """(what stands before the tools in a system turn, the tools)"""
    head, listed = system.split("You may call these tools:\n<tools>\n")
    return head.rstrip("\n"), [json.loads(line) for line in listed.split("\n</tools>")[0].split("\n")]


class ToolUse(unittest.TestCase):
    """Calls and answers are worked out again from what the chat says."""

    def test_calls_have_what_the_request_names(self):
        num_calls = 0
        for system, turns in samples(tool_use.training_chat):
            _, tools = tools_of(system)
            parameters = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
            self.assertEqual(len(parameters), len(tools), "two tools of one name")
            for user, assistant in turns:
                for call in map(json.loads, CALL.findall(assistant)):
                    num_calls += 1
                    self.assertEqual(list(call["arguments"]), parameters[call["name"]]["required"])
                    for value in call["arguments"].values() if call["name"] != "final_answer" else ():
                        for part in str(value).split():
                            self.assertIn(part, user + " + - * add subtract multiply")
        self.assertGreater(num_calls, SAMPLES / 2)

    def test_answers_are_the_results(self):
        for _, turns in samples(tool_use.training_chat):
            for user, assistant in turns:
                results = RESPONSE.findall(user)
                if results and not assistant.startswith("<tool_call>"):
                    self.assertEqual(assistant, " and ".join(map(tool_use.shown, results)))
        self.assertEqual([tool_use.shown(text) for text in ("85", '{"sum": 85}', '{"a": "b"}', '{"a": 1, "b": 2}', "[1]")],
                         ["85", "85", "b", '{"a": 1, "b": 2}', "[1]"])

    def test_sums_are_right(self):
        for sign, compute in (("+", lambda a, b: a + b), ("-", lambda a, b: a - b), ("*", lambda a, b: a * b)):
            tool = tool_use.operation(random.Random(1), sign)
            for use in samples(tool.use):
                self.assertAlmostEqual(float(use.result), compute(*use.arguments.values()), 3)

    def test_an_answer_that_is_a_call(self):
        for text, kind, value in (("7", "any", 7), ("2.5", "any", 2.5), ("7", "string", "7"), ("sunny", "any", "sunny"),
                                  ("007", "any", "007")):
            [call] = CALL.findall(tool_use.final_answer_call(text, kind))
            self.assertEqual(json.loads(call), {"name": "final_answer", "arguments": {"answer": value}})

    def test_the_chat_template_writes_the_same(self):
        try:
            import jinja2
        except ImportError as error:
            self.skipTest(str(error))
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
        template = environment.from_string(json.loads((DEMO / "tokenizer_config.json").read_text())["chat_template"])
        for system, turns in samples(tool_use.training_chat):
            if any(isinstance(assistant, tasks.Given) for _, assistant in turns):
                continue
            head, tools = tools_of(system)
            messages = [{"role": "system", "content": head}] if head else []
            expected = f"<|im_start|>system\n{system}<|im_end|>\n"
            for user, assistant in turns:
                expected += f"<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n{assistant}<|im_end|>\n"
                results, calls = RESPONSE.findall(user), CALL.findall(assistant)
                messages += [{"role": "tool", "content": result} for result in results] or [{"role": "user", "content": user}]
                messages.append({"role": "assistant", "content": None if calls else assistant, "tool_calls": [
                    {"type": "function", "function": json.loads(call)} for call in calls]})
            self.assertEqual(template.render(messages=messages, tools=tools), expected)
        self.assertEqual(template.render(messages=[{"role": "system", "content": "x"}, {"role": "user", "content": "y"}],
                                         add_generation_prompt=True),
                         "<|im_start|>system\nx<|im_end|>\n<|im_start|>user\ny<|im_end|>\n<|im_start|>assistant\n")


class HeldOutIsNew(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.items = evaluate.load(DEMO / "heldout.jsonl")

    def test_file_is_what_the_script_makes(self):
        self.assertEqual(make_heldout.records(), self.items)

    def test_no_training_chat_asks_the_same(self):
        asked = {item["messages"][-1]["content"] for item in self.items if len(item["messages"]) < 3}
        documents = {item["messages"][0]["content"] for item in self.items if item["task"] == "lookup"}
        rng = random.Random(1)
        for _ in range(4000):
            _, turns = tasks.training_chat(rng, 400, 0.1)
            for user, _ in turns[:1]:
                self.assertNotIn(user, asked)
                self.assertNotIn(user, documents)
        called = {item["messages"][-1]["content"] for item in self.items if item["task"] == "tool_call"}
        for _ in range(2000):
            for user, _ in tool_use.training_chat(rng)[1]:
                self.assertNotIn(user, called)

    def test_operands_are_on_one_side(self):
        heldout = set()
        for item in self.items:
            if item["task"] in ("addition", "subtraction", "multiplication"):
                heldout.add((item["task"], *sorted(numbers(item["messages"][-1]["content"]))))
        rng = random.Random(2)
        for _ in range(20000):
            make = rng.choice((tasks.addition, tasks.subtraction, tasks.multiplication))
            item = tasks.draw(lambda: make(rng), heldout=False)
            self.assertNotIn((item.task, *sorted(numbers(item.turns[0][0]))), heldout)

    def test_both_sides_are_drawn(self):
        keys = [f"+ {n} {n + 1}" for n in range(5000)]
        share = sum(map(tasks.is_heldout, keys)) / len(keys)
        self.assertAlmostEqual(share, 1 / tasks.HELDOUT_ONE_IN, delta=0.01)
        self.assertFalse(tasks.is_heldout(None))

    def test_lookups_reach_over_the_whole_context(self):
        lengths = sorted(len(item["messages"][0]["content"]) for item in self.items if item["task"] == "lookup")
        self.assertGreaterEqual(len(lengths), 60)
        self.assertLess(lengths[0], 400)
        self.assertGreater(lengths[-1], 14000)
        self.assertLess(max(b - a for a, b in zip(lengths, lengths[1:])), 1500)

    def test_max_tokens_leaves_room_for_the_answer(self):
        for item in self.items:
            self.assertGreater(item["max_tokens"], len(item["answer"].encode()))


class Scoring(unittest.TestCase):
    def test_right_and_wrong(self):
        item = {"task": "addition", "answer": "85"}
        self.assertTrue(evaluate.is_right(item, " 85\n"))
        self.assertFalse(evaluate.is_right(item, "855"))

    def test_json_is_compared_as_an_object(self):
        item = {"task": "json", "answer": '{"name": "Tom", "age": 7}'}
        self.assertTrue(evaluate.is_right(item, '{"age":7,"name":"Tom"}'))
        self.assertFalse(evaluate.is_right(item, '{"name": "Tom", "age": "7"}'))
        self.assertFalse(evaluate.is_right(item, '{"name": "Tom"'))

    def test_total_comes_last(self):
        items = [{"task": "sort", "answer": "a"}, {"task": "copy", "answer": "b"}, {"task": "sort", "answer": "c"}]
        self.assertEqual(list(evaluate.scores(items, ["a", "x", "c"]).items()),
                         [("sort", (2, 2)), ("copy", (0, 1)), ("total", (2, 3))])


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.config = json.loads((DEMO / "config.json").read_text())
        cls.tokenizer = json.loads((DEMO / "tokenizer.json").read_text())

    def expected_shapes(self):
        c = self.config
        hidden, inner, size = c["hidden_size"], c["intermediate_size"], c["head_dim"]
        q, kv = c["num_attention_heads"] * size, c["num_key_value_heads"] * size
        shapes = {"model.embed_tokens.weight": [c["vocab_size"], hidden], "model.norm.weight": [hidden]}
        layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_norm": [size],
                 "self_attn.k_norm": [size], "self_attn.q_proj": [q, hidden], "self_attn.k_proj": [kv, hidden],
                 "self_attn.v_proj": [kv, hidden], "self_attn.o_proj": [hidden, q], "mlp.gate_proj": [inner, hidden],
                 "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}
        for i in range(c["num_hidden_layers"]):
            shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
        return shapes

    def test_weights(self):
        data = (DEMO / "model.safetensors").read_bytes()
        self.assertLessEqual(len(data), 15 * 1024 * 1024)
        header_bytes, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + header_bytes])
        header.pop("__metadata__", None)
        self.assertEqual({name: tensor["shape"] for name, tensor in header.items()}, self.expected_shapes())
        end = 0
        for tensor in sorted(header.values(), key=lambda tensor: tensor["data_offsets"]):
            self.assertEqual(tensor["dtype"], "BF16")
            self.assertEqual(tensor["data_offsets"], [end, end + 2 * math.prod(tensor["shape"])])
            end = tensor["data_offsets"][1]
        self.assertEqual(8 + header_bytes + end, len(data))

    def test_config(self):
        self.assertEqual(self.config["architectures"], ["Qwen3ForCausalLM"])
        self.assertTrue(self.config["tie_word_embeddings"])
        self.assertGreaterEqual(self.config["max_position_embeddings"], 2048)
        self.assertEqual(self.config["hidden_size"] % 64, 0)

    def test_vocabulary(self):
        ids = list(self.tokenizer["model"]["vocab"].values()) + [token["id"] for token in self.tokenizer["added_tokens"]]
        self.assertEqual(sorted(ids), list(range(self.config["vocab_size"])))

    def test_end_tokens_agree(self):
        ids = {token["content"]: token["id"] for token in self.tokenizer["added_tokens"]}
        generation = json.loads((DEMO / "generation_config.json").read_text())
        tokenizer_config = json.loads((DEMO / "tokenizer_config.json").read_text())
        self.assertEqual(ids[tokenizer_config["eos_token"]], self.config["eos_token_id"])
        self.assertEqual(generation["eos_token_id"], [ids["<|im_end|>"], ids["<|endoftext|>"]])
        for turn in ("<|im_start|>", "<|im_end|>"):
            self.assertIn(turn, ids)
            self.assertIn(turn, tokenizer_config["chat_template"])


if __name__ == "__main__":
    unittest.main()
