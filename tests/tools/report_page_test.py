"""The scripts of quire-bench's pages in a headless Chromium, without a run: axes and plots, what a report shows of each
kind of result, which rows of several results belong together, and that a file may have anything in any key."""

import copy
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
try:
    from browser import start_browser
except ImportError as error:
    print(f"skipped: {error}; tools/test installs it")
    sys.exit(77)

SHARED = ROOT / "server/surfaces/web/page"
PAGE = ROOT / "tools/bench/report/page"
SCRIPTS = "".join([*((SHARED / f"{name}.js").read_text() for name in ("elements", "plot")),
                   *((PAGE / f"{name}.js").read_text() for name in ("values", "tables", "runs", "requests", "sweeps", "kernels",
                                                                   "stages", "report"))])
HELPERS = SCRIPTS + r"""
const page = (results, figures = []) => {
  const root = element("main", "", ...reportOf({results, figures}));
  return root;
};
const rowsOf = (root) => [...root.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent).join(" | "));
const endsOf = (root) => [...root.querySelectorAll(".ends span")].map((span) => span.textContent);
const barsOf = (root) => [...root.querySelectorAll("rect")].map((rect) => rect.dataset.text);
"""
HOSTILE = "</script><img src=x onerror=alert(1)>"


def summary(mean):
    return {"count": 2, "mean": mean, "min": mean - 1, "p50": mean, "p90": mean, "p99": mean + 0.5, "max": mean + 1}


def named(name, result, colour=0, requests=None):
    kinds = ("startup", "kernels", "timeline", "quality", "sweep")
    kind = result["command"] if result.get("command") in kinds else "run"
    own = {"name": name, "kind": kind, "colour": colour, "json": result}
    return own | ({"doubts": [], "why_no_requests": "" if requests else "none", **({"requests": requests} if requests else {})}
                  if kind == "run" else {})


STARTUP = {"command": "startup", "server_flags": ["--model", "folder"], "interrupted": False,
           "listening_ms": summary(80), "first_token_ms": summary(95),
           "stage_ms": {"program": summary(25), "device": summary(0), "weights": summary(50)},
           "starts": [{"listening_ms": 79, "first_token_ms": 94.2}, {"listening_ms": 81, "first_token_ms": 96.8}],
           "idle_cpu_percent": 0.12, "resident_bytes": 100 << 20}
TIMELINE = {"command": "timeline", "title": "a device", "steps": 129, "wall_us": 121500, "busy_us": 118800, "idle_share": 0.0225,
            "tokens_per_s": 4245, "period_us": summary(942), "gap_us": summary(22),
            "host_us": {"schedule": summary(3), "wait": summary(877)}}
QUALITY = {"command": "quality", "failed": 2, "unasked": 0,
           "results": {"sums": {"exact_match": 0.875, "num_right": 7}, "total": {"exact_match": 0.875, "perplexity": 12.5, "acc": 0.5}},
           "comparison": {"num_compared": 8, "share_identical": 0.75}}
CONVERSATIONS = {"command": "serve", "output_throughput": 30, "mean_ttft_ms": 12, "turns": [
    {"turn": 1, "completed": 6, "cached_share": 0, "median_ttft_ms": 16.5},
    {"turn": 2, "completed": 5, "cached_share": 0.4375, "median_ttft_ms": 26, "p99_ttft_ms": 29.5}]}
SWEEP = {"command": "sweep", "by": "request-rate", "saturation": {"last_good": 2, "sentence": HOSTILE}, "points": [
    *({"load": load, "output_throughput": 100 * load, "median_ttft_ms": 5, "p99_ttft_ms": 9, "verdict": HOSTILE} for load in (4, 1, 2)),
    "nonsense"]}


def operation(op, shape, count, us, share):
    return {"op": op, "shape": shape, "count": count, "us": us, "tb_s": 1.25, "tflops": 2.5, "limit_us": us * share, "share_of_limit": share}


