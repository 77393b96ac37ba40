"""Answers that keep to a schema, a pattern or a list of texts, on every surface: the bundled model writes what it likes, at a high
temperature, and it is valid. What is asked for wrongly is refused by the client's name for it. Reasoning stays free."""

import concurrent.futures
import json
import os
import random
import re
import subprocess
import tempfile
import unittest

os.environ["NO_PROXY"] = "*"

from harness import AT_LENGTH, CLIENT, Server, ServerTestCase, chat_request, grpc, main, packages, pb
import scripted_model

with packages():
    import openai
    import schema_maker

NUM_SCHEMAS = int(os.environ.get("QUIRE_NUM_SCHEMAS", 3000 if AT_LENGTH else 50))
SEED = int(os.environ.get("QUIRE_SCHEMA_SEED", random.randrange(10**6) if AT_LENGTH else 7))
MESSAGES = [{"role": "user", "content": "Tell me about a dog."}]
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
          "required": ["name", "age"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "now"}}
LOOKUP = {"type": "object", "properties": {"a": {"type": "string", "pattern": "[a-"}}, "required": ["a"]}


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


# What a chat asks for wrongly, the field that is blamed, and a part of the sentence.
REFUSED = (
    ({"response_format": {"type": "xml"}}, "response_format.type", "is none of text, json_object, json_schema"),
    ({"response_format": 5}, "response_format", "is not an object"),
    ({"response_format": {"type": "json_schema"}}, "response_format", "has no schema"),
    ({"response_format": schema_format(5)}, "response_format.json_schema.schema", "#: a schema must be an object"),
    ({"response_format": schema_format(LOOKUP)}, "response_format.json_schema.schema", "#/properties/a/pattern: \"[a-\""),
    ({"response_format": schema_format({"type": "array", "uniqueItems": True})}, "response_format.json_schema.schema",
     "uniqueItems"),
    ({"response_format": schema_format({"$ref": "https://example.com/x"})}, "response_format.json_schema.schema", "#/$ref"),
    ({"response_format": schema_format(False)}, "response_format.json_schema.schema", "no answer can be valid"),
    ({"response_format": schema_format({"properties": {f"p{i}": {} for i in range(1000)}, "minProperties": 500})},
     "response_format.json_schema.schema", "too many members"),
    ({"guided_json": "{x"}, "guided_json", "is not JSON"),
    ({"guided_json": 5}, "guided_json", "#: a schema must be"),
    ({"guided_regex": "[.*"}, "guided_regex", "lacks its ]"),
    ({"guided_grammar": "root ::= ("}, "guided_grammar", "line 1, column"),
    ({"response_format": {"type": "grammar", "grammar": "start: other"}}, "response_format.grammar", "other"),
    ({"guided_choice": []}, "guided_choice", "has no choice"),
    ({"guided_whitespace_pattern": "\\s"}, "guided_whitespace_pattern", "is not supported"),
    ({"structural_tag": {}}, "structural_tag", "is not supported"),
    ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag", "is not supported"),
    ({"structured_outputs": {}}, "structured_outputs", "has none of json, regex"),
    ({"guided_json": {}, "guided_regex": "a"}, "guided_regex", "another field, guided_json"),
    ({"response_format": {"type": "json_object"}, "tools": [TOOL]}, "response_format", "tools that the model may call"),
)


class StructuredTestCase(ServerTestCase):
    FLAGS = ("--served-model-name", "demo")

    def setUp(self):
        self.client = self.client_of(self.server)

    def client_of(self, server):
        client = openai.OpenAI(base_url=f"http://{server.target}/v1", api_key="none", timeout=300, max_retries=0)
        self.addCleanup(client.close)
        return client

    def ask(self, client=None, max_tokens=300, messages=MESSAGES, model="demo", **options):
        return (client or self.client).chat.completions.create(
            model=model, messages=messages, max_tokens=max_tokens, temperature=options.pop("temperature", 0), **options)

    def streamed(self, **options):
        """The text of a stream, and how it ends."""
        text, finish = "", None
        for chunk in self.ask(stream=True, **options):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
        return text, finish

    def content(self, **options):
        choice = self.ask(**options).choices[0]
        self.assertEqual(choice.finish_reason, "stop")
        return choice.message.content

    def assert_refused(self, call, field, fragment):
        with self.assertRaises(openai.APIStatusError) as caught:
            call()
        error = caught.exception
        self.assertEqual((error.status_code, error.param), (400, field), error)
        self.assertIn(fragment, str(error))


