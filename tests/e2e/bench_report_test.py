"""What quire-bench makes of results: compare, sweep and the pages of report and timeline, these in a headless Chromium;
pictures are written to build/page/."""

import base64
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from bench_test import BenchTestCase, bench
from harness import AT_LENGTH, BENCH, ROOT, SMALL_CACHE, Server, ServerTestCase, free_port, main

PICTURES = ROOT / "build/page"
HOSTILE = "<img src=x onerror=\"document.title='hostile'\"><script>document.title='hostile'</script>"
SHORT = ("--input-len", 30, "--output-len", 12)
VIEWS = ((1280, "light"), (390, "dark"), *(((1280, "dark"), (390, "light")) if AT_LENGTH else ()))

try:
    import axe_core_python
    from browser import start_browser
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    HAS_BROWSER = True
except ImportError:
    HAS_BROWSER = False


class CompareTest(BenchTestCase, ServerTestCase):
    def save(self, name, *arguments):
        path = self.folder / name
        bench("serve", "--target", self.server.target, *SHORT, "--save-detailed", "--json", path, *arguments)
        return path

    def test_compares_runs_and_fails_on_a_regression(self):
        a = self.save("a.json", "--num-prompts", 120, "--max-concurrency", 1, "--seed", 3)
        b = self.save("b.json", "--num-prompts", 120, "--seed", 4)  # all at once: the first token takes longer
        run = bench("compare", a, a, "--fail-if", "p99_ttft>+0%", "--fail-if", "output_throughput<-0%", "--json",
                    self.json_file)
        self.assertIn("no clear change", run.stdout)
        self.assertEqual(run.stderr, "")
        self.assertIn("drawn together", run.stdout)
        result = json.loads(self.json_file.read_text())
        self.assertTrue(result["paired"])
        self.assertEqual(result["figures"]["mean_ttft_ms"]["interval"], [0, 0])
        run = bench("compare", a, b, "--fail-if", "p99_ttft>+5%", "--fail-if", "failed>0", code=1)
        self.assertIn("FAIL p99_ttft>+5%", run.stdout)
        self.assertIn("pass failed>0", run.stdout)
        self.assertNotIn("drawn together", run.stdout)
        self.assertIn("not the same seed: 3", run.stderr)
        self.assertIn("not the same max_concurrency", run.stderr)
        again = [bench("compare", a, b, "--seed", 5).stdout for _ in range(2)]
        self.assertEqual(*again)
        self.assertIn(f"A  {a}, {a}", bench("compare", a, a, "--against", b).stdout)

    def test_says_what_is_wrong(self):
        a = self.save("a.json", "--num-prompts", 2)
        for text, fragment in (("[]", "no JSON object"), ("{}", "none of the keys"), ('{"ttfts": 1}', '"ttfts"')):
            broken = self.folder / "broken.json"
            broken.write_text(text)
            self.assert_refused(fragment, "compare", a, broken, code=66)
            self.assert_refused(fragment, "report", broken, "--html", "x.html", code=66)
        for command in ("startup", "kernels", "timeline", "quality"):
            broken.write_text(json.dumps({"command": command, "first_token_ms": {"mean": []}, "steps": 5, "results": [[]]}))
            self.assert_refused(f"a result of {command}", "compare", a, broken, code=66)
            bench("report", broken, "--html", self.folder / "x.html")
        self.assert_refused("no.json: cannot be read", "compare", a, "no.json", code=66)
        self.assert_refused("two files", "compare", a)
        self.assert_refused("is no bound", "compare", a, a, "--fail-if", "p99_ttft")
        self.assert_refused("--html: cannot write", "report", a, "--html", "no/such.html")
        self.assert_refused("--html is missing", "report", a)
        self.assert_refused("which results?", "report", "--html", "x.html")
        self.assert_refused("is one of the results", "report", a, "--html", a)

    def test_without_requests_there_is_no_interval(self):
        path = self.folder / "bare.json"
        bench("serve", "--target", self.server.target, *SHORT, "--num-prompts", 3, "--json", path)
        run = bench("compare", path, path)
        self.assertIn(f"no interval: {path} has no requests of its own (save it with --save-detailed)", run.stdout)