def kernels(factor=1):
    return {
        "command": "kernels",
        "steps": [{"title": "decode, batch 1", "us": 200 * factor, "share_of_limit": 0.5, "operations": [
            operation("linear", "1 x 512", 8, 10 * factor, 0.625), operation("sample", "1 x 2048", 1, 3 * factor, 0.25)]}],
        "attention": [operation("native", "decode 4 x 1024", 1, 40 * factor, 0.75) | {"plan_us": 7.5}],
        "attention_table": [{"phase": "decode", "kv_dtype": "bfloat16", "head_dim": 64, "num_seqs": 4, "query_len": 1, "seq_len": 512,
                             "us": {"native": 20 * factor, "trtllm": 16 * factor}, "auto": "native", "auto_over_fastest": 1.25}],
        "cascade": [{"num_seqs": 16, "prefix_len": 1024, "rest_len": 256, "plain_us": 300, "cascade_us": 200 * factor, "speedup": 1.5}],
        "ragged": [{"kv_dtype": "fp8_e4m3", "num_seqs": 1, "query_len": 512, "seq_len": 32768, "paged_us": 700, "ragged_us": 560 * factor,
                    "ragged_tflops": 480 / factor, "speedup": 1.25}],
        "linear_table": [operation("bfloat16", "256 -> 512, 1 row", 1, 8 * factor, 0.5) | {"peer": "oneDNN", "peer_us": 12, "times_as_fast": 1.5}],
        "format_table": [{"shape": "256 -> 512", "format": "int8", "rows": 3, "us": 4 * factor, "bfloat16_us": 8, "speedup": 2, "tflops": 1}],
        "skipped": [{"name": "prefill of 9", "needed_bytes": 3 << 29, "free_bytes": 1 << 29}],
        "figures": {"read_ceiling_tb_s": 3.75, "something_new": 12}}


def requests(count, **more):
    """Requests that start every 10 ms, with a token every 10 ms from 20 ms on."""
    start = [0.01 * i for i in range(count)]
    return {"start": start, "first_token": [time + 0.02 for time in start], "end": [time + 0.04 for time in start],
            "ttft_ms": [20] * count, "tpot_ms": [10] * count, "e2el_ms": [40] * count, "output_tokens": [3] * count,
            "itl_ms": [[10, 10]] * count} | more


class ReportPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.get("data:text/html,<body>")

    def script(self, text, *arguments):
        return self.browser.execute_script(HELPERS + text, *arguments)

    def shown(self, *results, figures=()):
        """(text of the page, rows of its tables, ends of its lists, texts of its bars, its HTML)"""
        found = self.script("const root = page(...arguments); return [root.textContent, rowsOf(root), endsOf(root), barsOf(root), root.innerHTML];",
                            list(results), list(figures))
        return found

    def test_axes_have_round_ticks(self):
        ticks = "return arguments[0].map(([kind, value]) => { const axis = Axis[kind]('', value); return axis.ticks().map(axis.text); });"
        self.assertEqual(self.script(ticks, [["linear", 3.3], ["linear", 2500], ["log", [3, 700]], ["log", [0.5, 4000]], ["nines", 1000]]), [
            ["0", "1", "2", "3", "4"],
            ["0", "500", "1,000", "1,500", "2,000", "2,500"],
            ["2", "5", "10", "20", "50", "100", "200", "500", "1,000"],
            ["1", "3", "10", "30", "100", "300", "1,000", "3,000"],
            ["p0", "p50", "p90", "p99", "p99.9"]])
        self.assertTrue(self.script("return [0, -1, NaN, Infinity].every((value) => Axis.linear('', value).ticks().length > 1 && "
                                    "Axis.log('', [value]).ticks().length > 1);"))

    def test_places_are_to_scale(self):
        places = self.script("""const nine = Axis.nines("", 1000);
            const log = Axis.log("", [1, 100]);
            return [Axis.linear("", 10).place(2.5), log.place(10), log.place(0), log.place(1e9), nine.place(90), nine.place(99), nine.place(100)];""")
        for place, want in zip(places, (0.25, 0.5, 0, 1, 1 / 3, 2 / 3, 1), strict=True):
            self.assertAlmostEqual(place, want)

    def test_numbers_for_people(self):
        self.assertEqual(self.script("return arguments[0].map(numberText).concat(numberText(NaN));", [0, 0.00423, 0.5, 12.345, 1234567.8, -1234]),
                         ["0", "0.0042", "0.5", "12.3", "1,234,568", "-1,234", "–"])

    def test_percentiles_are_those_of_the_samples(self):
        plots = self.script("return percentilePlots(arguments[0]).map(({title, table, series}) => [title, table.rows, series[0].points]);",
                            [named("a", {}, requests=requests(101, ttft_ms=list(range(1, 102))))])
        self.assertEqual([title for title, _, _ in plots],
                         ["Time to first token", "Time per output token", "Inter-token latency", "End-to-end latency"])
        _, rows, points = plots[0]
        self.assertEqual((len(rows), rows[5], rows[9]), (10, ["p90", "91"], ["most", "101"]))
        for percent, ms in points:
            self.assertAlmostEqual(ms, 1 + percent, places=6)

    def test_what_came_when_adds_up(self):
        rates, in_flight, dots = self.script("return timePlots(arguments[0]).map(({series}) => series[0].points);",
                                             [named("a", {}, requests=requests(100))])
        width = rates[1][0] - rates[0][0]
        self.assertAlmostEqual(sum(rate * width for _, rate in rates), 300, places=6)
        self.assertAlmostEqual(sum(count * width for _, count in in_flight), 100 * 0.04, places=6)  # of each its latency
        self.assertAlmostEqual(in_flight[10][1], 4, places=6)  # in the middle
        self.assertEqual(len(dots), 100)
        many = self.script("return timePlots(arguments[0])[2].series[0].points.length;", [named("b", {}, requests=requests(20000))])
        self.assertLess(many, 2000)

    def test_gaps_are_where_and_as_often_as_they_were(self):
        some = requests(100)
        some["itl_ms"] = [*some["itl_ms"][:99], [10, 500]]  # one step that took long, at the end
        plots = self.script("return heatPlots(arguments[0]).map(({x, cells, table}) => [x.max, cells, table.rows]);",
                            [named("a", {}, requests=some), named("none", {}, requests=requests(2, ttft_ms=[None, None]))])
        self.assertEqual(len(plots), 1)
        end, cells, rows = plots[0]
        self.assertAlmostEqual(end, 0.99 + 0.02 + 0.51, places=6)
        long = [cell for cell in cells if cell["y"][0] <= 500.1 and cell["y"][1] >= 499.9]
        short = [cell for cell in cells if cell["y"][0] <= 10.001 and cell["y"][1] >= 9.999]
        self.assertEqual((len(long), len(long) + len(short)), (1, len(cells)))
        self.assertIn(": 1 gap of ", long[0]["text"])
        self.assertAlmostEqual(long[0]["x"][1], end, places=6)
        self.assertGreater(len(short), 20)
        self.assertEqual(max(cell["heat"] for cell in cells), 1)
        self.assertEqual(sum(int(row[1]) for row in rows), 200)
        self.assertEqual(rows[-1][-1], "500")

    def test_points_of_a_sweep_are_in_order_and_the_end_is_marked(self):
        plots = self.script("return sweepPlots(arguments[0]).map(({series, marks}) => [series.map(({points}) => points), marks]);",
                            [named("s", SWEEP, 2)])
        self.assertEqual(len(plots), 2)
        self.assertEqual(plots[0][0], [[[1, 100], [2, 200], [4, 400]]])
        self.assertEqual(([mark["x"] for mark in plots[0][1]], plots[1][1]), ([2], [{"x": 200, "text": "saturation, 2 requests/s"}]))
        self.assertEqual(len(plots[1][0]), 2)
        text, rows, _, _, _ = self.shown(named("s", SWEEP | {"by": "concurrency"}))
        self.assertIn("1 at a time | 100 | 5 | 9 | " + HOSTILE, rows)
        self.assertIn("Points of the sweep", text)

    def test_parts_of_bars_follow_each_other_and_rows_have_their_numbers(self):
        rows = [{"name": "first <b>", "end": "75 ms", "dots": [50], "parts": [
            {"length": 25, "colour": "var(--shade-1)", "text": "one"}, {"length": -5, "colour": "red", "text": "less than nothing"},
            {"length": 50, "colour": "blue", "label": "two", "text": "two & more"}]},
            {"name": "", "end": "10 ms", "belongsToLast": True, "parts": [{"length": 10, "colour": "red", "text": "three"}]},
            {"name": "third", "end": "–", "parts": []}]
        bars, paths, ends, names = self.script("""
            const made = barPlotOf({title: "<t>", rows: arguments[0], axis: "ms", least: 100, table: {caption: "", head: [""], rows: []}});
            return [[...made.querySelectorAll("rect")].map((rect) => [rect.dataset.text, ...["x", "y", "width"].map((name) => Number(rect.getAttribute(name)))]),
              Object.fromEntries([...made.querySelectorAll("path")].map((path) => [path.getAttribute("class"), path.getAttribute("d")])),
              endsOf(made), [...made.querySelectorAll(".ys span")].map((span) => span.textContent)];""", rows)
        self.assertEqual(bars, [["one", 0, 40, 250], ["two & more", 250, 40, 500], ["three", 0, 373.3, 100]])
        self.assertEqual(paths["samples"], "M500.0 166.7h0")  # in the middle of its row
        self.assertIn("M0 666.7H1000", paths["grid"])  # above the third row, which begins a group
        self.assertNotIn("M0 333.3H1000", paths["grid"])
        self.assertEqual((ends, names), (["75 ms", "10 ms", "–"], ["first <b>", "", "third"]))

    def test_starts(self):
        _, rows, ends, bars, _ = self.shown(named("cold", STARTUP))
        self.assertEqual(ends, ["75 ms", "80 ms", "95 ms"])
        self.assertEqual(bars, ["program: 25 ms", "weights: 50 ms", "cold, until it listens: 80 ms; each start: 79, 81",
                                "cold, until the first token: 95 ms; each start: 94.2, 96.8"])  # the device took no time
        for row in ("Idle, % of one core | 0.12", "Resident, MiB | 100", "stage device | 2 | 0 | -1 | 0 | 0 | 0.5 | 1",
                    "until the first token | 2 | 95 | 94 | 95 | 95 | 95.5 | 96", "2 | 81 | 96.8"):
            self.assertIn(row, rows)
        self.assertIn("b: stages", self.shown(named("a", STARTUP), named("b", STARTUP, 1))[0])

    def test_rows_of_a_name_belong_together(self):
        before = [{"op": "a", "us": 8}, {"op": "twice", "us": 1}, 5, {"op": "twice", "us": 2}, {"op": "gone", "us": 3}]
        after = [{"op": "new", "us": 4}, {"op": "twice", "us": 1}, {"op": "twice", "us": 0.5}, {"op": "a", "us": 0}]
        rows = self.script("""
            const kind = {...OPERATIONS, nameOf: (row) => textAt(row, "op"), columns: [["us", ["us"]]]};
            return matchedTable("t", kind, [{name: "x"}, {name: "y"}], matchRows(kind, arguments[0])).rows;""", [before, after])
        self.assertEqual(rows, [["a", "8", "–", "0"], ["twice", "1", "1.00×", "1"], ["twice", "2", "4.00×", "0.5"],
                                ["gone", "3", "–", "–"], ["new", "–", "–", "4"]])

    def test_kernels_of_one_result(self):
        text, rows, ends, bars, _ = self.shown(named("a", kernels()))
        for row in ("Reads at most, TB/s | 3.75", "Something new | 12", "linear 1 x 512 | 8 | 10 | 6.25 | 62.5 | 1.25 | 2.5",
                    "native decode 4 x 1024 | 7.5 | 40 | 30 | 75 | 1.25 | 2.5 | –",
                    "bfloat16, heads of 64, decode 4 x 512 | 20 | 16 | 1.25", "bfloat16 256 -> 512, 1 row | 8 | 4 | 50 | 1.25 | 2.5 | 12 | 1.5"):
            self.assertIn(row, rows)
        for part in ("decode, batch 1", "in all 200 us, 50 % of the limit", "a: skipped prefill of 9, which needs 1.5 GiB; 0.5 were free",
                     "trtllm, us", "ragged, TFLOP/s"):
            self.assertIn(part, text)
        self.assertEqual(ends[:2], ["8 × 10 us", "3 us"])
        for bar in ("linear 1 x 512: 8 × 10 us; 62.5 % of the limit", "native decode 4 x 1024: 40 us; 75 % of the limit",
                    "bfloat16, heads of 64, decode 4 x 512: native, 20 us; 80 % of the fastest path's speed",
                    "16 x (1024 shared + 256): 300 → 200 us; 1.5 times as fast as reading the prefix with each sequence",
                    "fp8_e4m3, 1 x 512 of 32768: 700 → 560 us; 1.25 times as fast as reading new tokens from the cache",
                    "int8, 256 -> 512, 3 rows: 8 → 4 us; 2 times as fast as bfloat16"):
            self.assertIn(bar, bars)

    def test_above_a_limit_there_is_no_share_of_it(self):
        result = kernels()
        result["steps"][0]["share_of_limit"] = result["steps"][0]["operations"][0]["share_of_limit"] = 1.37
        result["figures"]["decode_attn_read_ratio"] = 1.02
        text, rows, _, _, _ = self.shown(named("a", result))
        self.assertIn("in all 200 us, –", text)
        self.assertIn("linear 1 x 512 | 8 | 10 | 6.25 | – | 1.25 | 2.5", rows)
        self.assertIn("Decode attention's reads, of the most | –", rows)
        self.assertNotIn("137", text)

    def test_kernels_of_several_results_have_speed_ups(self):
        text, rows, ends, bars, _ = self.shown(named("before", kernels()), named("after", kernels(0.8), 1))
        self.assertEqual(ends[:2], ["8 × 10 us", "8 × 8 us, 1.25×"])
        self.assertTrue(any(bar.startswith("after, linear 1 x 512: 8 × 8 us, 1.25×") for bar in bars))
        self.assertIn("before: in all 200 us, 50 % of the limit; after: in all 160 us", text)
        self.assertIn("after: times as fast", text)
        self.assertIn("decode, batch 1 | 200 | – | 50 | 1.25× | 160 | – | 50", rows)

    def test_steady_decode(self):
        _, rows, ends, bars, _ = self.shown(named("a", TIMELINE))
        for row in ("Tokens per second | 4,245", "Device busy, % | 97.8", "Device idle between steps, % | 2.25", "Step, median, us | 942",
                    "host: wait | 2 | 877 | 876 | 877 | 877 | 878 | 878"):
            self.assertIn(row, rows)
        self.assertEqual((ends, bars), (["942 us", "880 us"], ["idle before the step: 22 us", "step: 920 us", "schedule: 3 us", "wait: 877 us"]))

    def test_steps_of_an_engine_are_to_scale(self):
        steps = [{"step": 2, "device": [25, 100], "host": [[21, 25]]}, {"step": 3, "device": [125, 200], "host": [[121, 125]]}]
        text, bars, labels = self.script("""
            const root = element("main", "", ...stepsOf({timeline: arguments[0]}));
            return [root.textContent, [...root.querySelectorAll("rect")].map((rect) => [rect.dataset.text,
              ...["x", "y", "width"].map((name) => Number(rect.getAttribute(name)))]),
              [...root.querySelectorAll(".bar-label b")].map((label) => label.textContent)];""", {
                "title": "a < b", "num_shown": 2, "span_us": 200, "stages": ["submit"], "json": TIMELINE, "steps": steps})
        self.assertIn("a < b", text)
        self.assertEqual(bars[:2], [["step 2 on the device: 75.0 us", 125, 60, 375], ["step 2, submit: 4.0 us", 105, 560, 20]])
        self.assertEqual(labels[0], "75.0")
        for part in ("2 of 129 steps, from the middle of the run", "97.75 % device busy", "4,245 tokens/s", "942 us a step, median"):
            self.assertIn(part, text)

    def test_what_a_run_does_not_say_is_no_figure(self):
        self.assertIn("10 ms between tokens, median", self.shown(named("a", {"median_itl_ms": 10}))[0])
        self.assertNotIn("between tokens", self.shown(named("a", {"median_itl_ms": None}))[0])

    def test_scores_are_side_by_side(self):
        _, rows, _, bars, _ = self.shown(named("a", QUALITY), named("b", {"command": "quality"}, 1))
        for row in ("Exact match, % | 87.5 | –", "Perplexity | 12.5 | –", "Failed | 2 | –", "Share identical, % | 75 | –"):
            self.assertIn(row, rows)
        self.assertEqual(bars, ["a, sums, exact_match: 87.5 %", "a, total, exact_match: 87.5 %", "a, total, acc: 50 %"])

    def test_conversations_have_a_row_for_each_turn(self):
        single = CONVERSATIONS | {"turns": CONVERSATIONS["turns"][:1]}
        text, rows, ends, bars, _ = self.shown(named("a", CONVERSATIONS), named("single", single, 1))
        self.assertEqual(ends, ["16.5 ms, 0 % cached", "26 ms, 43.8 % cached"])
        self.assertEqual(bars[1], "a, turn 2: 26 ms, 43.8 % cached; p99 29.5 ms")
        self.assertIn("turn 1 | 6 | – | – | 0 | – | – | 16.5 | – | – | –", rows)
        self.assertNotIn("Conversations", self.shown(named("single", single))[0])

    def test_the_summary_loses_nothing_that_commands_tell(self):
        figures = [{"name": name, "kind": kind, "metric": metric} for name, kind, metric in (
            ("output_throughput", "rate", ""), ("p90_ttft_ms", "latency", "ttft"), ("p99_ttft_ms", "latency", "ttft"))]
        figures[1]["best"] = 0
        text, rows, _, _, html = self.shown(
            named("a", {"command": "latency", "output_throughput": 30, "p99_ttft_ms": 9, "p90_ttft_ms": 8, "decode_tokens_per_s": 77,
                        "batch_ms": summary(43.5)}),
            named("b", {"command": "throughput", "output_throughput": 30, "steps": 55, "preemptions": 3, "stopped": 4, "unfinished": 0}, 1),
            figures=figures)
        for row in ("mean | 43.5 | –", "max | 44.5 | –", "Decoded tokens per second, median | 77 | –", "Steps | – | 55", "Preemptions | – | 3",
                    "Stopped | – | 4", "p90 | 8 | –", "p99 | 9 | –", "Output tokens per second | 30 | 30"):
            self.assertIn(row, rows)
        self.assertIn("Whole batch, ms", text)
        self.assertNotIn("Unfinished", text)
        self.assertIn("<b>8</b>", html)

    def test_waiting_for_a_place_is_no_latency_of_the_server(self):
        figures = [{"name": "mean_client_queue_time_ms", "kind": "latency", "metric": "client_queue_time"}]
        for latencies_from in ("due", "sent"):
            result = {"command": "serve", "mean_client_queue_time_ms": 123456, "latencies_from": latencies_from,
                      "client": {"cpu_share": 0.0254582272221}}
            text = self.shown(named("a", result), figures=figures)[0]
            self.assertEqual("123,456" in text, latencies_from == "due")
            self.assertIn("cpu_share 0.025", text)

    def test_a_file_may_have_anything_in_any_key(self):
        """Every value of every kind of result in turn is of another type, or beyond all bounds."""
        wrong = [None, True, -1, 0, 1e308, 1e-310, [], {}, [[1]], {"mean": []}, HOSTILE]
        wholes = [STARTUP, kernels(), TIMELINE, QUALITY, CONVERSATIONS | {"command": "latency", "batch_ms": summary(1)},
                  {"command": "sweep", "points": [{"load": 1, "output_throughput": 3}]}]
        count, bad = self.script("""
            const [wholes, wrong] = arguments;
            const bad = [];
            let count = 0;
            const waysOf = (value, way) => (value === null || typeof value !== "object" ? []
              : Object.keys(value).flatMap((key) => [[...way, key], ...waysOf(value[key], [...way, key])]));
            for (const whole of wholes) {
              for (const way of waysOf(whole.json, [])) {
                for (const value of wrong) {
                  const json = structuredClone(whole.json);
                  way.slice(0, -1).reduce((at, key) => at[key], json)[way[way.length - 1]] = value;
                  ++count;
                  try {
                    const root = page([{...whole, json}, {...whole, name: "right", colour: 1}]);
                    if (!root.textContent.includes("What was run") || root.querySelector("img, script")) bad.push([way, value]);
                  } catch (error) {
                    bad.push([way, value, String(error)]);
                  }
                }
              }
            }
            return [count, bad.slice(0, 5)];""", [named("wrong", whole) for whole in wholes], wrong)
        self.assertEqual(bad, [])
        self.assertGreater(count, 1000)

    def test_names_and_keys_of_files_are_text(self):
        startup, result, timeline, quality = (copy.deepcopy(one) for one in (STARTUP, kernels(), TIMELINE, QUALITY))
        startup["stage_ms"][HOSTILE] = timeline["host_us"][HOSTILE] = summary(5)
        result["steps"][0]["title"] = result["steps"][0]["operations"][0]["op"] = result["skipped"][0]["name"] = HOSTILE
        result["attention_table"][0]["us"][HOSTILE] = result["figures"][HOSTILE] = 5
        result["interrupted"] = True
        quality["results"][HOSTILE] = {HOSTILE: 5, "acc": 0.5}
        run = named(HOSTILE, {"command": "serve", "label": HOSTILE, "workload": {HOSTILE: HOSTILE}, "served": [HOSTILE],
                              "problems": [{"problem": HOSTILE, "count": 2}, 5]}, requests=requests(30))
        text, _, _, _, html = self.shown(named(HOSTILE, startup), named("k", result, 1), named("k2", result, 2), named("t", timeline, 3),
                                         named("q", quality, 4), run | {"doubts": [HOSTILE]}, named(HOSTILE, SWEEP))
        self.assertNotIn("<img", html)
        self.assertNotIn("<script", html)
        self.assertIn("k was interrupted", text)
        for part in ("Time to first token", "Requests in flight", "Output tokens per second", "2 × " + HOSTILE, "Inter-token latency"):
            self.assertIn(part, text)

    def test_scripts_ask_for_nothing(self):
        for outside in ("http:", "https:", "fetch(", "import", "innerHTML", "eval("):
            self.assertNotIn(outside, SCRIPTS.replace("http://www.w3.org/2000/svg", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
