"""The page at / in a headless Chromium: plots, the chat, keys, hostile text, and what it looks like: pictures are
written to build/page/."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import ROOT, Server, main, packages

with packages():
    import axe_core_python
    from browser import start_browser
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

PICTURES = ROOT / "build/page"
AXE = pathlib.Path(axe_core_python.__file__).parent / "axe.min.js"
HOSTILE = "<img src=x onerror=\"document.title='hostile'\"><script>document.title='hostile'</script>\u202ex"
SAMPLE = """## Two ways

`sorted(list)` makes a *new* list, `list.sort()` changes **the same** one ([more](https://docs.python.org/3/howto/sorting.html)).

```python
def by_length(words: list[str]) -> list[str]:
    return sorted(words, key=len)  # stable: words of one length keep their order, however many of them there are in the list
```

1. By name
   - ascending
   - descending
2. By length

| Way | Makes a copy | Cost |
|:----|:------------:|-----:|
| `sorted` | yes | n log n |
| `list.sort` | no | n log n |

> A stable sort keeps the order of equal elements.
"""
KEYS = {"user": "the-key-of-the-user", "boss": "the-key-of-the-boss", "both": "the-key-of-everything"}
ROLES = {"user": ["inference"], "boss": ["admin"], "both": ["inference", "admin"]}
# Remembers what the chat asks for, and changes it as `change` says.
RECORD = """
window.bodies = [];
const send = window.fetch;
window.fetch = (path, options) => {
  if (path !== "/v1/chat/completions") return send(path, options);
  const body = JSON.parse(options.body);
  window.bodies.push(body);
  return send(path, {...options, body: JSON.stringify({...body, ...arguments[0]})});
};"""
# Answers the chat's next question itself.
ANSWER = """
const [status, headers, body] = arguments;
const send = window.fetch;
window.fetch = (path, options) => {
  if (path !== "/v1/chat/completions") return send(path, options);
  window.fetch = send;
  return Promise.resolve(new Response(body, {status, headers}));
};"""
# The next answer comes as `push(delta, reason)` says; it ends with a reason.
STREAM = """
const send = window.fetch;
window.fetch = (path, options) => {
  if (path !== "/v1/chat/completions") return send(path, options);
  window.fetch = send;
  window.asked = JSON.parse(options.body);
  return Promise.resolve(new Response(new ReadableStream({start(controller) {
    let tokens = 0;
    options.signal.addEventListener("abort", () => controller.error(options.signal.reason));
    window.push = (delta, reason = null) => {
      const event = {choices: [{delta, finish_reason: reason}], usage: {completion_tokens: ++tokens}};
      controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(event)}\\n\\n`));
      if (reason) controller.close();
    };
  }})));
};"""


class PageTestCase(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        PICTURES.mkdir(parents=True, exist_ok=True)
        cls.server = Server(*cls.FLAGS)
        cls.addClassCleanup(cls.server.__exit__)
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.origin = f"http://127.0.0.1:{self.server.port}"
        self.size(1440, 900)
        self.browser.get(self.origin)
        self.browser.execute_script("sessionStorage.clear(); localStorage.clear()")
        for log in ("browser", "performance"):
            self.browser.get_log(log)
        self.browser.get(self.origin)

    def tearDown(self):
        """Whatever a test does, the page says nothing on the console and asks nobody else."""
        told = [entry["message"] for entry in self.browser.get_log("browser") if not self.is_refusal(entry)]
        self.assertEqual(told, [])
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                self.assertTrue(url.startswith((self.origin + "/", "data:")), url)

    @staticmethod
    def is_refusal(entry):
        """Browsers report each answer of 400 and above, and each server that is gone."""
        return entry["source"] == "network"

    def size(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800})

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def wait(self, condition, what):
        return WebDriverWait(self.browser, 60, 0.05).until(lambda _: condition(), what)

    def wait_until_shown(self, selector):
        self.wait(lambda: any(node.is_displayed() for node in self.all(selector)), f"{selector} is not shown")

    def ask(self, question):
        """Types it, and waits for the end of the answer; returns its text."""
        self.wait_until_shown("#prompt")
        count = len(self.all(".turn"))
        self.one("#prompt").send_keys(question + Keys.ENTER)
        self.wait(lambda: len(self.all(".turn")) > count, "no turn")
        self.wait(lambda: not self.all(".reply.open"), "no end of the answer")
        return self.script("return [...document.querySelectorAll('.reply .text')].pop().textContent")

    def check(self, name):
        """A picture, nothing beyond the window's edge, and no serious finding of axe."""
        self.browser.save_screenshot(str(PICTURES / f"{name}.png"))
        self.assertLessEqual(*self.script("return [document.documentElement.scrollWidth, innerWidth]"))
        self.script(AXE.read_text())
        found = self.browser.execute_async_script("axe.run().then(arguments[0])")["violations"]
        grave = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found
                 if one["impact"] in ("serious", "critical")]
        self.assertEqual(grave, [], name)


class StatusPageTest(PageTestCase):
    def test_plots_show_the_load(self):
        self.assertEqual(self.ask("What is 2 + 3?"), "5")
        self.wait(lambda: len(self.all(".plot")) == 6, "six plots")
        generated = "[...document.querySelectorAll('.plot')][0].querySelector('.line.series-0').getAttribute('d')"
        self.wait(lambda: "L" in self.script(f"return {generated}"), "no line")
        self.wait(lambda: "–" not in self.all(".plot")[2].find_element(By.CSS_SELECTOR, "b").text, "no percentile")
        self.assertIn("demo", self.one("#model").text)
        self.assertIn("serving", self.one("#state").text)
        self.wait_until_shown("#requests tr")
        self.assertIn("stop", self.one("#requests tr").text)
        self.assertIn("peer:127.0.0.1", self.one("#requests tr").text)

    def test_plots_tell_every_moment_to_the_keyboard(self):
        self.wait(lambda: self.script("return statusView.samples.length") > 2, "no samples")
        area = self.one(".area")
        self.script("arguments[0].focus()", area)
        area.send_keys(Keys.HOME)
        self.assertTrue(self.one(".tip").is_displayed())
        self.assertEqual(area.get_attribute("aria-valuenow"), "0")
        self.assertIn("generated", area.get_attribute("aria-valuetext"))
        area.send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(area.get_attribute("aria-valuenow"), "1")

    def test_percentiles_are_of_what_lies_between_two_readings(self):
        of = "return percentile({bounds: [1, 2, 4], counts: arguments[0]}, {bounds: [1, 2, 4], counts: arguments[1]}, arguments[2])"
        self.assertIsNone(self.script(of, [1, 2, 3, 4], [1, 2, 3, 4], 0.5))
        self.assertEqual(self.script(of, [9, 0, 0, 0], [9, 0, 4, 0], 0.5), 3)
        self.assertEqual(self.script(of, [0, 0, 0, 0], [2, 2, 0, 0], 0.75), 1.5)
        self.assertEqual(self.script(of, [0, 0, 0, 0], [0, 0, 0, 1], 0.5), 4)

    def test_asks_nothing_while_nobody_looks(self):
        self.wait(lambda: self.script("return statusView.samples.length") > 0, "no samples")
        asked = self.browser.execute_async_script("""
            const [done] = arguments;
            const send = window.fetch;
            let count = 0;
            const hide = (hidden) => {
              Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
              document.dispatchEvent(new Event("visibilitychange"));
            };
            const begin = () => {
              if (statusView.polling) return setTimeout(begin, 5);
              window.fetch = (...all) => { ++count; return send(...all); };
              hide(true);
              statusView.schedule(0);
              setTimeout(() => {
                const whileHidden = count;
                hide(false);
                window.fetch = send;
                done([whileHidden, count]);
              }, 50);
            };
            begin();""")
        self.assertEqual(asked, [0, 1])

    def test_hostile_names_are_text(self):
        body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "request_id": HOSTILE, "max_tokens": 4})
        self.script("fetch('/v1/chat/completions', {method: 'POST', body: arguments[0],"
                    " headers: {'content-type': 'application/json'}})", body)
        self.wait(lambda: "<img src=x" in self.script("return $('requests').textContent"), "no such id")
        self.assertNotEqual(self.browser.title, "hostile")
        self.assertEqual(self.all("#requests img, #requests script"), [])

    def test_survives_a_restart(self):
        server = Server()
        self.addCleanup(server.__exit__)
        self.origin = f"http://127.0.0.1:{server.port}"
        self.browser.get(self.origin)
        self.wait(lambda: "serving" in self.one("#state").text, "not serving")
        self.browser.get_log("performance")
        server.stop()
        self.wait(lambda: "does not answer" in self.one("#notice").text, "nothing is said of the end")
        self.assertIn("no answer", self.one("#state").text)
        server.process = subprocess.Popen(server.process.args, stdout=server.log, stderr=subprocess.STDOUT)
        self.wait(lambda: "started anew" in self.one("#notice").text, "nothing is said of the new one")
        self.assertIn("serving", self.one("#state").text)
        self.assertEqual(self.ask("What is 2 + 3?"), "5")


class ChatTest(PageTestCase):
    def test_keeps_the_conversation(self):
        self.script(RECORD, {})
        self.assertEqual(self.ask("What is 2 + 3?"), "5")
        self.assertEqual(self.ask("What is 4 + 4?"), "8")
        self.assertEqual([message["content"] for message in self.script("return bodies[1].messages")],
                         ["What is 2 + 3?", "5", "What is 4 + 4?"])
        self.assertIn("tokens/s", self.one(".foot").text)
        self.one("#new-chat").click()
        self.assertEqual(self.all(".turn"), [])
        self.ask("What is 1 + 1?")
        self.assertEqual(len(self.script("return bodies[2].messages")), 1)

    def test_sends_settings_that_are_set(self):
        self.script(RECORD, {})
        self.ask("What is 2 + 3?")
        plain = self.script("return bodies[0]")
        self.assertEqual(set(plain), {"model", "messages", "stream", "stream_options"})
        self.one(".settings summary").click()
        values = {"temperature": "0.5", "top-p": "0.9", "top-k": "40", "min-p": "0.05", "max-tokens": "3", "seed": "7",
                  "presence-penalty": "0.1", "frequency-penalty": "-0.2", "repetition-penalty": "1.1", "system": "Be brief.",
                  "stop-texts": "END\n\\n\\n"}
        for name, value in values.items():
            self.one(f"#{name}").send_keys(value)
        self.one("#new-chat").click()
        self.ask("What is 2 + 4?")
        sent = self.script("return bodies[1]")
        self.assertEqual({name: sent[name] for name in sent.keys() - plain.keys()},
                         {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_tokens": 3, "seed": 7,
                          "presence_penalty": 0.1, "frequency_penalty": -0.2, "repetition_penalty": 1.1,
                          "stop": ["END", "\n\n"]})
        self.assertEqual(sent["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertEqual(self.all(".reply .error"), [])
        self.one("#max-tokens").send_keys(Keys.BACKSPACE, "0")  # no such number
        self.one("#prompt").send_keys("x" + Keys.ENTER)
        self.assertEqual(len(self.script("return bodies")), 2)
        self.browser.refresh()  # they are kept
        self.wait_until_shown("#prompt")
        self.assertEqual({name: self.one(f"#{name}").get_attribute("value") for name in values}, {**values, "max-tokens": "0"})
        self.one(".settings summary").click()
        self.one("#reset").click()
        self.assertEqual(self.one("#seed").get_attribute("value"), "")

    def test_stop_ends_the_request(self):
        """Esc at the first words; the server has nothing left to do."""
        self.script(RECORD, {"ignore_eos": True, "max_tokens": 4000})
        self.script("""
            new MutationObserver((_, observer) => {
              const text = document.querySelector(".reply .text");
              if (!text || !text.textContent) return;
              observer.disconnect();
              document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
            }).observe($("messages"), {subtree: true, childList: true, characterData: true});""")
        self.assertNotEqual(self.ask("What is 2 + 3?"), "")
        self.assertIn("stopped", self.one(".foot").text)
        status = self.server.wait_until_idle()
        self.assertEqual((status.running_sequences, status.waiting_requests, status.active_streams), (0, 0, 0))
        self.wait(lambda: "cancelled" in self.script("return $('requests').textContent"), "no cancelled request")
        self.assertTrue(self.one("#send").is_displayed())

    def test_the_first_tab_leads_to_the_chat(self):
        self.size(390, 844)
        self.wait_until_shown("#status")
        self.assertFalse(self.one("#chat").is_displayed())
        webdriver.ActionChains(self.browser).send_keys(Keys.TAB, Keys.ENTER).perform()
        self.wait(lambda: self.script("return document.activeElement.id") == "prompt", "the prompt has no focus")

    def test_shift_and_enter_begin_a_line(self):
        self.wait_until_shown("#prompt")
        self.one("#prompt").send_keys("a" + Keys.SHIFT + Keys.ENTER + Keys.NULL + "b")
        self.assertEqual(self.one("#prompt").get_attribute("value"), "a\nb")
        self.assertEqual(self.all(".turn"), [])

    def test_says_when_to_come_back(self):
        body = json.dumps({"error": {"message": "the queue is full"}})
        self.script(ANSWER, 429, {"retry-after": "7"}, body)
        self.ask("What is 2 + 3?")
        self.assertIn("the queue is full. Come back in 7 s.", self.one(".reply .error").text)
        self.one(".settings summary").click()
        self.check("error")
        self.one(".reply .error button").click()
        self.wait(lambda: self.script("return [...document.querySelectorAll('.reply .text')].pop().textContent") == "5",
                  "no answer to the second attempt")
        self.assertEqual(self.all(".reply .error"), [])

    def test_says_what_the_server_refuses(self):
        self.script(RECORD, {"max_tokens": -1})
        self.ask("What is 2 + 3?")
        self.assertIn("max_tokens", self.one(".reply .error").text)

    def test_hostile_answers_are_text(self):
        events = [{"choices": [{"delta": {"content": HOSTILE}, "finish_reason": None}]},
                  {"choices": [{"delta": {}, "finish_reason": HOSTILE}]}]
        stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.script(ANSWER, 200, {"content-type": "text/event-stream"}, stream)
        self.assertEqual(self.ask(HOSTILE.replace("\u202e", "")), HOSTILE)
        self.script(ANSWER, 500, {}, json.dumps({"error": {"message": HOSTILE}}))
        self.ask("again")
        self.assertIn(HOSTILE, self.script("return document.querySelector('.reply .error span').textContent"))
        self.assertNotEqual(self.browser.title, "hostile")
        self.assertEqual(self.all("#messages img, #messages script"), [])

    def test_a_stream_that_breaks_is_no_answer(self):
        part = json.dumps({"choices": [{"delta": {"content": "half"}, "finish_reason": None}]})
        self.script(ANSWER, 200, {"content-type": "text/event-stream"}, f"data: {part}\n\n")
        self.assertEqual(self.ask("What is 2 + 3?"), "half")
        self.assertIn("connection broke", self.one(".reply .error").text)


class AnswerTest(PageTestCase):
    """What an answer may hold, as it comes."""

    def begin(self, question="Well?"):
        self.wait_until_shown("#prompt")
        self.script(STREAM)
        self.one("#prompt").send_keys(question + Keys.ENTER)
        self.wait(lambda: self.script("return window.push !== undefined"), "not asked")

    def push(self, delta, reason=None):
        self.script("push(arguments[0], arguments[1])", delta, reason)

    def end(self):
        self.push({}, "stop")
        self.wait(lambda: not self.all(".reply.open"), "no end of the answer")

    def test_reasoning_comes_in_a_folded_block(self):
        self.begin()
        self.push({"reasoning": "Let me ", "reasoning_content": "Let me "})
        self.wait_until_shown(".reasoning summary")
        self.assertEqual(self.one(".reasoning summary").text, "Thinking…")
        self.assertFalse(self.one(".thoughts").is_displayed())
        self.one(".reasoning summary").click()
        self.push({"reasoning_content": "**think**."})  # either name
        self.wait(lambda: self.one(".thoughts").text == "Let me think.", "not the thoughts")
        self.push({"content": "Yes"})
        self.wait(lambda: self.one(".reasoning summary").text.startswith("Thought for "), "thinks on")
        self.end()
        self.assertEqual(self.one(".reply .text").text, "Yes")
        self.script(RECORD, {})
        self.ask("What is 2 + 3?")
        self.assertEqual(self.script("return bodies[0].messages[1]"), {"role": "assistant", "content": "Yes"})

    def test_markdown_is_shown_as_it_comes(self):
        self.begin()
        for part in ("## Title\n\nSome **bo", "ld** words\n\n```py\nx = 1"):
            self.push({"content": part})
        self.wait(lambda: self.all(".reply pre"), "no code")
        self.assertEqual([self.one(f".reply {name}").text for name in ("h5", "strong", "pre", ".code-head span")],
                         ["Title", "bold", "x = 1", "py"])
        self.script("window.heading = document.querySelector('.reply h5')")
        self.push({"content": "\ny = 2\n```\n"})
        self.end()
        self.assertEqual(self.one(".reply pre").text, "x = 1\ny = 2")
        self.assertTrue(self.script("return heading === document.querySelector('.reply h5')"))

    def test_copies(self):
        self.begin()
        self.push({"content": "*a*\n\n```\nx  = 1\n\ty\n```\n"})
        self.end()
        self.script("window.copied = []; navigator.clipboard.writeText = (text) => { copied.push(text); return Promise.resolve(); }")
        self.one(".code-head button").click()
        self.one(".foot button").click()
        self.assertEqual(self.script("return copied"), ["x  = 1\n\ty", "*a*\n\n```\nx  = 1\n\ty\n```\n"])
        self.wait(lambda: self.one(".foot button").text == "Copied", "nothing is said")

    def test_copies_without_a_clipboard(self):
        """As on a page that came without TLS."""
        self.begin()
        self.push({"content": "*a*"})
        self.end()
        self.script("navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'));"
                    "document.execCommand = (name) => { window.copied = [name, document.activeElement.value]; }")
        self.one(".foot button").click()
        self.wait(lambda: self.script("return window.copied") == ["copy", "*a*"], "not copied")
        self.assertEqual(self.all(".reply textarea"), [])

    def test_calls_of_tools_can_be_read_and_answered(self):
        self.wait_until_shown("#prompt")
        self.one(".settings summary").click()
        self.one("#tool-list").send_keys("{}")
        self.one("#prompt").send_keys("x" + Keys.ENTER)  # no list: nothing is asked
        self.assertEqual(self.all(".turn"), [])
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}]
        self.one("#tool-list").clear()
        self.one("#tool-list").send_keys(json.dumps(tools))
        self.one("#prompt").clear()
        self.one(".settings summary").click()
        self.begin("How is the weather?")
        self.assertEqual(self.script("return asked.tools"), tools)
        self.push({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}]})
        for part in ('{"city": "<b>Ro', 'me"}'):
            self.push({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
        self.push({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "now", "arguments": "{broken"}}]}, "tool_calls")
        self.wait(lambda: not self.all(".reply.open"), "no end")
        self.assertEqual([node.text for node in self.all(".call .code-head span")], ["calls get_weather", "calls now"])
        self.assertEqual([node.text for node in self.all(".call pre")], ['{\n  "city": "<b>Rome"\n}', "{broken"])
        self.script("window.push = undefined;" + STREAM)
        for area, text in zip(self.all(".results textarea"), ("sunny", "noon")):
            area.send_keys(text)
        self.one(".results button").click()
        self.wait(lambda: self.script("return window.push !== undefined"), "not asked")
        self.assertEqual(self.script("return asked.messages"), [
            {"role": "user", "content": "How is the weather?"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "<b>Rome"}'}},
                {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{broken"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"}, {"role": "tool", "tool_call_id": "c2", "content": "noon"}])
        self.push({"content": "It is sunny."})
        self.end()
        self.browser.refresh()
        self.wait(lambda: len(self.all(".turn")) == 2, "not kept")
        self.assertIn("get_weather: sunny", self.script("return document.querySelectorAll('.asked')[1].textContent"))

    def test_the_server_says_what_is_wrong_in_the_stream(self):
        part = json.dumps({"choices": [{"delta": {"content": "half"}, "finish_reason": None}]})
        error = json.dumps({"error": {"message": "The device failed."}})
        self.script(ANSWER, 200, {"content-type": "text/event-stream"}, f"data: {part}\n\ndata: {error}\n\ndata: [DONE]\n\n")
        self.assertEqual(self.ask("What is 2 + 3?"), "half")
        self.assertEqual(self.one(".reply .error span").text, "The device failed.")

    def test_a_fast_answer_is_drawn_once_a_frame(self):
        """Not for each token: what a frame shows is all that has come."""
        self.begin()
        drawn = self.browser.execute_async_script("""
            const [done] = arguments;
            let count = 0;
            const append = Markdown.prototype.append;
            Markdown.prototype.append = function (text) { ++count; return append.call(this, text); };
            let frames = 0;
            const tick = () => { ++frames; requestAnimationFrame(tick); };
            tick();
            for (let i = 0; i < 2000; ++i) push({content: `word${i} `});
            const wait = () => {
              if (!document.querySelector(".reply .text").textContent.includes("word1999")) return setTimeout(wait, 5);
              Markdown.prototype.append = append;
              done([count, frames]);
            };
            wait();""")
        self.assertLessEqual(drawn[0], drawn[1] + 1)
        self.end()


class ThinkingTest(PageTestCase):
    """The bundled model has no such switch: its answers about prompts are replaced."""

    TOKENIZE = """
        const send = window.fetch;
        window.fetch = (path, options) => {
          if (path !== "/tokenize") return send(path, options);
          const {enable_thinking: on} = JSON.parse(options.body).chat_template_kwargs || {};
          return Promise.resolve(new Response(JSON.stringify({tokens: (on ?? arguments[0]) ? [1] : [1, 2]})));
        };
        return chat.settings.findThinking(chat.model);"""

    def test_none_where_the_model_has_none(self):
        self.wait_until_shown("#prompt")
        self.browser.execute_async_script("chat.settings.findThinking(chat.model).then(arguments[0])")
        self.assertFalse(self.one("#thinking").is_displayed())

    def test_the_switch_is_sent_where_it_differs_from_the_model(self):
        for itself in (True, False):
            self.wait_until_shown("#prompt")
            self.script(self.TOKENIZE, itself)
            self.wait_until_shown("#thinking")
            self.assertEqual(self.one("#thinking").get_attribute("aria-pressed"), str(itself).lower())
            self.script(RECORD, {})
            self.ask("What is 2 + 3?")
            self.assertNotIn("chat_template_kwargs", self.script("return bodies[0]"))
            self.one("#thinking").click()
            self.assertEqual(self.one("#thinking").get_attribute("aria-pressed"), str(not itself).lower())
            self.ask("What is 2 + 4?")
            self.assertEqual(self.script("return bodies[1].chat_template_kwargs"), {"enable_thinking": not itself})
            self.script("localStorage.clear()")
            self.browser.refresh()


class ConversationTest(PageTestCase):
    def titles(self):
        return self.script("return [...document.querySelectorAll('#list .title')].map((node) => node.textContent)")

    def questions(self):
        return self.script("return [...document.querySelectorAll('.asked .text')].map((node) => node.textContent)")

    def open_chat(self):
        self.wait_until_shown("#views")
        self.one("button[data-view=chat]").click()

    def test_the_view_is_in_the_address(self):
        self.wait_until_shown("#status")
        self.assertTrue(self.one("#chat").is_displayed())  # beside it
        self.one("button[data-view=chat]").click()
        self.assertEqual(self.browser.current_url, f"{self.origin}/#chat")
        self.assertFalse(self.one("#status").is_displayed())
        self.assertGreater(self.one("#chat").size["width"], 1200)
        self.browser.refresh()
        self.wait_until_shown("#sidebar")
        self.assertFalse(self.one("#status").is_displayed())
        self.browser.back()
        self.wait_until_shown("#status")
        self.browser.forward()
        self.wait_until_shown("#sidebar")
        self.assertFalse(self.one("#status").is_displayed())

    def test_conversations_survive_a_reload(self):
        self.open_chat()
        self.ask("What is 2 + 3?")
        self.one("#new-chat").click()
        self.ask("What is 4 + 4?")
        self.ask("What is 1 + 1?")
        self.assertEqual(self.titles(), ["What is 4 + 4?", "What is 2 + 3?"])
        foot = self.one(".foot").text
        self.browser.refresh()
        self.wait(lambda: self.questions() == ["What is 4 + 4?", "What is 1 + 1?"], "not the open one")
        self.assertEqual(self.script("return document.querySelector('.reply .text').textContent"), "8")
        self.assertIn("tokens/s", foot)
        self.assertIn(self.one(".foot span").text, foot)
        self.all("#list .title")[1].click()
        self.assertEqual(self.questions(), ["What is 2 + 3?"])
        self.script(RECORD, {})
        self.ask("What is 3 + 3?")
        self.assertEqual([message["content"] for message in self.script("return bodies[0].messages")],
                         ["What is 2 + 3?", "5", "What is 3 + 3?"])
        self.assertEqual(self.titles()[0], "What is 2 + 3?")  # the newest one

    def test_deletes_one_and_all_after_a_question(self):
        self.open_chat()
        for question in ("What is 2 + 3?", "What is 4 + 4?", "What is 1 + 1?"):
            self.one("#new-chat").click()
            self.ask(question)
        remove = self.all("#list .delete")[0]
        remove.click()
        self.assertEqual(len(self.titles()), 3)
        self.one("#prompt").click()  # not meant
        self.assertEqual(remove.text, "×")
        remove.click()
        remove.click()
        self.assertEqual(self.titles(), ["What is 4 + 4?", "What is 2 + 3?"])
        self.assertEqual(self.questions(), [])  # it was open
        self.one("#delete-all").click()
        self.one("#delete-all").click()
        self.assertEqual(self.titles(), [])
        self.browser.refresh()
        self.wait_until_shown("#no-conversations")

    def test_an_edited_question_begins_from_there(self):
        self.ask("What is 2 + 3?")
        self.ask("What is 4 + 4?")
        self.script(RECORD, {})
        edit = self.all(".question .act")[0]
        edit.click()
        self.one(".edit textarea").send_keys(Keys.ESCAPE)  # not meant
        self.assertEqual(len(self.all(".turn")), 2)
        edit.click()
        self.one(".edit textarea").clear()
        self.one(".edit textarea").send_keys("What is 1 + 1?" + Keys.ENTER)
        self.wait(lambda: self.script("return bodies.length === 1") and not self.all(".reply.open"), "not asked")
        self.assertEqual(self.questions(), ["What is 1 + 1?"])
        self.assertEqual(self.script("return bodies[0].messages"), [{"role": "user", "content": "What is 1 + 1?"}])
        self.assertEqual(self.script("return document.querySelector('.reply .text').textContent"), "2")

    def test_regenerates_the_last_answer(self):
        self.ask("What is 2 + 3?")
        self.ask("What is 4 + 4?")
        self.script(RECORD, {})
        again = [node for node in self.all(".again") if node.is_displayed()]
        self.assertEqual(len(again), 1)
        again[0].click()
        self.wait(lambda: self.script("return bodies.length === 1") and not self.all(".reply.open"), "not asked")
        self.assertEqual(self.questions(), ["What is 2 + 3?", "What is 4 + 4?"])
        self.assertEqual([message["content"] for message in self.script("return bodies[0].messages")],
                         ["What is 2 + 3?", "5", "What is 4 + 4?"])

    def test_half_an_answer_is_kept_when_the_page_goes(self):
        self.wait_until_shown("#prompt")
        self.script(STREAM)
        self.one("#prompt").send_keys("Well?" + Keys.ENTER)
        self.wait(lambda: self.script("return window.push !== undefined"), "not asked")
        self.script("push({content: 'half of'})")
        self.wait(lambda: self.one(".reply .text").text == "half of", "no text")
        self.browser.refresh()
        self.wait(lambda: self.questions() == ["Well?"], "not kept")
        self.assertEqual([self.one(".reply .text").text, self.one(".foot span").text], ["half of", "stopped"])

    def test_a_full_browser_is_said_and_loses_nothing(self):
        self.ask("What is 2 + 3?")
        self.script("Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }")
        self.one("#new-chat").click()
        self.assertEqual(self.ask("What is 4 + 4?"), "8")
        self.assertIn("no room", self.one("#chat-notice").text)
        self.assertEqual(self.ask("What is 1 + 1?"), "2")
        self.browser.refresh()
        self.open_chat()
        self.wait(lambda: self.titles() == ["What is 2 + 3?"], "lost")

    def test_what_is_kept_is_bounded(self):
        sizes = self.script("""
            const all = new Conversations(() => {});
            for (let i = 0; i < 150; ++i) {
              all.save({...makeConversation(), title: `t${i}`, time: i, turns: [makeTurnData("x".repeat(20000), [])]});
            }
            const names = all.list().map(({title}) => title);
            const chars = all.list().reduce((sum, {size}) => sum + size, 0);
            let trouble = "";
            new Conversations((sentence) => { trouble = sentence; })
              .save({...makeConversation(), title: "big", time: 999, turns: [makeTurnData("x".repeat(1100000), [])]});
            return [names.length, names[0], chars, new Conversations(() => {}).list().length, trouble];""")
        self.assertEqual(sizes[:2], [99, "t149"])
        self.assertLessEqual(sizes[2], 2000000)
        self.assertEqual(sizes[3], 99)
        self.assertIn("too long", sizes[4])

    def test_what_others_wrote_into_the_storage_breaks_nothing(self):
        wrong = ["", "{", "[]", "null", "5", '{"title": 1}', '{"title": "a", "time": 1, "turns": {}}']
        odd = {"title": HOSTILE, "time": 1, "turns": [None, 5, {"question": 7}, {"question": HOSTILE, "content": [], "calls": [
            None, {"name": 1}], "results": "x", "error": {}, "reasoning": None, "thinkingMs": "x"}]}
        self.script("arguments[0].forEach((text, i) => localStorage.setItem(`quire.conversation.${i}`, text));"
                    "localStorage.setItem('quire.conversation.odd', arguments[1]); localStorage.setItem('quire.settings', '[');",
                    wrong, json.dumps(odd))
        self.browser.refresh()
        self.open_chat()
        self.wait(lambda: len(self.titles()) == 1, "not one")
        self.one("#list .title").click()
        self.assertEqual(self.questions(), [HOSTILE])
        self.assertEqual(self.ask("What is 2 + 3?"), "5")
        self.assertNotEqual(self.browser.title, "hostile")

    def test_another_tab_shows_what_this_one_keeps(self):
        self.open_chat()
        self.ask("What is 2 + 3?")
        first = self.browser.current_window_handle
        self.browser.switch_to.new_window("tab")
        self.browser.get(f"{self.origin}/#chat")
        self.wait(lambda: self.titles() == ["What is 2 + 3?"], "not in the other tab")
        self.assertEqual(self.questions(), [])  # which begins a new one
        self.ask("What is 4 + 4?")
        self.browser.close()
        self.browser.switch_to.window(first)
        self.wait(lambda: self.titles() == ["What is 4 + 4?", "What is 2 + 3?"], "not in this tab")
        self.assertEqual(self.questions(), ["What is 2 + 3?"])

    def test_by_keyboard_and_on_a_phone(self):
        self.ask("What is 2 + 3?")
        self.size(390, 844)
        self.open_chat()
        self.assertFalse(self.one("#sidebar").is_displayed())
        self.script("$('show-list').focus()")
        webdriver.ActionChains(self.browser).send_keys(Keys.ENTER).perform()
        self.assertTrue(self.one("#sidebar").is_displayed())
        self.script("document.querySelector('#list .title').focus()")
        webdriver.ActionChains(self.browser).send_keys(Keys.ENTER).perform()
        self.assertFalse(self.one("#sidebar").is_displayed())
        self.assertEqual(self.questions(), ["What is 2 + 3?"])
        self.script("$('show-list').click()")
        webdriver.ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        self.assertFalse(self.one("#sidebar").is_displayed())


class KeyTest(PageTestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="quire_page_"))
        cls.addClassCleanup(shutil.rmtree, folder)
        keys = folder / "keys"
        keys.write_text("".join(json.dumps({"key": key, "name": name, "roles": ROLES[name]}) + "\n"
                                for name, key in KEYS.items()))
        cls.FLAGS = ("--api-key-file", str(keys))
        super().setUpClass()

    def enter(self, key):
        self.wait_until_shown("#key")
        self.one("#key").clear()
        self.one("#key").send_keys(key + Keys.ENTER)

    def forget(self):
        """What was said goes with the key, and so is asked for."""
        self.one("#forget").click()
        self.assertEqual(self.one("#forget").text, "Forget key and chats?")
        self.one("#forget").click()

    def shown(self):
        return [name for name in ("key-form", "status", "chat") if self.one(f"#{name}").is_displayed()]

    def test_asks_for_a_key(self):
        self.wait_until_shown("#key")
        self.assertEqual(self.shown(), ["key-form"])
        self.check("key")
        self.enter("not-a-key-of-this-server")
        self.wait(lambda: "does not know" in self.one("#key-error").text, "nothing is said of a wrong key")
        self.assertIsNone(self.script("return sessionStorage.getItem('quire.key')"))
        self.enter(KEYS["both"])
        self.wait_until_shown("#status")
        self.assertEqual(self.shown(), ["status", "chat"])
        self.assertEqual(self.ask("What is 2 + 3?"), "5")
        self.assertEqual(self.script("return document.cookie"), "")
        self.assertNotIn(KEYS["both"], self.script("return JSON.stringify(localStorage)"))
        self.browser.refresh()
        self.wait_until_shown("#chat")
        self.forget()
        self.wait_until_shown("#key")
        self.assertEqual(self.script("return [sessionStorage.length, localStorage.length]"), [0, 0])

    def test_shows_what_the_key_is_for(self):
        self.enter(KEYS["user"])
        self.wait_until_shown("#chat")
        self.assertEqual(self.shown(), ["chat"])
        self.check("chat-only")
        self.assertEqual(self.ask("What is 2 + 3?"), "5")
        self.forget()
        self.enter(KEYS["boss"])
        self.wait_until_shown("#status")
        self.assertEqual(self.shown(), ["status"])
        self.wait(lambda: "user" in self.script("return $('requests').textContent"), "not the user's request")


class LooksTest(PageTestCase):
    def test_pictures(self):
        self.ask("What is 2 + 3?")
        self.ask("Sort: pear, apple, fig")
        self.one("#new-chat").click()
        events = [{"choices": [{"delta": delta, "finish_reason": None}]}
                  for delta in ({"reasoning": "The user wants all of it."}, {"content": SAMPLE})]
        events.append({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 200}})
        stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        self.script(ANSWER, 200, {"content-type": "text/event-stream"}, stream)
        self.ask("How are lists sorted in Python?")
        self.wait(lambda: self.script("return statusView.samples.length") > 3, "no samples")
        for scheme in ("light", "dark"):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": scheme}]})
            self.size(1440, 900)
            for view in ("status", "chat"):
                self.one(f"button[data-view={view}]").click()
                self.check(f"wide-{view}-{scheme}")
            self.size(390, 844)
            for view in ("status", "chat"):
                self.one(f"button[data-view={view}]").click()
                self.check(f"narrow-{view}-{scheme}")
            self.one("#show-list").click()
            self.check(f"narrow-list-{scheme}")
            self.one("#show-list").click()


if __name__ == "__main__":
    main()
