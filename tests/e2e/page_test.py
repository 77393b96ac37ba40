"""The page at / in a headless Chromium: plots, the chat, keys, hostile text, and what it looks like: pictures are
written to build/page/."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import ROOT, Server, main

if not shutil.which("chromium") or not shutil.which("chromedriver"):
    print("skipped: no Chromium; tools/test installs the Debian packages chromium and chromium-driver")
    sys.exit(77)
try:
    import axe_core_python
    from browser import start_browser
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError as error:
    print(f"skipped: {error}; tools/test installs tests/requirements.txt")
    sys.exit(77)

PICTURES = ROOT / "build/page"
AXE = pathlib.Path(axe_core_python.__file__).parent / "axe.min.js"
HOSTILE = "<img src=x onerror=\"document.title='hostile'\"><script>document.title='hostile'</script>\u202ex"
KEYS = {"user": "the-key-of-the-user", "boss": "the-key-of-the-boss", "both": "the-key-of-everything"}
ROLES = {"user": ["inference"], "boss": ["admin"], "both": ["inference", "admin"]}
# Remembers what the chat asks for, and changes it as `change` says.
RECORD = """
window.bodies = [];
const send = window.fetch;
window.fetch = (path, options) => {
  if (!options || !options.body) return send(path, options);
  const body = JSON.parse(options.body);
  window.bodies.push(body);
  return send(path, {...options, body: JSON.stringify({...body, ...arguments[0]})});
};"""
# Answers the chat's next question itself.
ANSWER = """
const [status, headers, body] = arguments;
const send = window.fetch;
window.fetch = (path, options) => {
  if (!options || !options.body) return send(path, options);
  window.fetch = send;
  return Promise.resolve(new Response(body, {status, headers}));
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
        self.browser.execute_script("sessionStorage.clear()")
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
        self.one("#clear").click()
        self.assertEqual(self.all(".turn"), [])
        self.ask("What is 1 + 1?")
        self.assertEqual(len(self.script("return bodies[2].messages")), 1)

    def test_sends_settings_that_are_set(self):
        self.script(RECORD, {})
        self.ask("What is 2 + 3?")
        plain = self.script("return bodies[0]")
        self.one(".settings summary").click()
        for name, value in {"temperature": "0.5", "top-p": "0.9", "max-tokens": "3", "seed": "7", "system": "Be brief."}.items():
            self.one(f"#{name}").send_keys(value)
        self.one("#clear").click()
        self.ask("What is 2 + 4?")
        sent = self.script("return bodies[1]")
        self.assertEqual({name: sent[name] for name in sent.keys() - plain.keys()},
                         {"temperature": 0.5, "top_p": 0.9, "max_tokens": 3, "seed": 7})
        self.assertEqual(sent["messages"][0], {"role": "system", "content": "Be brief."})
        self.one("#max-tokens").send_keys(Keys.BACKSPACE, "0")  # no such number
        self.one("#prompt").send_keys("x" + Keys.ENTER)
        self.assertEqual(len(self.script("return bodies")), 2)

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
        self.assertIn(HOSTILE, self.script("return document.querySelector('.error span').textContent"))
        self.assertNotEqual(self.browser.title, "hostile")
        self.assertEqual(self.all("#messages img, #messages script"), [])

    def test_a_stream_that_breaks_is_no_answer(self):
        part = json.dumps({"choices": [{"delta": {"content": "half"}, "finish_reason": None}]})
        self.script(ANSWER, 200, {"content-type": "text/event-stream"}, f"data: {part}\n\n")
        self.assertEqual(self.ask("What is 2 + 3?"), "half")
        self.assertIn("connection broke", self.one(".reply .error").text)


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
        self.assertEqual(self.script("return [localStorage.length, document.cookie]"), [0, ""])
        self.browser.refresh()
        self.wait_until_shown("#chat")
        self.one("#forget").click()
        self.wait_until_shown("#key")
        self.assertEqual(self.script("return sessionStorage.length"), 0)

    def test_shows_what_the_key_is_for(self):
        self.enter(KEYS["user"])
        self.wait_until_shown("#chat")
        self.assertEqual(self.shown(), ["chat"])
        self.check("chat-only")
        self.assertEqual(self.ask("What is 2 + 3?"), "5")
        self.one("#forget").click()
        self.enter(KEYS["boss"])
        self.wait_until_shown("#status")
        self.assertEqual(self.shown(), ["status"])
        self.wait(lambda: "user" in self.script("return $('requests').textContent"), "not the user's request")


class LooksTest(PageTestCase):
    def test_pictures(self):
        self.ask("What is 2 + 3?")
        self.ask("Sort: pear, apple, fig")
        self.wait(lambda: self.script("return statusView.samples.length") > 3, "no samples")
        for scheme in ("light", "dark"):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": scheme}]})
            self.size(1440, 900)
            self.check(f"wide-{scheme}")
            self.size(390, 844)
            for view in ("status", "chat"):
                self.one(f"button[data-view={view}]").click()
                self.check(f"narrow-{view}-{scheme}")


if __name__ == "__main__":
    main()
