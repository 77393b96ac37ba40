"""Chats in harmony, as gpt-oss has them, with no flag: channels, a call that ends the turn with a token of its own, what comes
back as history, and the effort of reasoning, over /v1/chat/completions and /v1/responses, whole and streamed."""

import datetime
import json
import pathlib
import tempfile
import unittest

from harness import Server, main
import hybrid_chats_test
from hybrid_chats_test import NOW, WEATHER, WEATHER_ARGUMENTS
import family_templates  # of tests/server/text/chat
import scripted_model

TAGS = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>")
ARGUMENTS = json.dumps(WEATHER_ARGUMENTS, ensure_ascii=False)
QUESTION = [{"role": "user", "content": "Weather?"}]


def make_model(folder, scripts):
    """Three tokens end a turn, as gpt-oss's generation_config.json says."""
    scripted_model.make(folder, scripts, dict.fromkeys(TAGS, True), family_templates.TYPESCRIPT)
    folder = pathlib.Path(folder)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    ends = [vocabulary[token] for token in ("<|return|>", scripted_model.END, "<|call|>")]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    return ends


class HarmonyChatsTest(hybrid_chats_test.FamilyChats, unittest.TestCase):
    """Tags that stand twice in the script are spelled as text the second time."""

    CALLS = [("get_weather", WEATHER_ARGUMENTS)]
    SCRIPTS = {"after t": [
        "<|channel|>", "analysis", "<|message|>", "I should\nlook.", "<|end|>", "<|start|>",
        "assistant<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant<|channel|>commentary "
        "to=functions.get_weather ", "<|constrain|>", "json<|message|>" + ARGUMENTS, "<|call|>", "never told"]}

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.ends = make_model(folder, cls.SCRIPTS)
        cls.server = cls.enterClassContext(Server("--model", folder, "--served-model-name", "scripts", "--device", "cpu"))

    def seen(self, messages, tools=(), **fields):
        """What the model sees."""
        body = {"model": "scripts", "messages": messages, **fields}
        if tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        ids = self.client.post("../tokenize", body=body, cast_to=object)["tokens"]
        return self.client.post("../detokenize", body={"model": "scripts", "tokens": ids}, cast_to=object)["prompt"]

    def test_a_call_ends_the_turn(self):
        choice = self.chat(QUESTION).choices[0]
        self.assertEqual((choice.finish_reason, choice.stop_reason), ("tool_calls", self.ends[2]))

    def test_without_tools(self):
        answer = self.client.chat.completions.create(model="scripts", messages=QUESTION, temperature=0)
        message = answer.choices[0].message
        self.assertEqual((answer.choices[0].finish_reason, message.reasoning, message.tool_calls),
                         ("stop", self.REASONING, None))
        self.assertEqual(message.content, f"{self.CONTENT}\n{ARGUMENTS}")

    def test_tokens_that_are_asked_for(self):
        """Special tokens are no secret to who wants them, and change nothing of the answer."""
        choice = self.chat(QUESTION, logprobs=True).choices[0]
        tokens = [token.token for token in choice.logprobs.content]
        self.assertEqual((tokens[0], tokens[-1]), ("<|channel|>", "<|call|>"))
        message = self.client.chat.completions.create(
            model="scripts", messages=QUESTION, temperature=0, extra_body={"skip_special_tokens": False}).choices[0].message
        self.assertEqual((message.reasoning, message.content), (self.REASONING, f"{self.CONTENT}\n{ARGUMENTS}"))

    def test_what_the_model_sees(self):
        seen = self.seen(QUESTION)
        today = {f"{(datetime.datetime.now() + datetime.timedelta(days=days)).date()}" for days in (-1, 0)}
        self.assertIn(seen, {"<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
                             f"Knowledge cutoff: 2024-06\nCurrent date: {date}\n\nReasoning: medium\n\n"
                             "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
                             "<|start|>user<|message|>Weather?<|end|><|start|>assistant" for date in today})
        call = ("<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>" + ARGUMENTS + "<|call|>"
                '<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>"result 0"<|end|>')
        history = self.history()
        del history[1]["content"]
        seen = self.seen(history, tools=[WEATHER, NOW])
        self.assertIn("namespace functions {\n\n// The weather\ntype get_weather = (_: {\ncity?: string,\n", seen)
        self.assertTrue(seen.endswith("<|start|>assistant<|channel|>analysis<|message|>I should\nlook.<|end|>" + call
                                      + "<|start|>assistant"), seen)
        # The reasoning before the final answer goes.
        later = self.seen([*history, {"role": "assistant", "reasoning": "no", "content": "Warm."}, QUESTION[0]])
        self.assertNotIn("<|channel|>analysis", later)
        self.assertIn(call + "<|start|>assistant<|channel|>final<|message|>Warm.<|end|><|start|>user", later)
        developer = self.seen([{"role": "developer", "content": "Be brief."}, QUESTION[0]])
        self.assertIn("<|end|><|start|>developer<|message|># Instructions\n\nBe brief.\n\n<|end|>", developer)
        # As Codex sends them: instructions, and a developer's message among the input.
        both = self.seen([{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}, QUESTION[0]])
        self.assertIn("# Instructions\n\nBe brief.\n\nBe kind.\n\n<|end|><|start|>user", both)

    def test_the_effort_of_reasoning(self):
        for fields, effort in (({"reasoning_effort": "low"}, "low"), ({"reasoning_effort": None}, "medium"),
                               ({"chat_template_kwargs": {"reasoning_effort": "high"}}, "high"),
                               ({"chat_template_kwargs": {"reasoning_effort": "high"}, "reasoning_effort": "low"}, "low")):
            self.assertIn(f"\n\nReasoning: {effort}\n\n", self.seen(QUESTION, **fields))
        lengths = []
        for fields in ({"reasoning_effort": "low"}, {"reasoning_effort": "medium"}, {"reasoning_effort": "low", "tool_choice":
                       {"type": "function", "function": {"name": "now"}}}):
            lengths.append(self.chat(QUESTION, **fields).usage.prompt_tokens)
        self.assertEqual(lengths[1] - lengths[0], len("medium") - len("low"))
        forced = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>"
        spelled = len(forced) - sum(len(tag) - 1 for tag in ("<|channel|>", "<|constrain|>", "<|message|>"))
        self.assertEqual(lengths[2] - lengths[0], spelled)
        counts = []
        for effort in ("low", "high"):
            response = self.client.responses.create(model="scripts", input="Weather?", temperature=0,
                                                    reasoning={"effort": effort, "summary": "auto"})
            self.assertEqual(response.reasoning.effort, effort)
            count = self.client.post("responses/input_tokens", cast_to=object, body={
                "model": "scripts", "input": "Weather?", "reasoning": {"effort": effort}})["input_tokens"]
            self.assertEqual(count, response.usage.input_tokens)
            counts.append(count)
        self.assertEqual(counts[1] - counts[0], 1)


