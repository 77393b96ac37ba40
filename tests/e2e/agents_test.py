"""The libraries that agents are written with, each with tools and the bundled model: openai-agents over responses and chats,
smolagents, LangChain, instructor, and a loop with the plain client."""

import asyncio
import os

os.environ.update(NO_PROXY="*", OPENAI_API_KEY="none", OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false")

from harness import ServerTestCase, main, packages

with packages():
    import agents
    import instructor
    import langchain.agents
    import langchain_openai
    import openai
    import pydantic
    import smolagents

QUESTION = "What is 1234567 + 7654321?"  # more than the model can add by itself
ANSWER = "8888888"


class AgentsTest(ServerTestCase):
    FLAGS = ("--served-model-name", "demo")

    def setUp(self):
        self.url = f"http://{self.server.target}/v1"
        self.calls = []

    def add(self, a, b):
        self.calls.append((a, b))
        return a + b

    def check(self, answer, question=QUESTION):
        self.assertEqual(str(answer), ANSWER, question)
        self.assertEqual(self.calls, [(1234567, 7654321)])

    def check_openai_agents(self, model_class):
        @agents.function_tool
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            return self.add(a, b)

        async def run():
            client = openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0)
            agent = agents.Agent(name="Sums", instructions="Use the tool for sums.", tools=[add],
                                 model=model_class(model="demo", openai_client=client))
            whole = await agents.Runner.run(agent, QUESTION)
            self.check(whole.final_output)
            self.calls.clear()
            streamed = agents.Runner.run_streamed(agent, QUESTION)
            kinds = [event.type async for event in streamed.stream_events()]
            self.assertIn("run_item_stream_event", kinds)
            self.check(streamed.final_output)
            await client.close()

        asyncio.run(run())

    def test_openai_agents_over_responses(self):
        self.check_openai_agents(agents.OpenAIResponsesModel)

    def test_openai_agents_over_chats(self):
        self.check_openai_agents(agents.OpenAIChatCompletionsModel)

    def test_openai_agents_must_call(self):
        @agents.function_tool
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            return self.add(a, b)

        async def run():
            client = openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0)
            agent = agents.Agent(name="Sums", tools=[add], tool_use_behavior="stop_on_first_tool",
                                 model_settings=agents.ModelSettings(tool_choice="required"),
                                 model=agents.OpenAIResponsesModel(model="demo", openai_client=client))
            result = await agents.Runner.run(agent, QUESTION)
            self.check(result.final_output)
            await client.close()

        asyncio.run(run())

    def test_smolagents(self):
        test = self

        class Add(smolagents.Tool):
            name = "add"
            description = "Adds two numbers."
            inputs = {"a": {"type": "integer", "description": "The first number."},
                      "b": {"type": "integer", "description": "The second number."}}
            output_type = "integer"

            def forward(self, a, b):
                return test.add(a, b)

        agent = smolagents.ToolCallingAgent(
            tools=[Add()], model=smolagents.OpenAIModel(model_id="demo", api_base=self.url, api_key="none"), max_steps=3,
            verbosity_level=0)
        self.check(agent.run(QUESTION))

    def test_langchain(self):
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            return self.add(a, b)

        for over_responses in (False, True):
            with self.subTest(over_responses=over_responses):
                self.calls.clear()
                model = langchain_openai.ChatOpenAI(model="demo", base_url=self.url, api_key="none", temperature=0,
                                                    use_responses_api=over_responses)
                agent = langchain.agents.create_agent(model, tools=[add])
                messages = agent.invoke({"messages": [{"role": "user", "content": QUESTION}]})["messages"]
                self.check(messages[-1].text)
                forced = model.bind_tools([add], tool_choice="add").invoke(QUESTION)
                self.assertEqual([call["args"] for call in forced.tool_calls], [{"a": 1234567, "b": 7654321}])

    def test_instructor(self):
        class User(pydantic.BaseModel):
            name: str
            age: int

        client = instructor.from_openai(openai.OpenAI(base_url=self.url, api_key="none", max_retries=0),
                                        mode=instructor.Mode.TOOLS)
        user = client.chat.completions.create(model="demo", response_model=User, max_retries=0,
                                              messages=[{"role": "user", "content": "Extract: Tom is 7 years old."}])
        self.assertEqual((user.name, user.age), ("Tom", 7))


if __name__ == "__main__":
    main()
