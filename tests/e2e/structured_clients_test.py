"""Typed answers, as the libraries get them that ask for them: the clients of OpenAI and Anthropic, instructor, LangChain, pydantic-ai
and openai-agents. The bundled model answers, which by itself writes no JSON."""

import asyncio
import enum
import os
import typing

os.environ.update(NO_PROXY="*", OPENAI_API_KEY="none", OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false",
                  PYDANTIC_DISABLE_PLUGINS="__all__")

from harness import ServerTestCase, main, packages

with packages():
    import agents
    import anthropic
    import instructor
    import langchain_openai
    import openai
    import pydantic
    import pydantic_ai
    from instructor.core import InstructorRetryException
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

QUESTION = "Who lives in the old mill?"
MESSAGES = [{"role": "user", "content": QUESTION}]


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


# Numbers and lists have bounds: this model at times writes digits without end.
class Pet(pydantic.BaseModel):
    kind: typing.Literal["dog", "cat"]
    legs: typing.Literal[2, 4]
    is_old: bool


class Person(pydantic.BaseModel):
    """Somebody who lives somewhere."""

    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=120)
    color: Color
    pets: list[Pet] = pydantic.Field(max_length=2)
    best: typing.Optional[Pet]


# Bounds that the strict schemas of clients seldom have.
class Bounded(pydantic.BaseModel):
    code: str = pydantic.Field(pattern="^[A-Z]{2}-[0-9]{3}$")
    share: float = pydantic.Field(ge=0, le=1)
    words: list[typing.Annotated[str, pydantic.Field(max_length=9)]] = pydantic.Field(min_length=1, max_length=3)


class StructuredClientsTest(ServerTestCase):
    FLAGS = ("--served-model-name", "demo")

    def setUp(self):
        self.url = f"http://{self.server.target}/v1"
        self.client = openai.OpenAI(base_url=self.url, api_key="none", timeout=300, max_retries=0)
        self.addCleanup(self.client.close)

    def test_openai_parse(self):
        for model in (Person, Bounded):
            for temperature in (0, 2):
                answer = self.client.chat.completions.parse(model="demo", messages=MESSAGES, response_format=model,
                                                            temperature=temperature, seed=1, max_tokens=3000)
                self.assertEqual(answer.choices[0].finish_reason, "stop")
                self.assertIsInstance(answer.choices[0].message.parsed, model)

    def test_openai_stream(self):
        with self.client.chat.completions.stream(model="demo", messages=MESSAGES, response_format=Person, temperature=0,
                                                 max_tokens=3000) as stream:
            snapshots = [event.parsed for event in stream if event.type == "content.delta"]
            final = stream.get_final_completion().choices[0].message.parsed
        self.assertIsInstance(final, Person)
        self.assertGreater(len(snapshots), 5)
        whole = self.client.chat.completions.parse(model="demo", messages=MESSAGES, response_format=Person, temperature=0,
                                                   max_tokens=3000)
        self.assertEqual(whole.choices[0].message.parsed, final)

    def test_openai_parse_that_is_cut_off(self):
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(model="demo", messages=MESSAGES, response_format=Person, max_tokens=3)

    def test_openai_responses(self):
        answer = self.client.responses.parse(model="demo", input=QUESTION, text_format=Person, temperature=0,
                                             max_output_tokens=3000)
        self.assertEqual(answer.status, "completed")
        self.assertIsInstance(answer.output_parsed, Person)
        self.assertEqual(answer.text.format.type, "json_schema")
        with self.client.responses.stream(model="demo", input=QUESTION, text_format=Person, temperature=0,
                                          max_output_tokens=3000) as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_response().output_parsed, answer.output_parsed)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(model="demo", input=QUESTION, text={"format": {
                "type": "json_schema", "name": "x", "schema": {"type": "string", "pattern": "("}}})
        self.assertEqual(caught.exception.param, "text.format.schema")

    def test_anthropic(self):
        client = anthropic.Anthropic(base_url=f"http://{self.server.target}", api_key="none", max_retries=0)
        self.addCleanup(client.close)
        options = {"model": "demo", "max_tokens": 3000, "messages": MESSAGES, "extra_body": {"top_k": 1}}
        answer = client.messages.parse(output_format=Pet, **options)
        self.assertEqual(answer.stop_reason, "end_turn")
        self.assertIsInstance(answer.parsed_output, Pet)
        schema = {"type": "object", "properties": {"legs": {"enum": [2, 4]}}, "required": ["legs"],
                  "additionalProperties": False}
        answer = client.messages.create(output_config={"format": {"type": "json_schema", "schema": schema}}, **options)
        self.assertRegex(answer.content[0].text, r'^\{\s*"legs":\s*[24]\s*\}$')
        with client.messages.stream(output_config={"format": {"type": "json_schema", "schema": schema}}, **options) as stream:
            self.assertEqual("".join(stream.text_stream), answer.content[0].text)
        with self.assertRaises(anthropic.BadRequestError) as caught:
            client.messages.create(output_config={"format": {"type": "json_schema", "schema": {"$ref": "#/nowhere"}}}, **options)
        self.assertIn("output_config.format.schema: #/$ref", str(caught.exception))

    def test_instructor(self):
        options = {"model": "demo", "response_model": Pet, "max_retries": 0, "messages": MESSAGES, "temperature": 0,
                   "max_tokens": 3000}
        client = instructor.from_openai(self.client, mode=instructor.Mode.JSON_SCHEMA)
        self.assertIsInstance(client.chat.completions.create(**options), Pet)
        # Asks for any object: what comes is one, and it has other members.
        client = instructor.from_openai(self.client, mode=instructor.Mode.JSON)
        with self.assertRaises(InstructorRetryException) as caught:
            client.chat.completions.create(**options)
        self.assertIn("Field required", str(caught.exception))

    def test_langchain(self):
        for over_responses in (False, True):
            model = langchain_openai.ChatOpenAI(model="demo", base_url=self.url, api_key="none", temperature=0,
                                                use_responses_api=over_responses, max_tokens=3000)
            for target in (Person, Bounded):
                with self.subTest(over_responses=over_responses, target=target):
                    answer = model.with_structured_output(target, method="json_schema").invoke(QUESTION)
                    self.assertIsInstance(answer, target)
            parts = list(model.with_structured_output(Person, method="json_schema").stream(QUESTION))
            self.assertIsInstance(parts[-1], Person)

    def test_pydantic_ai(self):
        for model_class in (OpenAIChatModel, OpenAIResponsesModel):
            with self.subTest(model_class):
                model = model_class("demo", provider=OpenAIProvider(base_url=self.url, api_key="none"))
                agent = pydantic_ai.Agent(model, output_type=pydantic_ai.NativeOutput([Person, Bounded]), retries=0,
                                          model_settings={"temperature": 0, "max_tokens": 3000})
                self.assertIsInstance(agent.run_sync(QUESTION).output, (Person, Bounded))

    def test_openai_agents(self):
        async def run(model_class):
            async with openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0) as client:
                agent = agents.Agent(name="Mill", output_type=Person, model=model_class(model="demo", openai_client=client),
                                     model_settings=agents.ModelSettings(temperature=0, max_tokens=3000))
                result = await agents.Runner.run(agent, QUESTION)
                self.assertIsInstance(result.final_output, Person)

        for model_class in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
            with self.subTest(model_class):
                asyncio.run(run(model_class))


if __name__ == "__main__":
    main()