class FinalAnswerTest(unittest.TestCase):
    def test_an_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            ends = make_model(folder, {"after t": ["<|channel|>", "analysis", "<|message|>", "Well.", "<|end|>", "<|start|>",
                                                   "assistant<|channel|>final<|message|>  Two.\n", "<|return|>", "never"]})
            with Server("--model", folder, "--served-model-name", "scripts", "--device", "cpu") as server:
                client = hybrid_chats_test.openai.OpenAI(base_url=f"http://{server.target}/v1", api_key="none", timeout=120)
                self.addCleanup(client.close)
                answer = client.chat.completions.create(model="scripts", messages=QUESTION, temperature=0)
                choice = answer.choices[0]
                self.assertEqual((choice.message.reasoning, choice.message.content), ("Well.", "  Two.\n"))
                self.assertEqual((choice.finish_reason, choice.stop_reason), ("stop", ends[0]))
                # Cut off anywhere, a header says nothing and a text is as far as it came.
                for limit in range(1, answer.usage.completion_tokens):
                    message = client.chat.completions.create(model="scripts", messages=QUESTION, temperature=0,
                                                             max_tokens=limit).choices[0].message
                    reasoning, content = message.reasoning or "", message.content or ""
                    self.assertTrue("Well.".startswith(reasoning) and "  Two.\n".startswith(content), (reasoning, content))
                    self.assertTrue(not content or reasoning == "Well.", (reasoning, content))



if __name__ == "__main__":
    main()