class SchemaTest(StructuredTestCase):
    def answer(self, number):
        """Asks for JSON of a random schema; the answer's length, or 0 if it was cut off."""
        maker = schema_maker.SchemaMaker(random.Random(SEED * 10**6 + number))
        schema = maker.make()
        case = f"schema {number} of seed {SEED}: {json.dumps(schema)}"
        options = {"response_format": schema_format(schema), "temperature": 2, "seed": number, "max_tokens": 1500}
        try:
            choice = self.ask(**options).choices[0]
        except openai.APIStatusError as error:
            raise AssertionError(f"{case} {error}") from error
        content = choice.message.content
        if number % 10 == 0 and self.streamed(**options) != (content, choice.finish_reason):
            raise AssertionError(f"{case} is another answer as a stream")
        if choice.finish_reason == "length":
            return 0
        try:
            schema_maker.validate(json.loads(content), schema)
        except Exception as error:
            raise AssertionError(f"{case} got {content!r}") from error
        return len(content)

    def test_answers_to_random_schemas_are_valid(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            lengths = list(pool.map(self.answer, range(NUM_SCHEMAS)))
        print(f"{NUM_SCHEMAS} schemas of seed {SEED}, {lengths.count(0)} cut off, {sum(lengths)} bytes")
        self.assertLess(lengths.count(0), NUM_SCHEMAS / 10)

    def test_each_way_to_ask(self):
        person = {"response_format": schema_format(PERSON)}
        whole = self.content(**person)
        self.assertEqual(sorted(json.loads(whole)), ["age", "name"])
        for body in ({"guided_json": PERSON}, {"guided_json": json.dumps(PERSON)}, {"json_schema": PERSON},
                     {"structured_outputs": {"json": PERSON}},
                     {"response_format": {"type": "json_object", "schema": PERSON}}):
            self.assertEqual(self.content(extra_body=body), whole, body)
        self.assertIsInstance(json.loads(self.content(response_format={"type": "json_object"})), dict)
        for body in ({"guided_regex": "[a-f]{3,5}!"}, {"regex": "[a-f]{3,5}!"}, {"structured_outputs": {"regex": "[a-f]{3,5}!"}}):
            self.assertRegex(self.content(extra_body=body), "^[a-f]{3,5}!$")
        for body in ({"guided_choice": ["red", "green"]}, {"structured_outputs": {"choice": ["red", "green"]}}):
            self.assertIn(self.content(extra_body=body, temperature=2), ("red", "green"))
        compact = self.content(temperature=2, extra_body={
            "structured_outputs": {"json": PERSON, "disable_any_whitespace": True}})
        self.assertRegex(compact, r'^\{"name":".*","age":-?\d+\}$')
        text = self.ask(max_tokens=20).choices[0].message.content
        self.assertEqual(self.ask(max_tokens=20, response_format={"type": "text"}).choices[0].message.content, text)

    def test_grammars(self):
        gbnf = 'root ::= "[" item ("," item){0,3} "]"\nitem ::= [a-c]{2}'
        lark = 'start: "yes" | "no" NUMBER\nNUMBER: /[0-9]{3}/'
        pairs = r"^\[[abc]{2}(,[abc]{2}){0,3}\]$"
        for body, pattern in (({"guided_grammar": gbnf}, pairs), ({"grammar": gbnf}, pairs),
                              ({"ebnf": lark}, "^(yes|no[0-9]{3})$"),
                              ({"structured_outputs": {"grammar": lark}}, "^(yes|no[0-9]{3})$"),
                              ({"response_format": {"type": "grammar", "grammar": lark}}, "^(yes|no[0-9]{3})$")):
            self.assertRegex(self.content(extra_body=body, max_tokens=1000), pattern)
        inline = 'start: "answer: " %json {"type": "boolean"}'
        self.assertRegex(self.content(extra_body={"guided_grammar": inline}), "^answer: (true|false)$")

    def test_members_come_in_the_order_of_the_schema(self):
        schema = {"type": "object", "properties": {name: {"type": "boolean"} for name in "zaq"},
                  "required": ["b", "q", "a", "z"], "additionalProperties": {"type": "null"}, "maxProperties": 4}
        self.assertEqual(list(json.loads(self.content(response_format=schema_format(schema)))), ["z", "a", "q", "b"])

    def test_completions_with_several_prompts_and_echo(self):
        answer = self.client.completions.create(model="demo", prompt=["Once", "Twice"], max_tokens=50, temperature=2, n=2,
                                                echo=True, logprobs=1, extra_body={"guided_regex": " (?:a|b){5}"})
        self.assertEqual(len(answer.choices), 4)
        for choice in answer.choices:
            self.assertRegex(choice.text, "^(Once|Twice) [ab]{5}$")
            self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        answer = self.client.completions.create(model="demo", prompt="Once", max_tokens=50, temperature=0,
                                                extra_body={"guided_regex": "x{3}", "prompt_logprobs": 1})
        self.assertEqual(answer.choices[0].text, "xxx")

    def test_continuations_differ_and_each_is_valid(self):
        choices = self.ask(response_format=schema_format(PERSON), n=4, temperature=2, seed=3).choices
        self.assertEqual([choice.finish_reason for choice in choices], ["stop"] * 4)
        for choice in choices:
            schema_maker.validate(json.loads(choice.message.content), PERSON)
        self.assertGreater(len({choice.message.content for choice in choices}), 1)

    def test_logprobs_are_those_without_the_mask(self):
        """The first token of a free answer is no brace, and in a constrained one it keeps its probability."""
        entry = self.ask(response_format=schema_format(PERSON), logprobs=True, top_logprobs=1).choices[0].logprobs.content[0]
        free = self.ask(max_tokens=1, logprobs=True, top_logprobs=1).choices[0].logprobs.content[0]
        self.assertTrue(entry.token.startswith("{"), entry)
        self.assertEqual(entry.top_logprobs[0].token, free.token)
        self.assertLess(entry.logprob, entry.top_logprobs[0].logprob)

    def test_how_an_answer_ends(self):
        person = {"response_format": schema_format(PERSON)}
        whole = self.content(**person)
        tokens = self.ask(**person).usage.completion_tokens
        short = self.ask(max_tokens=5, **person).choices[0]
        self.assertEqual(short.finish_reason, "length")
        self.assertTrue(whole.startswith(short.message.content))
        stopped = self.ask(stop=["age"], **person).choices[0]
        self.assertEqual((stopped.finish_reason, stopped.message.content), ("stop", whole[:whole.index("age")]))
        # A complete answer ends.
        for body in ({"ignore_eos": True}, {"min_tokens": 100}, {"min_tokens": 100, "ignore_eos": True}):
            self.assertEqual(self.content(extra_body=body, **person), whole, body)
        # As long as something else may come, it does.
        long = self.ask(extra_body={"guided_regex": "a{5,}", "min_tokens": 60}, max_tokens=80)
        self.assertGreaterEqual(long.usage.completion_tokens, 60)
        exact = self.ask(max_tokens=tokens, **person).choices[0]
        self.assertEqual((exact.message.content, exact.finish_reason), (whole, "stop"))

    def test_a_biased_token_that_may_not_come_does_not(self):
        biased = self.content(response_format=schema_format(PERSON), logit_bias={"70": 100})
        schema_maker.validate(json.loads(biased), PERSON)

    def test_wrong_uses_are_refused_by_name(self):
        for body, field, fragment in REFUSED:
            with self.subTest(body):
                self.assert_refused(lambda body=body: self.ask(extra_body=body), field, fragment)
                self.assert_refused(lambda body=body: list(self.ask(extra_body=body, stream=True)), field, fragment)
        self.assertEqual(self.server.wait_until_idle().active_streams, 0)

    def test_tools_that_the_model_may_not_call(self):
        content = self.content(response_format=schema_format(PERSON), tools=[TOOL], tool_choice="none")
        schema_maker.validate(json.loads(content), PERSON)

    def test_many_at_once_beside_free_ones(self):
        def one(number):
            if number % 3:
                return self.ask(max_tokens=20).choices[0].message.content
            return schema_maker.validate(json.loads(self.content(
                response_format=schema_format(PERSON), temperature=2, seed=number)), PERSON)

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = set(pool.map(one, range(96)))
        self.assertEqual(len(answers), 2, "free answers are the same, and valid ones tell nothing")

    def test_grpc(self):
        request = chat_request("Tell me about a dog.", max_tokens=300)
        request.sampling.temperature = 2
        request.json_schema = json.dumps(PERSON)
        schema_maker.validate(json.loads(self.generate(request).text), PERSON)
        request.regex = "[xyz]{4}"
        self.assertRegex(self.generate(request).text, "^[xyz]{4}$")
        request.choice.choices.extend(["red", "green"])
        self.assertIn(self.generate(request).text, ("red", "green"))
        request.sampling.n = 3
        once = self.server.inference.GenerateOnce(request)
        self.assertLessEqual({choice.text for choice in once.choices}, {"red", "green"})
        request = chat_request("Tell me about a dog.", max_tokens=300)
        request.json_object = True
        self.assertIsInstance(json.loads(self.generate(request).text), dict)

    def test_grpc_refuses_by_name(self):
        for field, value, fragment in (("json_schema", "{x", "json_schema: is not JSON"),
                                       ("json_schema", "5", "json_schema: #: a schema must be an object"),
                                       ("json_schema", json.dumps(LOOKUP), "json_schema: #/properties/a/pattern"),
                                       ("regex", "(", "regex: at byte"), ("grammar", "root ::= (", "grammar: line 1"),
                                       ("choice", pb.TextChoices(), "choice: has no choice")):
            request = chat_request("x")
            if field == "choice":
                request.choice.CopyFrom(value)
            else:
                setattr(request, field, value)
            with self.subTest(fragment):
                self.assert_status(grpc.StatusCode.INVALID_ARGUMENT, fragment, lambda request=request: self.generate(request))

    def test_the_client(self):
        def quire(*arguments, code=0, stdin=""):
            run = subprocess.run([CLIENT, arguments[0], "--target", self.server.target, *arguments[1:]], input=stdin,
                                 capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(run.returncode, code, run.stderr)
            return run

        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/person.json"
            with open(path, "w", encoding="utf-8") as file:
                json.dump(PERSON, file)
            answer = quire("generate", "--message", "Who is that?", "--json-schema", path, "--temperature", "2").stdout
            schema_maker.validate(json.loads(answer), PERSON)
            chat = quire("chat", "--json-schema", path, "--quiet", stdin="Who is that?\nAnd who else?\n").stdout
            self.assertEqual(len(re.findall(r'"name"', chat)), 2, chat)
            self.assertIn("contradict", quire("generate", "x", "--json-schema", path, "--regex", "a", code=64).stderr)
            with open(f"{folder}/answer.gbnf", "w", encoding="utf-8") as file:
                file.write('root ::= "green" | "red"')
            self.assertIn(quire("generate", "Once", "--grammar", f"{folder}/answer.gbnf").stdout, ("green\n", "red\n"))
        self.assertRegex(quire("generate", "Once", "--regex", "[ab]{3}").stdout, "^[ab]{3}$")
        self.assertIn(quire("generate", "Once", "--choice", "red", "--choice", "green blue").stdout, ("red\n", "green blue\n"))
        self.assertIn("cannot be read", quire("generate", "x", "--json-schema", "/nope.json", code=64).stderr)
        self.assertIn("regex: at byte", quire("generate", "x", "--regex", "(", code=1).stderr)


class WithoutTokenizerTest(StructuredTestCase):
    FLAGS = ("--skip-tokenizer-init",)

    def test_it_needs_the_tokenizer(self):
        request = pb.GenerateRequest(token_ids=pb.TokenIds(ids=[3, 4]), regex="a")
        self.assert_status(grpc.StatusCode.UNIMPLEMENTED, "regex: needs the tokenizer", lambda: self.generate(request))


THOUGHTS = "\nWell, {a brace}.\n"
SPECIAL = {"<think>": False, "</think>": False, "[THINK]": True, "[/THINK]": True}
SCRIPTS = {
    "reasons": ["<think>", THOUGHTS, "</think>", '\n\n{"age": 25}'],
    "plain": ['{"age": 47}'],
    "special": ["[THINK]", "Hm, {it}!", "[/THINK]", '{"age": 58}'],
}
TEMPLATE = """{%- for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}
{%- if open_think %}{{ '<think>' }}{% endif %}
{#- </think> #}"""
AGE = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["age"],
       "additionalProperties": False}


class ReasoningTest(StructuredTestCase):
    """Reasoning is free, whoever opens it; what follows is valid."""

    PARSER = "qwen3"

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        scripted_model.make(folder, SCRIPTS, SPECIAL, TEMPLATE)
        cls.FLAGS = ("--model", folder, "--served-model-name", "scripts", "--device", "cpu", "--reasoning-parser", cls.PARSER)
        super().setUpClass()

    def check(self, script, content, reasoning, **options):
        options = {"model": "scripts", "messages": [{"role": "user", "content": f"<go:{script}>"}],
                   "response_format": schema_format(AGE), **options}
        choice = self.ask(**options).choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason), (content, "stop" if content else "length"))
        self.assertEqual(getattr(choice.message, "reasoning", None) or "", reasoning)
        text, finish = self.streamed(**options)
        self.assertEqual((text or None, finish), (content, choice.finish_reason))


