"""quire-bench as people use it: what it prints and writes, and how it ends when something is wrong."""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from harness import BENCH, ROOT, SERVER, SMALL_CACHE, ServerTestCase, free_port, main


def bench(*arguments, code=0, **kwargs):
    """Runs quire-bench to its end; the result has stdout and stderr."""
    result = subprocess.run([BENCH, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
                            **kwargs)
    if result.returncode != code:
        raise AssertionError(f"exit code {result.returncode}, not {code}:\n{result.stdout}{result.stderr}")
    return result


def complaints(run):
    """What it said on standard error, but that this machine was too busy for a client to keep up, and that a test uses one
    file of results for several runs."""
    return [line for line in run.stderr.splitlines()
            if "the client is the bottleneck" not in line and "will be replaced when this run ends" not in line]


class BenchTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.json_file = self.folder / "result.json"

    def result(self, *arguments, **kwargs):
        """What the command writes to --json, and what it prints."""
        run = bench(*arguments, "--json", self.json_file, **kwargs)
        self.assertEqual(os.listdir(self.folder), ["result.json"])
        return json.loads(self.json_file.read_text()), run

    def assert_refused(self, fragment, *arguments, code=64):
        """One line that says what to change; nothing is left."""
        before = sorted(os.listdir(self.folder))
        run = bench(*arguments, code=code, cwd=self.folder)
        lines = [line for line in run.stderr.splitlines() if "bundled model is measured" not in line]
        self.assertEqual(len(lines), 1, run.stderr)
        self.assertTrue(lines[0].startswith("quire-bench: "), lines[0])
        self.assertIn(fragment, lines[0])
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def interrupt(self, *arguments, number=signal.SIGINT, ready):
        """Signals the command as soon as ready() holds; returns its exit code, output and errors."""
        process = subprocess.Popen([BENCH, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        try:
            give_up = time.monotonic() + 60
            while not ready() and process.poll() is None and time.monotonic() < give_up:
                time.sleep(0.02)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            return process.returncode, out, err
        finally:
            process.kill()
            process.wait()


class ServeTest(BenchTestCase, ServerTestCase):
    def serve(self, *arguments, **kwargs):
        return self.result("serve", "--target", self.server.target, *arguments, **kwargs)

    def test_counts_and_says_what_was_measured(self):
        result, run = self.serve("--num-prompts", 12, "--input-len", 50, "--output-len", 20, "--request-rate", 100)
        self.assertEqual(result["completed"], 12)
        self.assertEqual(result["total_output_tokens"], 240)
        self.assertEqual(result["total_input_tokens"], 600)
        self.assertIs(result["interrupted"], False)
        self.assertEqual(result["workload"], {"dataset_name": "random", "num_prompts": 12, "shared_prefix_len": 0,
                                              "input_len": 50, "output_len": 20})
        for said in ("12 requests of 50 + 20 tokens", "greedy", f"--seed {result['seed']} ", self.server.target):
            self.assertIn(said, run.stdout)
        self.assertEqual(complaints(run), [])

    def test_a_second_run_is_as_cold_as_the_first(self):
        first, _ = self.serve("--num-prompts", 4, "--input-len", 200, "--output-len", 2)
        second, run = self.serve("--num-prompts", 4, "--input-len", 200, "--output-len", 2)
        self.assertNotEqual(first["seed"], second["seed"])
        self.assertLess(second["cached_input_tokens"], 0.05 * second["total_input_tokens"])
        self.assertEqual(complaints(run), [])
        again, run = self.serve("--num-prompts", 4, "--input-len", 200, "--output-len", 2, "--seed", second["seed"])
        self.assertGreater(again["cached_input_tokens"], 0.5 * again["total_input_tokens"])
        self.assertIn("found in the prefix cache", run.stderr)
        self.assertIn("Leave --seed out", run.stderr)

    def test_shared_beginnings_are_asked_for(self):
        result, run = self.serve("--num-prompts", 6, "--input-len", 200, "--output-len", 2, "--shared-prefix-len",
                                 160, "--max-concurrency", 1)
        self.assertGreater(result["cached_input_tokens"], 0.5 * result["total_input_tokens"])
        self.assertEqual(complaints(run), [])

    def test_samples_as_it_is_told(self):
        flags = ("--num-prompts", 8, "--input-len", 30, "--output-len", 400)
        result, run = self.serve(*flags, "--temperature", "0.9", "--top-p", "0.9", "--no-ignore-eos", "--seed", 1)
        self.assertEqual(result["sampling"]["temperature"], 0.9)
        self.assertEqual(result["sampling"]["top_p"], 0.9)
        self.assertIn("temperature 0.9, top-p 0.9, stops at end tokens", run.stdout)
        self.assertLess(result["total_output_tokens"], 8 * 400)  # some met an end token
        result, _ = self.serve(*flags)
        self.assertEqual(result["total_output_tokens"], 8 * 400)

    def test_results_survive_an_interruption(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.json_file.write_text("old")
            code, out, err = self.interrupt(
                "serve", "--target", self.server.target, "--num-prompts", 500, "--input-len", 20, "--output-len", 2000,
                "--max-concurrency", 2, "--json", self.json_file, number=number,
                ready=lambda: self.server.status().running_sequences > 0)
            self.assertEqual(code, 130, err)
            result = json.loads(self.json_file.read_text())
            self.assertIs(result["interrupted"], True)
            self.assertGreater(result["unsent"], 0)
            self.assertGreater(result["unfinished"], 0)
            self.assertEqual(result["completed"] + result["unfinished"] + result["unsent"], 500)
            self.assertEqual(result["failed"], 0)
            self.assertIn("interrupted; results so far", out)
            self.assertEqual(os.listdir(self.folder), ["result.json"])
            status = self.server.wait_until_idle()  # what ran was cancelled
            self.assertEqual(status.running_sequences, 0)

    def test_every_backend_gets_the_same_tokens(self):
        texts = []
        for backend in ("quire", "vllm-grpc", "openai"):
            result, run = self.serve("--backend", backend, "--num-prompts", 6, "--input-len", 40, "--output-len", 12,
                                     "--seed", 7, "--save-detailed")
            self.assertEqual(result["backend"], backend)
            self.assertEqual((result["completed"], result["failed"]), (6, 0), run.stdout)
            self.assertEqual(result["total_input_tokens"], 6 * 40)
            self.assertEqual(result["total_output_tokens"], 6 * 12)
            self.assertEqual(result["output_lens"], [12] * 6)
            texts.append(result["generated_texts"])
            self.json_file.unlink()
        self.assertEqual(texts[0], texts[2])
        self.assertNotIn("", texts[0])
        result, run = self.serve("--backend", "openai-chat", "--num-prompts", 4, "--input-len", 20, "--output-len", 8)
        self.assertEqual((result["completed"], result["total_output_tokens"]), (4, 32), run.stdout)

    def test_a_schema_for_every_answer(self):
        schema = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "schema.json"
        schema.write_text(json.dumps({"type": "array", "items": {"const": 7}, "minItems": 3, "maxItems": 3}))
        for backend in ("quire", "vllm-grpc", "openai", "openai-chat"):
            with self.subTest(backend):
                result, run = self.serve("--backend", backend, "--num-prompts", 3, "--input-len", 8, "--output-len", 400,
                                         "--json-schema", schema, "--save-detailed")
                self.json_file.unlink()
                self.assertEqual((result["completed"], result["failed"]), (3, 0), run.stdout)
                self.assertEqual(result["json_schema"], str(schema))
                self.assertIn("JSON Schema", run.stdout)
                self.assertNotIn("ignore_eos", run.stderr)
                for text in result.get("generated_texts", []):
                    if text:
                        self.assertEqual(json.loads(text), [7, 7, 7])
        schema.write_text("{")
        self.assert_refused("is not JSON", "serve", "--json-schema", schema)
        self.assert_refused("--json-schema", "serve", "--json-schema", "no/such.json")

    def test_a_server_that_stands_still_is_seen(self):
        # While it stands, hardly a request can be sent: those that were due are the ones that show it.
        process = subprocess.Popen([BENCH, "serve", "--target", self.server.target, "--num-prompts", "300",
                                    "--request-rate", "100", "--max-concurrency", "2", "--input-len", "8",
                                    "--output-len", "2", "--json", str(self.json_file)], stdout=subprocess.DEVNULL)
        steps = self.server.status().steps
        while self.server.status().steps < steps + 20:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        self.server.signal(signal.SIGSTOP)
        time.sleep(1)
        self.server.signal(signal.SIGCONT)
        self.assertEqual(process.wait(timeout=60), 0)
        result = json.loads(self.json_file.read_text())
        self.assertEqual(result["completed"], 300)
        # A request was due every 10 ms of that second.
        self.assertGreater(result["p99_ttft_ms"], 800)
        self.assertGreater(result["p99_client_queue_time_ms"], 700)

    def test_more_streams_than_a_connection_takes(self):
        result, run = self.serve("--num-prompts", 400, "--input-len", 4, "--output-len", 2)
        self.assertEqual((result["completed"], result["failed"]), (400, 0), run.stdout)
        self.assertEqual(result["max_concurrent_requests"], 400)
        self.assertGreater(result["client"]["connections"], 1)
        self.json_file.unlink()
        result, _ = self.serve("--num-prompts", 40, "--input-len", 4, "--output-len", 2, "--connections", 10)
        self.assertEqual(result["client"]["connections"], 10)

    def test_cancels_and_deadlines(self):
        result, run = self.serve("--num-prompts", 20, "--input-len", 8, "--output-len", 50, "--cancel-rate", 1)
        self.assertEqual(result["abandoned"] + result["completed"], 20)
        self.assertGreater(result["abandoned"], 10)
        self.assertIn("cancelled on purpose", run.stdout)
        self.json_file.unlink()
        result, _ = self.serve("--num-prompts", 4, "--input-len", 8, "--output-len", 4000, "--deadline-ms", 200)
        self.assertEqual(result["timed_out"], 4)
        self.assertEqual(self.server.wait_until_idle().running_sequences, 0)

    def test_results_as_vllm_saves_them(self):
        run = bench("serve", "--base-url", f"http://{self.server.target}", "--num-prompts", 3, "--input-len", 8,
                    "--output-len", 4, "--save-result", "--result-dir", self.folder, "--label", "mine", "--metadata",
                    "tp=1", "--goodput", "ttft:60000", "e2el:60000", "--percentile-metrics", "ttft,e2el",
                    "--metric-percentiles", "50,99.9", "--num-warmups", 2)
        name, = os.listdir(self.folder)
        self.assertRegex(name, r"^mine-infqps-demo-\d{8}-\d{6}\.json$")
        result = json.loads((self.folder / name).read_text())
        self.assertEqual((result["completed"], result["tp"], result["label"]), (3, "1", "mine"))
        self.assertIn("p99.9_ttft_ms", result)
        self.assertNotIn("mean_itl_ms", result)
        self.assertAlmostEqual(result["request_goodput"], result["request_throughput"])
        self.assertIn("good ones", run.stdout)

    def test_a_trace_is_sent_at_its_times_and_shares_its_blocks(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text("".join(json.dumps(line) + "\n" for line in (
            {"timestamp": 1000, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]},
            {"timestamp": 2000, "input_length": 700, "output_length": 4, "hash_ids": [1, 3]},
            {"timestamp": 2200, "prompt": "Once upon a time", "output_tokens": 5})))
        saved = self.folder / "saved.jsonl"
        run = bench("serve", "--target", self.server.target, "--trace-file", trace, "--trace-speedup", 2,
                    "--flush-cache", "--save-detailed", "--save-dataset", saved, "--json", self.json_file)
        result = json.loads(self.json_file.read_text())
        self.assertEqual((result["completed"], result["total_output_tokens"]), (3, 12))
        self.assertEqual(result["input_lens"][:2], [600, 700])
        self.assertEqual(result["cached_input_tokens"], 512)  # the one block that two have
        self.assertGreaterEqual(result["start_times"][1], 0.5)
        self.assertGreaterEqual(result["start_times"][2], 0.6)
        self.assertIs(result["flushed_cache"], True)
        self.assertIn("2 times as fast", run.stdout)
        self.assertEqual(complaints(run), [])
        # The saved load is the same again with another seed.
        bench("serve", "--target", self.server.target, "--trace-file", saved, "--save-detailed", "--json",
              self.json_file)
        again = json.loads(self.json_file.read_text())
        self.assertNotEqual(again["seed"], result["seed"])
        self.assertEqual(again["generated_texts"], result["generated_texts"])
        self.assertGreaterEqual(again["start_times"][2], 0.6)
        self.assertGreater(again["cached_input_tokens"], 1200)

    def test_conversations_grow_with_their_answers(self):
        for backend in ("quire", "vllm-grpc", "openai", "openai-chat"):
            result, run = self.serve("--backend", backend, "--num-prompts", 3, "--input-len", 64, "--output-len", 16,
                                     "--conversation-turn-mean", 3, "--conversation-turn-delay-mean", 1,
                                     "--save-detailed")
            self.assertEqual((result["completed"], result["failed"]), (9, 0), run.stdout)
            self.assertEqual(result["workload"]["num_conversations"], 3)
            turns = result["turns"]
            self.assertEqual([turn["completed"] for turn in turns], [3, 3, 3])
            if backend in ("quire", "vllm-grpc"):
                self.assertEqual([turn["total_input_tokens"] for turn in turns], [3 * 64, 3 * 144, 3 * 224])
            # All but the last token of what came before, in whole blocks of 16.
            self.assertEqual(turns[0]["cached_input_tokens"], 0)
            for earlier, turn in zip(turns, turns[1:]):
                known = earlier["total_input_tokens"] + earlier["total_output_tokens"]
                self.assertGreater(turn["cached_input_tokens"], 0.6 * known, backend)
            self.assertIn("turn 3 ", run.stdout)
            self.assertEqual(complaints(run), [])
            self.json_file.unlink()

    def test_texts_of_exactly_so_many_tokens(self):
        result, run = self.serve("--backend", "openai", "--text-prompts", "--tokenizer", ROOT / "configs/demo",
                                 "--num-prompts", 4, "--input-len", 50, "--output-len", 4, "--save-detailed",
                                 "--seed", 1)  # the four tokens of any may be no text
        self.assertEqual(result["input_lens"], [50] * 4, run.stdout)

    def test_results_line_by_line(self):
        for number in (2, 3):
            bench("serve", "--target", self.server.target, "--num-prompts", number, "--input-len", 4, "--output-len", 2,
                  "--save-result", "--result-filename", self.folder / "all.jsonl", "--append-result")
        lines = (self.folder / "all.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["completed"] for line in lines], [2, 3])

    def test_a_server_that_is_not_there_yet(self):
        port = free_port()
        process = subprocess.Popen([BENCH, "serve", "--host", "127.0.0.1", "--port", str(port), "--num-prompts", "2",
                                    "--input-len", "4", "--output-len", "2", "--ready-check-timeout-sec", "120",
                                    "--json", str(self.json_file)], stdout=subprocess.DEVNULL)
        server = subprocess.Popen([SERVER, "--host", "127.0.0.1", "--port", str(port), *SMALL_CACHE],
                                  stderr=subprocess.DEVNULL)
        try:
            self.assertEqual(process.wait(timeout=120), 0)
            self.assertEqual(json.loads(self.json_file.read_text())["completed"], 2)
        finally:
            server.terminate()
            server.wait()

    def test_what_the_server_cannot_flush(self):
        self.assert_refused("--flush-cache: the server does not empty its prefix cache", "serve", "--target",
                            self.server.target, "--backend", "openai", "--flush-cache", "--num-prompts", 1, code=1)

    def test_failures_are_told_apart(self):
        for backend, expected in (("quire", "UNIMPLEMENTED"), ("openai", "HTTP 404")):
            run = bench("serve", "--target", self.server.target, "--backend", backend, "--num-prompts", 3, "--input-len",
                        4, "--output-len", 4, "--endpoint", "/nowhere/At", "--json", self.json_file, code=1)
            problem, = json.loads(self.json_file.read_text())["problems"]
            self.assertEqual(problem["count"], 3)
            self.assertIn(expected, problem["problem"])
            self.assertIn("3 requests failed", run.stderr)

    def test_too_long_requests_are_refused_before_the_load(self):
        self.assert_refused("does not fit the context of", "serve", "--target", self.server.target, "--input-len",
                            10_000_000)
        steps = self.server.status().steps
        self.assert_refused("does not fit the context of", "serve", "--target", self.server.target, "--output-len",
                            1_000_000)
        self.assertEqual(self.server.status().steps, steps)

    def test_without_a_server(self):
        target = f"127.0.0.1:{free_port()}"
        self.assert_refused(f"no server answers at {target}", "serve", "--target", target, code=69)
        # At once: not DEADLINE_EXCEEDED.
        self.assert_refused("nothing listens there; start one with quire-server", "serve", "--target", target, code=69)

    def test_another_model_is_refused_before_the_load(self):
        for backend in ("quire", "openai", "openai-chat"):
            self.assert_refused('no model "nope" is served, but "', "serve", "--backend", backend, "--model", "nope",
                                "--target", self.server.target, code=1)

    def test_results_that_are_replaced_are_told(self):
        load = ("serve", "--target", self.server.target, "--num-prompts", 1, "--output-len", 2, "--json", self.json_file)
        self.assertNotIn("replaced", bench(*load).stderr)
        self.assertIn(f'"{self.json_file}" will be replaced', bench(*load).stderr)


class OfflineTest(BenchTestCase):
    def test_throughput_and_latency(self):
        for command, flags in (("throughput", ("--num-prompts", 8)), ("latency", ("--num-iters", 2))):
            result, run = self.result(command, *flags, "--input-len", 40, "--output-len", 8, *SMALL_CACHE, "--dtype",
                                      "float32", "--temperature", "0.5")
            self.assertEqual(result["command"], command)
            self.assertEqual(result["dtype"], "float32")
            self.assertEqual(result["sampling"]["temperature"], 0.5)
            self.assertIn(f"--seed {result['seed']} ", run.stdout)
            self.assertIn("temperature 0.5", run.stdout)
            self.assertIn("small bundled model", run.stderr)
            self.assertEqual(result["completed"], result["num_prompts"])
            self.assertEqual(result["total_output_tokens"], 8 * result["num_prompts"])
            self.assertEqual(result["uncounted"], 0)
            self.assertNotIn("client", result)
            self.json_file.unlink()

    def test_latency_saves_its_requests(self):
        result, run = self.result("latency", "--num-iters", 3, "--batch-size", 2, "--input-len", 40, "--output-len", 8,
                                  *SMALL_CACHE, "--save-detailed")
        self.assertEqual((result["iterations"], result["num_prompts"]), (3, 6))
        self.assertEqual(result["input_lens"], [40] * 6)
        self.assertEqual([len(gaps) for gaps in result["itls"]], [7] * 6)
        self.assertEqual(result["outcomes"], ["completed"] * 6)
        starts = result["start_times"]
        self.assertEqual(starts[::2], starts[1::2])  # a batch is sent at once, when the one before it has ended
        self.assertEqual(starts, sorted(starts))
        self.assertAlmostEqual(sum(result["ttfts"]) / 6 * 1000, result["mean_ttft_ms"], places=6)
        self.assertLessEqual(result["duration"] * 1000, result["batch_ms"]["mean"] * 3 + 1e-6)
        self.assertIn("no clear change", bench("compare", self.json_file, self.json_file).stdout)
        self.assert_refused("--save-detailed goes with --json", "latency", "--save-detailed")

    def test_latency_behind_what_is_cached(self):
        result, run = self.result("latency", "--num-iters", 3, "--num-iters-warmup", 1, "--input-len", 40, "--output-len", 1,
                                  "--shared-prefix-len", 32, *SMALL_CACHE)
        self.assertEqual((result["shared_prefix_len"], result["cached_input_tokens"]), (32, 3 * 32))
        self.assertNotIn("quire flush", run.stderr)
        self.assert_refused("--shared-prefix-len: 41 is longer", "latency", "--input-len", 40, "--shared-prefix-len", 41)

    def test_latency_of_one_token_says_nothing_of_what_is_between_tokens(self):
        result, run = self.result("latency", "--num-iters", 1, "--num-iters-warmup", 0, "--output-len", 1, *SMALL_CACHE)
        self.assertIsNone(result["median_itl_ms"])
        self.assertIsNone(result["mean_tpot_ms"])
        self.assertIsNone(result["decode_tokens_per_s"])
        self.assertGreater(result["median_ttft_ms"], 0)
        self.assertRegex(run.stdout, r"inter-token latency( +-){5}\n")
        self.assertNotIn("decode:", run.stdout)
        page = self.json_file.with_suffix(".html")
        bench("report", self.json_file, "--html", page)
        data = json.loads(re.search('id="data">(.*?)</script>', page.read_text())[1])
        self.assertEqual(data["results"][0]["json"]["median_ttft_ms"], result["median_ttft_ms"])
        self.assertNotIn("median_itl_ms", [figure["name"] for figure in data["figures"]])

    def test_timeline(self):
        run = bench("timeline", "--batch-size", 3, "--context", 40, "--num-steps", 8, *SMALL_CACHE, "--json",
                    self.json_file, "--html", self.folder / "t.html")
        result = json.loads(self.json_file.read_text())
        self.assertGreaterEqual(result["steps"], 8)
        self.assertGreater(result["busy_us"], 0)
        self.assertLessEqual(result["busy_us"], result["wall_us"] * 1.001)
        self.assertEqual(set(result["host_us"]), {"schedule", "build", "submit", "sample", "wait", "commit", "deliver"})
        self.assertIn('"stages":["schedule",', (self.folder / "t.html").read_text())
        self.assertIn(str(result["seed"]), run.stdout)

    def test_timeline_refuses_a_context_that_it_cannot_keep(self):
        # 8 steps between margins of 8, and 2; as many more as there are sequences.
        self.assert_refused("64 sequences decode together for 8 steps they have 46 tokens on average at least", "timeline",
                            "--batch-size", 64, "--context", 45, "--num-steps", 8)

    def test_kernels(self):
        result, _ = self.result("kernels", "--only", "steps", "--batch-sizes", "1,3", "--context", 40,
                                "--prefill-len", 20)
        self.assertEqual([step["num_seqs"] for step in result["steps"]], [1, 3, 1])
        self.assertEqual(result["skipped"], [])
        # The bundled model has eight layers with four products each, and the LM head.
        linear = [op["count"] for op in result["steps"][1]["operations"] if "linear" in op["op"]]
        self.assertEqual(sum(linear), 8 * 4 + 1)
        for step in result["steps"]:
            self.assertTrue(all(op["us"] > 0 and op["bytes"] > 0 for op in step["operations"]))

    def test_the_table_of_attention_paths_names_what_auto_takes(self):
        result, run = self.result("kernels", "--only", "attention-table")
        self.assertEqual([row["phase"] for row in result["attention_table"]], ["decode", "prefill"])
        for row in result["attention_table"]:
            self.assertEqual(row["auto"], "native")  # the CPU has no other
            self.assertGreater(row["us"]["native"], 0)
        self.assertIn("auto: native", run.stdout)

    def test_prompts_that_read_new_tokens_from_the_cache_and_where_a_gemm_leaves_them(self):
        result, run = self.result("kernels", "--only", "ragged")
        cases = [(row["num_seqs"], row["query_len"], row["seq_len"], row["kv_dtype"]) for row in result["ragged"]]
        self.assertEqual(cases, [(1, 64, 256, "bfloat16"), (1, 64, 256, "fp8_e4m3")])
        for row in result["ragged"]:
            self.assertAlmostEqual(row["speedup"], row["paged_us"] / row["ragged_us"])
            self.assertAlmostEqual(row["paged_tflops"] * row["paged_us"], row["ragged_tflops"] * row["ragged_us"])
        self.assertIn("prefill 64 of 256", run.stdout)

    def test_sampling_of_the_models_vocabulary(self):
        result, run = self.result("kernels", "--only", "sampling", "--cases", "k 50")
        vocab_size = json.loads((ROOT / "configs/demo/config.json").read_text())["vocab_size"]
        kinds = ("k 50, p 0.9, middling", "k 50, p 0.9, mask 1 in 2", "k 50, p 0.9, mask 1 in 1024",
                 "k 50, p 0.9, penalties", "k 50, p 0.9, flat", "k 50, p 0.9, peaked")
        self.assertEqual([row["shape"] for row in result["sampling_table"]],
                         [f"{rows} x {vocab_size}, {kind}" for kind in kinds for rows in (1, 8)])
        for row in result["sampling_table"]:
            self.assertEqual(row["bytes"], int(row["shape"].split()[0]) * vocab_size * 4)
            self.assertGreater(row["us"], 0)
        self.assertIn("k 50, p 0.9, peaked", run.stdout)

    def test_gemms_by_format(self):
        result, run = self.result("kernels", "--only", "formats", "--cases", "int8", "--rows", "3,1")
        rows = [(row["format"], row["rows"]) for row in result["format_table"]]
        formats = ("int8", "int8-group128")
        self.assertEqual(rows, [(name, count) for name in formats for count in (3, 1)] * (len(rows) // 4))
        self.assertGreaterEqual(len({row["shape"] for row in result["format_table"]}), 3)
        for row in result["format_table"]:
            self.assertAlmostEqual(row["speedup"], row["bfloat16_us"] / row["us"])
        self.assertIn("times as fast", run.stdout)
        self.assert_refused("--rows is of --only linear, formats and experts", "kernels", "--only", "attention", "--rows", "1")

    def test_gemms_beside_another_library(self):
        result, run = self.result("kernels", "--only", "linear", "--cases", "float32", "--rows", "3,1")
        rows = result["linear_table"]
        self.assertEqual([(row["op"], row["rows"]) for row in rows], [("float32", 3), ("float32", 1)] * (len(rows) // 2))
        self.assertEqual(len({row["shape"] for row in rows}), len(rows))  # the layers' and the head's
        self.assertIn("256 -> 2048, 3 rows", run.stdout)
        for row in rows:
            self.assertEqual(row["bytes"], 4 * math.prod(map(int, row["shape"].split(",")[0].split(" -> "))))
            if "peer" in row:  # where the build has oneDNN
                self.assertAlmostEqual(row["times_as_fast"], row["peer_us"] / row["us"])
        self.assert_refused("no case has 'int3' in its name", "kernels", "--only", "linear", "--cases", "int3")
        self.assert_refused("on a GPU", "kernels", "--only", "linear", "--candidates")

    def test_attention_over_both_layouts(self):
        result, _ = self.result("kernels", "--only", "attention", "--cases", "decode")
        self.assertEqual([row["shape"] for row in result["attention"]], ["decode 4 x 1024", "decode 4 x 1024, tokens first"])

    def test_cases_that_do_not_exist(self):
        self.assert_refused("no case has 'nowhere' in its name: there are 1 x ", "kernels", "--only", "sampling", "--cases",
                            "nowhere")
        for only in ((), ("--only", "attention")):
            self.assert_refused("no case has 'nowhere' in its name: there are decode ", "kernels", *only, "--cases", "nowhere")
        self.assert_refused("not of steps", "kernels", "--only", "steps", "--cases", "decode")

    def test_kernels_that_do_not_fit_are_skipped_by_name(self):
        result, run = self.result("kernels", "--only", "steps", "--batch-sizes", "1,4096", "--context", 4096,
                                  "--prefill-len", 20, "--shape", "qwen3-0.6b", "--block-size", "16")
        self.assertEqual([step["num_seqs"] for step in result["steps"]], [1, 1])
        self.assertEqual([case["name"] for case in result["skipped"]], ["decode, batch 4096, context 4096"])
        self.assertGreater(result["skipped"][0]["needed_bytes"], result["skipped"][0]["free_bytes"])
        self.assertIn("skipped: decode, batch 4096, context 4096 needs", run.stdout)

    def test_an_interrupted_run_keeps_its_results(self):
        log = self.folder / "log"
        with open(log, "w+", encoding="utf-8") as out:
            process = subprocess.Popen([BENCH, "throughput", "--num-prompts", "2000", "--output-len", "1000",
                                        *SMALL_CACHE, "--json", self.json_file], stdout=out, stderr=subprocess.STDOUT)
            try:
                give_up = time.monotonic() + 60
                while "requests:" not in log.read_text() and time.monotonic() < give_up:
                    time.sleep(0.05)  # a line of progress: the run is under way
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(timeout=60), 130, log.read_text())
            finally:
                process.kill()
                process.wait()
        result = json.loads(self.json_file.read_text())
        self.assertIs(result["interrupted"], True)
        self.assertLess(result["completed"], 2000)
        self.assertGreater(result["total_output_tokens"], 0)
        self.assertIn("interrupted; results so far", log.read_text())

    def test_a_signal_before_the_run_leaves_nothing(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        process = subprocess.Popen(
            [BENCH, "throughput", "--shape", "qwen3-0.6b", "--max-model-len", "512", "--json", self.json_file],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(temporary)})
        give_up = time.monotonic() + 30
        while not os.listdir(temporary) and time.monotonic() < give_up:
            time.sleep(0.01)
        self.assertTrue(os.listdir(temporary))
        process.send_signal(signal.SIGINT)  # while weights are made
        self.assertEqual(process.wait(timeout=30), 130)
        self.assertEqual(os.listdir(temporary), [])
        self.assertEqual(os.listdir(self.folder), ["tmp"])

    def test_startup(self):
        result, run = self.result("startup", "--num-starts", 2, "--idle-seconds", "0.2", *SMALL_CACHE)
        self.assertIn("first token", run.stdout)
        self.assertIn("idle", run.stdout)
        self.assertEqual(len(result["starts"]), 2)
        for key in ("listening_ms", "first_token_ms"):
            self.assertGreater(result[key]["min"], 0)
            self.assertEqual(result[key]["max"], max(start[key] for start in result["starts"]))
        for start in result["starts"]:
            self.assertEqual(list(start["stage_ms"]), list(result["stage_ms"]))
            self.assertLess(start["listening_ms"], start["first_token_ms"])
        self.assert_refused("startup chooses it", "startup", "--port", "8000")
        run = bench("startup", "--model", self.folder, code=66)
        self.assertIn("config.json", run.stderr)


class BadInputTest(BenchTestCase):
    def test_commands_and_flags(self):
        self.assert_refused("did you mean throughput?", "throughputs")
        self.assert_refused("no command given")
        self.assert_refused("did you mean --num-prompts?", "throughput", "--num-prompt", "5")
        self.assert_refused("did you mean --max-num-seqs?", "latency", "--max-num-seq", "5")
        self.assert_refused("did you mean --num-prompts?", "serve", "--num-prompt", "5")
        self.assert_refused("quire-bench report FILE --html PAGE", "serve", "--html", "page.html")
        self.assert_refused("--num-prompts", "throughput", "--num-prompts", "-1")
        self.assert_refused("--request-rate", "serve", "--request-rate", "nan")
        for flag in ("--seed", "--weights-seed"):
            self.assert_refused(f"{flag}: \"-3\" is not allowed", "latency", flag, "-3")
        self.assert_refused("--goodput", "serve", "--goodput", "itl:3")
        self.assert_refused("--save-detailed goes with", "throughput", "--save-detailed")
        self.assert_refused("--ramp-up-strategy", "serve", "--ramp-up-start-rps", "3")
        self.assert_refused("--dataset-path is missing", "serve", "--dataset-name", "sharegpt")
        self.assert_refused("--extra-body goes with", "serve", "--extra-body", "{}")
        self.assert_refused("leave it out", "serve", "--backend", "vllm-grpc", "--model", "x")
        self.assert_refused("no JSON object", "serve", "--backend", "openai", "--extra-body", "[]")
        self.assert_refused("--save-result", "serve", "--result-dir", ".")
        self.assert_refused("quire-bench report", "serve", "--plot-timeline")
        self.assert_refused("--temperature", "serve", "--temperature", "hot")
        self.assert_refused("give --temperature too", "throughput", "--top-k", "5")
        self.assert_refused("--shape: there is no", "latency", "--shape", "gpt-9")
        self.assert_refused("exclude", "latency", "--shape", "qwen3-0.6b", "--model", "x")
        self.assert_refused("--workload", "throughput", "--workload", "no.jsonl")
        self.assert_refused("more than the model's context", "kernels", "--context", "5000")
        self.assert_refused("/nope", "throughput", "--model", "/nope", code=66)

    def test_an_unwritable_file_is_refused_before_the_run(self):
        for command in ("serve", "sweep", "throughput", "latency", "timeline", "kernels", "startup"):
            self.assert_refused("--json: cannot write", command, "--json", "no/such/folder.json")
            self.assert_refused("--json: cannot write", command, "--json", self.folder)
        self.assert_refused("--html: cannot write", "timeline", "--html", "no/such.html")

    def test_help_and_version(self):
        self.assertRegex(bench("--version").stdout, r"^quire-bench \d+\.\d+\.\d+\n$")
        for command in ("serve", "quality", "sweep", "compare", "report", "throughput", "latency", "timeline", "kernels",
                        "startup", "make-checkpoint"):
            self.assertIn(f"  quire-bench {command}", bench(command, "--help").stdout)

    def test_make_checkpoint(self):
        full = self.folder / "full"
        full.mkdir()
        (full / "notes.txt").touch()
        self.assert_refused("not an empty folder (it has notes.txt)", "make-checkpoint", "--shape", "qwen3-0.6b", full)
        broken = self.folder / "broken.json"
        broken.write_text("{}")
        self.assert_refused("config.json", "make-checkpoint", "--config", broken, self.folder / "a/b", code=66)
        self.assert_refused("unknown flag --sead; did you mean --seed?", "make-checkpoint", "--shape", "qwen3-0.6b",
                            "--sead", "5", "new")

    def test_make_checkpoint_without_space_removes_what_it_wrote(self):
        # A file size limit stands for a disk that fills up while the weights are written.
        command = f"ulimit -f 2000; exec {BENCH} make-checkpoint --shape qwen3-0.6b {self.folder}/new/model"
        run = subprocess.run(["bash", "-c", f"trap '' XFSZ; {command}"], capture_output=True, text=True, timeout=60,
                             check=False)
        self.assertEqual(run.returncode, 69, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertIn("cannot write", run.stderr)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()