class SweepTest(BenchTestCase, ServerTestCase):
    def sweep(self, *arguments, **kwargs):
        return self.result("sweep", "--target", self.server.target, *SHORT, *arguments, **kwargs)

    def test_finds_the_rate_that_is_too_much(self):
        # Not more than one at a time: waiting in the client for a second is what no good request does.
        result, run = self.sweep("--from", 50, "--point-seconds", 1, "--max-concurrency", 1, "--goodput", "ttft:100",
                                 "--precision", 0.5, "--max-points", 12)
        found = result["saturation"]
        self.assertIsNotNone(found["first_bad"])
        self.assertIn(found["sentence"], run.stdout)
        loads = [point["load"] for point in result["points"]]
        self.assertEqual(loads[0], 50)
        self.assertEqual(len({point["seed"] for point in result["points"]}), len(loads))
        for point in result["points"]:
            self.assertEqual(point["verdict"] == "good", point["load"] < found["first_bad"], point["load"])
            self.assertEqual(point["completed"] + point["failed"], point["num_prompts"])
            self.assertEqual(point["request_rate"], point["load"])

    def test_by_concurrency_and_given_loads(self):
        result, _ = self.sweep("--by", "concurrency", "--values", "1,3", "--num-prompts", 9)
        self.assertEqual([(point["load"], point["max_concurrency"], point["completed"]) for point in result["points"]],
                         [(1, 1, 9), (3, 3, 9)])

    def test_conversations_with_an_empty_cache_for_each_load(self):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": [100 + i] * 64, "session_id": i // 2, "output_tokens": 4}) + "\n"
                                   for i in range(6)))
        lines = self.folder / "sweeps.jsonl"
        for flush, cached in (("--flush-cache",), 0), ((), 3 * 48):
            bench("sweep", "--target", self.server.target, "--values", "50,60", "--num-prompts", 3, "--dataset-name", "custom",
                  "--dataset-path", prompts, *flush, "--save-result", "--append-result", "--result-filename", lines)
            last = json.loads(lines.read_text().splitlines()[-1])["points"][-1]
            self.assertEqual([turn["completed"] for turn in last["turns"]], [3, 3])
            self.assertEqual(last["turns"][0]["cached_input_tokens"], cached)
        self.assertEqual(len(lines.read_text().splitlines()), 2)
        bench("report", lines, "--html", self.folder / "sweeps.html")

    def test_results_survive_an_interruption(self):
        process = subprocess.Popen([BENCH, "sweep", "--target", self.server.target, "--values", "40,1", "--point-seconds",
                                    "1000", "--num-prompts", "30", "--json", self.json_file], stdout=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                if line.startswith("40 requests/s"):
                    break
            self.server.wait_until_busy()
            process.send_signal(signal.SIGINT)
            self.assertIn("interrupted; results so far", process.stdout.read())
            self.assertEqual(process.wait(timeout=60), 130)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        result = json.loads(self.json_file.read_text())
        self.assertIs(result["interrupted"], True)
        self.assertEqual([point["load"] for point in result["points"]], [40])

    def test_refusals(self):
        for fragment, *flags in (("--request-rate", "--request-rate", 3), ("no whole number", "--by", "concurrency", "--values", 1.5),
                                 ("--from is more", "--from", 9, "--to", 8), ("--trace-file", "--trace-file", "x"),
                                 ("--save-dataset", "--save-dataset", self.folder / "x"), ("--max-concurrency", "--by", "concurrency", "--max-concurrency", 3)):
            self.assert_refused(fragment, "sweep", *flags)
        self.assert_refused("no server answers", "sweep", "--target", f"127.0.0.1:{free_port()}", code=69)
        self.assert_refused("no request of", "sweep", "--target", self.server.target, "--backend", "openai", "--endpoint",
                            "/nowhere", "--from", 1000, "--num-prompts", 30, code=1)


@unittest.skipUnless(HAS_BROWSER, "no Chromium or selenium; tools/test installs them")
class PageTest(BenchTestCase):
    @classmethod
    def setUpClass(cls):
        PICTURES.mkdir(parents=True, exist_ok=True)
        cls.files = pathlib.Path(tempfile.mkdtemp(prefix="quire_report_"))
        cls.addClassCleanup(shutil.rmtree, cls.files)
        with Server() as server:
            for name, rate in (("calm", 40), ("busy", 90)):
                bench("serve", "--target", server.target, "--num-prompts", 150, "--request-rate", rate, "--input-len", 60,
                      "--output-len", 30, "--save-detailed", "--goodput", "ttft:100", "--label", name, "--json", cls.files / f"{name}.json")
            bench("sweep", "--target", server.target, "--values", "20,60,200,600", "--point-seconds", 1, *SHORT, "--json",
                  cls.files / "sweep.json")
            prompts = cls.files / "prompts.jsonl"
            prompts.write_text("".join(json.dumps({"prompt": [100 + i] * 64, "session_id": i // 3, "output_tokens": 8}) + "\n"
                                       for i in range(18)))
            bench("serve", "--target", server.target, "--dataset-name", "custom", "--dataset-path", prompts, "--num-prompts", 6,
                  "--save-detailed", "--label", "conversations", "--json", cls.files / "conversations.json")
            items = cls.files / "items.jsonl"
            items.write_text("".join((ROOT / "configs/demo/heldout.jsonl").read_text().splitlines(keepends=True)[:8]))
            bench("quality", "--target", server.target, "--dataset-path", items, "--json", cls.files / "quality.json")
        bench("timeline", "--batch-size", 4, "--context", 60, "--num-steps", 20, *SMALL_CACHE, "--html", cls.files / "timeline.html",
              "--json", cls.files / "timeline.json")
        bench("startup", "--num-starts", 2, "--idle-seconds", "0.1", *SMALL_CACHE, "--json", cls.files / "startup.json")
        for name in ("before", "after"):
            bench("kernels", "--only", "steps", "--batch-sizes", "1,3", "--context", 40, "--prefill-len", 20,
                  "--json", cls.files / f"{name}.json")
        for name, *cases in (("attention-table",), ("cascade",), ("ragged",), ("sampling", "--cases", "k 50")):
            bench("kernels", "--only", name, *cases, "--json", cls.files / f"{name}.json")
        for name in ("latency", "throughput"):
            bench(name, "--input-len", 40, "--output-len", 8, *SMALL_CACHE, "--save-detailed", "--json", cls.files / f"{name}.json")
        others = ("conversations", "quality", "timeline", "startup", "latency", "throughput")
        bench("report", *[cls.files / f"{name}.json" for name in others], "--html", cls.files / "others.html")
        kernels = ("before", "after", "attention-table", "cascade", "ragged", "sampling")
        bench("report", *[cls.files / f"{name}.json" for name in kernels], "--html", cls.files / "kernels.html")
        bench("report", cls.files / "calm.json", cls.files / "busy.json", cls.files / "sweep.json", "--title", "Calm and busy",
              "--html", cls.files / "report.html")
        bench("report", *[cls.files / "calm.json", cls.files / "busy.json"] * 4, "--html", cls.files / "many.html")
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def open(self, path, width=1280, scheme="light"):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 800})
        self.browser.get(f"file://{path}")

    def plot(self, title):
        return next(one for one in self.browser.find_elements(By.CSS_SELECTOR, ".plot")
                    if one.find_element(By.TAG_NAME, "h3").text == title)

    def point_at(self, plot, x, y):
        """The tip when the mouse stands so far from the middle of the plot's area."""
        area = plot.find_element(By.CSS_SELECTOR, ".area")
        ActionChains(self.browser).move_to_element_with_offset(area, x, y).perform()
        return plot.find_element(By.CSS_SELECTOR, ".tip")

    def test_pages_are_whole_and_for_everybody(self):
        """Nothing from outside, nothing beyond the window's edge, no serious finding of axe, nothing on the console."""
        axe = (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
        for name in ("report", "many", "timeline", "others", "kernels"):
            for width, scheme in VIEWS:
                for log in ("browser", "performance"):
                    self.browser.get_log(log)
                self.open(self.files / f"{name}.html", width, scheme)
                height = self.browser.execute_script("return document.documentElement.scrollHeight")
                shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {
                    "x": 0, "y": 0, "width": width, "height": min(height, 8000), "scale": 1}})["data"]
                (PICTURES / f"bench-{name}-{width}-{scheme}.png").write_bytes(base64.b64decode(shot))
                self.assertLessEqual(*self.browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]"))
                self.assertLess(self.browser.execute_script(  # no name is a letter a line
                    "return Math.max(0, ...[...document.querySelectorAll('th')].map(one => one.offsetHeight))"), 180)
                self.browser.execute_script(axe)
                found = self.browser.execute_async_script("axe.run().then(arguments[0])")["violations"]
                self.assertEqual([(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found
                                  if one["impact"] in ("serious", "critical")], [], (name, width, scheme))
                self.assertEqual(self.browser.get_log("browser"), [])
                asked = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
                self.assertEqual([one["params"]["request"]["url"] for one in asked if one["method"] == "Network.requestWillBeSent"
                                  and not one["params"]["request"]["url"].startswith(("file:", "data:"))], [])

    def test_shows_the_runs_side_by_side(self):
        self.open(self.files / "report.html")
        self.assertEqual(self.browser.title, "Calm and busy")
        text = self.browser.find_element(By.TAG_NAME, "body").text
        for part in ("calm", "busy", "Output tokens per second", "Time to first token", "Requests in flight",
                     json.loads((self.files / "sweep.json").read_text())["saturation"]["sentence"]):
            self.assertIn(part, text)
        p99 = json.loads((self.files / "busy.json").read_text())["p99_ttft_ms"]
        self.assertIn(f"{p99:,.0f}" if p99 >= 100 else f"{p99:.3g}", text)
        paths = self.plot("Inter-token latency").find_elements(By.CSS_SELECTOR, "path.line")
        self.assertEqual(len(paths), 2)
        self.assertGreater(len(self.plot("Throughput over load").find_elements(By.CSS_SELECTOR, ".mark")), 0)

    def test_tells_numbers_to_the_mouse_and_to_the_keys(self):
        self.open(self.files / "report.html")
        plot = self.plot("Time to first token")
        area = plot.find_element(By.CSS_SELECTOR, ".area")
        tip = self.point_at(plot, 0, 0)
        self.assertRegex(tip.text, r"p\d+.*\n.*calm: [\d.,]+ ms\n.*busy: [\d.,]+ ms")
        self.browser.execute_script("arguments[0].focus()", area)
        area.send_keys(Keys.HOME)
        self.assertIn("p0", area.get_attribute("aria-valuetext"))
        area.send_keys(Keys.END)
        self.assertIn("p99", area.get_attribute("aria-valuetext"))
        area.send_keys(Keys.ESCAPE)
        self.assertFalse(tip.is_displayed())

    def test_every_command_has_its_section(self):
        """With the numbers of the files, whatever else is on the page."""
        self.open(self.files / "others.html")
        text = self.browser.find_element(By.TAG_NAME, "body").text
        read = {path.stem: json.loads(path.read_text()) for path in self.files.glob("*.json")}

        def shown(value):
            if value >= 100:
                return f"{value:,.0f}"
            return (f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}").rstrip("0").rstrip(".")

        ends = [span.text for span in self.plot("From the start of the process").find_elements(By.CSS_SELECTOR, ".ends span")]
        self.assertEqual(ends[1:], [f"{shown(read['startup'][key]['mean'])} ms" for key in ("listening_ms", "first_token_ms")])
        ends = [span.text for span in self.plot("Time to first token by turn").find_elements(By.CSS_SELECTOR, ".ends span")]
        self.assertEqual([end.split(" ms")[0] for end in ends],
                         [shown(turn["median_ttft_ms"]) for turn in read["conversations"]["turns"]])
        self.assertEqual(len(ends), 3)
        for part in ("Whole batch, ms", "Timeline", f"Tokens per second {shown(read['timeline']['tokens_per_s'])}", "Quality",
                     "Perplexity" if "perplexity" in read["quality"]["results"]["total"] else "Exact match, %"):
            self.assertIn(part, text)
        self.assertEqual(len(self.plot("Inter-token latency").find_elements(By.CSS_SELECTOR, "path.line")), 3)

        self.open(self.files / "kernels.html")
        step = read["before"]["steps"][1]
        plot = self.plot(step["title"])
        names = [span.text for span in plot.find_elements(By.CSS_SELECTOR, ".ys span")]
        self.assertEqual(names, [name for row in step["operations"] for name in (f"{row['op']} {row['shape']}", "")])
        ends = [span.text for span in plot.find_elements(By.CSS_SELECTOR, ".ends span")]
        after = read["after"]["steps"][1]["operations"]
        for i, (first, second) in enumerate(zip(step["operations"], after, strict=True)):
            self.assertTrue(ends[2 * i].endswith(" us"), ends[2 * i])
            self.assertTrue(ends[2 * i + 1].endswith(f", {first['us'] / second['us']:.2f}×"), (ends[2 * i + 1], first, second))
        self.plot("Attention paths")
        self.plot("Decodes that share a prefix")
        self.plot("Sampling")
        self.plot("Prompts whose new tokens are read where a gemm leaves them")

    def test_lists_of_bars_tell_their_numbers_to_the_mouse_and_to_the_keys(self):
        self.open(self.files / "kernels.html")
        before, after = (json.loads((self.files / f"{name}.json").read_text())["steps"][0] for name in ("before", "after"))
        plot = self.plot(before["title"])
        area = plot.find_element(By.CSS_SELECTOR, ".area")
        bars = plot.find_elements(By.CSS_SELECTOR, "rect")
        names = [f"{run}, {row['op']} {row['shape']}: " for rows in zip(before["operations"], after["operations"], strict=True)
                 for run, row in zip(("before", "after"), rows) if row["share_of_limit"] <= 1]  # else it has no bar
        self.assertEqual([bar.get_attribute("data-text")[:len(name)] for bar, name in zip(bars, names, strict=True)], names)
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", area)
        # Right of the last bar, in its line: it may be too short to point at.
        middle = (float(bars[-1].get_attribute("y")) + float(bars[-1].get_attribute("height")) / 2) / 1000 - 0.5
        tip = self.point_at(plot, area.size["width"] // 2 - 3, round(middle * area.size["height"]))
        self.assertIn(names[-1], tip.text)
        box, rect = tip.rect, bars[-1].rect
        self.assertLess(abs(box["y"] - rect["y"] - rect["height"]), 12)  # beside it, however long the list is
        self.browser.execute_script("arguments[0].focus()", area)
        for key, name in ((Keys.HOME, names[0]), (Keys.ARROW_DOWN, names[1]), (Keys.ARROW_UP, names[0])):
            area.send_keys(key)
            self.assertIn(name, area.get_attribute("aria-valuetext"))
        self.assertEqual(len(plot.find_elements(By.CSS_SELECTOR, "rect.told")), 1)
        area.send_keys(Keys.ESCAPE)
        self.assertFalse(tip.is_displayed())
        self.assertEqual(plot.find_elements(By.CSS_SELECTOR, "rect.told"), [])

    def test_zooms(self):
        self.open(self.files / "timeline.html")
        plot = self.browser.find_element(By.CSS_SELECTOR, ".plot")
        area = plot.find_element(By.CSS_SELECTOR, ".area")
        sheet = plot.find_element(By.CSS_SELECTOR, ".sheet")
        whole = sheet.size["width"]
        ticks = plot.find_element(By.CSS_SELECTOR, ".xs").text
        ActionChains(self.browser).move_to_element_with_offset(area, -100, 0).click_and_hold().move_by_offset(200, 0).release().perform()
        self.assertAlmostEqual(sheet.size["width"] / whole, area.size["width"] / 200, delta=0.2)
        self.assertNotEqual(plot.find_element(By.CSS_SELECTOR, ".xs").text, ticks)
        self.browser.execute_script("arguments[0].focus()", area)
        area.send_keys("0")
        self.assertEqual(sheet.size["width"], whole)
        self.assertEqual(plot.find_element(By.CSS_SELECTOR, ".xs").text, ticks)
        area.send_keys("+")
        self.assertAlmostEqual(sheet.size["width"], 2 * whole, delta=2)
        self.assertRegex("\n".join(bar.get_attribute("data-text") for bar in plot.find_elements(By.CSS_SELECTOR, "rect")),
                         r"step \d+ on the device: [\d.]+ us\nstep \d+, schedule: [\d.]+ us")
        self.assertTrue(any(label.is_displayed() for label in plot.find_elements(By.CSS_SELECTOR, ".bar-label b")))

    def test_nothing_of_a_file_is_markup(self):
        result = json.loads((self.files / "busy.json").read_text())
        for key in ("label", "machine", "backend", "target", "model_id", "time"):
            result[key] = HOSTILE
        result["problems"] = [{"problem": HOSTILE, "count": HOSTILE}]
        result["workload"][HOSTILE] = HOSTILE
        path = self.folder / f"{HOSTILE.replace('/', '')}.json"
        path.write_text(json.dumps(result))
        bench("report", path, "--title", HOSTILE, "--html", self.folder / "x.html")
        self.open(self.folder / "x.html")
        self.assertEqual(self.browser.title, HOSTILE)
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "img, body script:not(:last-of-type)"), [])
        self.assertIn("<img src=x", self.browser.find_element(By.TAG_NAME, "body").text)


if __name__ == "__main__":
    main()