class ThinkTest(ReasoningTest):
    def test_the_answer_opens_it(self):
        self.check("reasons", '{"age": 25}', THOUGHTS.strip("\n"))

    def test_the_prompt_opens_it(self):
        self.check("plain", '{"age": 25}', THOUGHTS.strip("\n"), extra_body={"chat_template_kwargs": {"open_think": True}})

    def test_there_is_none(self):
        self.check("plain", '{"age": 47}', "")

    def test_it_uses_up_the_budget(self):
        choice = self.ask(model="scripts", messages=[{"role": "user", "content": "<go:reasons>"}], max_tokens=4,
                          response_format=schema_format(AGE)).choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason), (None, "length"))
        self.assertTrue(THOUGHTS.strip("\n").startswith(choice.message.reasoning))

    def test_a_completion_has_none(self):
        answer = self.client.completions.create(model="scripts", prompt="<go:reasons>", max_tokens=50, temperature=0,
                                                extra_body={"guided_json": AGE})
        schema_maker.validate(json.loads(answer.choices[0].text), AGE)

    def test_responses_and_messages(self):
        text = {"format": {"type": "json_schema", "name": "age", "schema": AGE}}
        answer = self.client.responses.create(model="scripts", input="<go:reasons>", temperature=0, text=text)
        self.assertEqual(answer.output_text, '{"age": 25}')


class SpecialTagsTest(ReasoningTest):
    """Tags that are special tokens."""

    PARSER = "mistral"

    def test_the_answer_opens_it(self):
        self.check("special", '{"age": 58}', "Hm, {it}!")


class ChannelsTest(unittest.TestCase):
    def test_models_that_answer_in_channels_refuse(self):
        with tempfile.TemporaryDirectory() as folder:
            scripted_model.make(folder, SCRIPTS, SPECIAL, TEMPLATE)
            with Server("--model", folder, "--device", "cpu", "--reasoning-parser", "gpt_oss") as server:
                client = openai.OpenAI(base_url=f"http://{server.target}/v1", api_key="none", max_retries=0)
                with self.assertRaises(openai.APIStatusError) as caught:
                    client.chat.completions.create(model=folder, messages=MESSAGES, extra_body={"guided_regex": "a"})
                self.assertEqual((caught.exception.status_code, caught.exception.param), (400, "guided_regex"))
                self.assertIn("channels", str(caught.exception))
                client.close()


if __name__ == "__main__":
    main()
