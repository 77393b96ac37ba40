"""/metrics: a counted workload gives exactly the expected figures; promtool finds nothing to mend; dashboard and rules
ask for nothing that the server does not tell; docs/metrics.md lists all of it."""

import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import grpc
from harness import ROOT, Server, ServerTestCase, chat_request, ids_request, main, packages

with packages():
    import prometheus_client.parser
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families

CONFIGS = ROOT / "configs"
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
PROMTOOL = shutil.which("promtool", path=f"{os.environ['PATH']}{os.pathsep}{ROOT / 'build/promtool'}")
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
ENDINGS = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
# The metrics that vLLM's published dashboards ask for (examples/online_serving/prometheus_grafana/grafana.json of its
# repository, before and after gpu_cache_usage_perc and time_per_output_token_seconds got their new names).
VLLM_DASHBOARD = """e2e_request_latency_seconds_bucket e2e_request_latency_seconds_sum e2e_request_latency_seconds_count
prompt_tokens_total generation_tokens_total time_per_output_token_seconds_bucket time_per_output_token_seconds_sum
time_per_output_token_seconds_count inter_token_latency_seconds_bucket inter_token_latency_seconds_sum
inter_token_latency_seconds_count num_requests_running num_requests_waiting time_to_first_token_seconds_bucket
time_to_first_token_seconds_sum time_to_first_token_seconds_count gpu_cache_usage_perc kv_cache_usage_perc
request_prompt_tokens_bucket request_generation_tokens_bucket request_success_total request_queue_time_seconds_sum
request_prefill_time_seconds_sum request_decode_time_seconds_sum request_max_num_generation_tokens_bucket""".split()


class Page:
    """A page of metrics, read strictly: a line that the format does not have is an error."""

    def __init__(self, text):
        self.types, self.samples, self.labels = {}, {}, {}
        family = None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split(" ", 3)[2]
                assert family not in self.types and line.split(" ", 3)[3], line
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name == family and kind in ENDINGS, line
                self.types[name] = kind
            else:
                match = SAMPLE.fullmatch(line)
                assert match, line
                name, labels = match[1], dict(LABEL.findall(match[2] or ""))
                assert name in [family + ending for ending in ENDINGS[self.types[family]]], line
                key = (name, frozenset(labels.items()))
                assert key not in self.samples, f"twice: {line}"
                self.samples[key] = float(match[3])
                self.labels.setdefault(family, set()).update(labels)

    def names(self):
        """Of the samples that there are or, of principals and calls, may be."""
        return {family + ending for family, kind in self.types.items() for ending in ENDINGS[kind]}

    def value(self, name, **labels):
        """The sum of the samples with these labels; there must be one."""
        found = [value for (other, its), value in self.samples.items()
                 if other == name and labels.items() <= dict(its).items()]
        assert found, f"no {name} {labels}"
        return sum(found)


def names_in(expression):
    """The metrics that a query asks for."""
    expression = re.sub(r'"[^"]*"', "", re.sub(r"\{[^}]*\}", "", expression))
    return set(re.findall(r"\b(?:vllm:|quire_|grpc_server_|http_requests_|process_)[a-z0-9_]+", expression))


class MetricsTestCase(ServerTestCase):
    def get(self, accept=None):
        request = urllib.request.Request(f"http://{self.server.target}/metrics",
                                         headers={"accept": accept} if accept else {})
        with OPEN(request) as answer:
            return answer.headers["content-type"], answer.read().decode()

    def page(self):
        return Page(self.get()[1])


class CountedTest(MetricsTestCase):
    def test_a_counted_workload(self):
        before = self.page()
        for seed in range(3):
            prompt = [300 + seed] + list(range(400, 439))  # 40 tokens, of which no two requests share a block
            self.assertEqual(len(self.generate(ids_request(prompt, 5)).ids), 5)
        again = self.generate(ids_request([300, *range(400, 439)], 7))
        cached = again.finished.usage.cached_tokens
        self.assertGreater(cached, 0)
        with self.assertRaises(grpc.RpcError):
            self.generate(ids_request([10**9], 5))
        with self.assertRaises(grpc.RpcError):  # it never becomes a request
            chat = chat_request("hello")
            chat.messages.tools_json = "{"
            self.generate(chat)
        connection = http.client.HTTPConnection(self.server.target, timeout=60)
        connection.request("POST", "/v1/messages", '{"stream": 5}', {"content-type": "application/json"})
        self.assertEqual(connection.getresponse().status, 400)
        connection.close()
        stream = self.server.inference.Generate(ids_request([301, 302], 4000))
        next(stream)
        next(stream)
        stream.cancel()
        self.server.wait_until_idle()
        after = self.page()

        def more(name, **labels):
            return after.value(name, **labels) - before.value(name, **labels)

        self.assertEqual(more("vllm:prompt_tokens_total"), 4 * 40 + 2)
        self.assertEqual(more("vllm:prompt_tokens_cached_total"), cached)
        self.assertEqual(more("vllm:prefix_cache_hits_total"), cached)
        self.assertEqual(more("vllm:request_success_total", finished_reason="length"), 4)
        self.assertEqual(more("vllm:request_success_total", finished_reason="stop"), 0)
        self.assertEqual(more("vllm:request_success_total", finished_reason="abort"), 1)
        for name in ("e2e_request_latency_seconds", "request_queue_time_seconds", "time_to_first_token_seconds",
                     "request_prompt_tokens", "request_generation_tokens", "request_params_n"):
            self.assertEqual(more(f"vllm:{name}_count"), 5, name)
        self.assertEqual(more("vllm:request_prompt_tokens_sum"), 4 * 40 + 2)
        generated = more("vllm:generation_tokens_total")
        self.assertGreaterEqual(generated, 3 * 5 + 7 + 1)
        self.assertEqual(more("vllm:request_generation_tokens_sum"), generated)
        self.assertEqual(more("vllm:inter_token_latency_seconds_count"), generated - 5)
        self.assertEqual(more("vllm:request_params_max_tokens_sum"), 3 * 5 + 7 + 4000)
        self.assertEqual(more("quire_requests_refused_total", reason="invalid"), 3)
        self.assertEqual(more("quire_requests_refused_total"), 3)
        self.assertEqual(after.value("grpc_server_handled_total", grpc_method="Generate", grpc_code="OK"), 4)
        self.assertEqual(after.value("vllm:num_requests_running"), 0)
        self.assertEqual(after.value("vllm:kv_cache_usage_perc"), 0)

    def test_what_runs_is_seen(self):
        stream = self.server.inference.Generate(ids_request([310, 311], 4000))
        next(stream)
        next(stream)
        page = self.page()
        self.assertEqual(page.value("vllm:num_requests_running"), 1)
        self.assertGreater(page.value("vllm:kv_cache_usage_perc"), 0)
        self.assertEqual(page.value("quire_principal_requests", principal="peer"), 1)
        stream.cancel()
        self.server.wait_until_idle()

    def test_histograms_add_up(self):
        self.generate(ids_request([320, 321], 3))
        page = self.page()
        for family, kind in page.types.items():
            if kind != "histogram":
                continue
            series = {}
            for (name, labels), value in page.samples.items():
                if name == family + "_bucket":
                    others = dict(labels)
                    bound = float(others.pop("le"))
                    series.setdefault(frozenset(others.items()), []).append((bound, value))
            self.assertTrue(series, family)
            for labels, buckets in series.items():
                counts = [count for _, count in sorted(buckets)]
                self.assertEqual(counts, sorted(counts), family)
                self.assertEqual(counts[-1], page.samples[family + "_count", labels], family)
                self.assertEqual(max(buckets)[0], float("inf"), family)


class FormatTest(MetricsTestCase):
    def test_content_types(self):
        content_type, text = self.get()
        self.assertIn("text/plain; version=0.0.4", content_type)
        self.assertNotIn("# EOF", text)
        content_type, text = self.get("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        self.assertIn("application/openmetrics-text; version=1.0.0", content_type)
        self.assertTrue(text.endswith("# EOF\n"))

    def test_both_formats_as_prometheus_clients_read_them(self):
        self.generate(ids_request([331], 3))
        self.server.wait_until_idle()  # a stream's end is sent before its sequence leaves the gauges
        values = []
        for accept, read in ((None, prometheus_client.parser.text_string_to_metric_families),
                             ("application/openmetrics-text", openmetrics_families)):
            samples = {(sample.name, frozenset(sample.labels.items())): sample.value
                       for family in read(self.get(accept)[1]) for sample in family.samples}
            self.assertGreater(len(samples), 300)
            values.append({key: value for key, value in samples.items() if key[0].startswith("vllm:")})
        self.assertEqual(*values)

    @unittest.skipUnless(PROMTOOL, "no promtool; tools/test takes it from Debian's prometheus")
    def test_promtool_finds_nothing(self):
        self.generate(ids_request([330], 3))
        _, text = self.get()
        check = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
        complaints = [line for line in (check.stdout + check.stderr).splitlines() if line]
        self.assertTrue(complaints)  # it has read the page
        # vLLM's names are what they are.
        vllms = re.compile(r"vllm:\w+ metric names should not contain ':'"
                           r'|vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix')
        self.assertEqual([line for line in complaints if not vllms.fullmatch(line)], [])

    def test_every_series_of_vllm_has_its_labels(self):
        page = self.page()
        for name, labels in page.labels.items():
            if name.startswith("vllm:") and name != "vllm:cache_config_info":
                self.assertLessEqual({"model_name", "engine"}, labels, name)
        self.assertLessEqual({"block_size", "num_gpu_blocks"}, page.labels["vllm:cache_config_info"])


class DocumentsTest(MetricsTestCase):
    def setUp(self):
        self.generate(ids_request([340], 3))
        self.get()  # counted as an HTTP request
        self.told = self.page()

    def test_vllms_dashboard_has_all_it_asks_for(self):
        self.assertLessEqual({f"vllm:{name}" for name in VLLM_DASHBOARD}, self.told.names())

    def test_the_dashboard_asks_for_what_there_is(self):
        dashboard = json.loads((CONFIGS / "grafana/quire.json").read_text())
        asked = set()
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                names = names_in(target["expr"])
                self.assertTrue(names, target["expr"])
                asked |= names
        self.assertGreater(len(asked), 15)
        self.assertLessEqual(asked, self.told.names())
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_the_rules_ask_for_what_there_is(self):
        text = (CONFIGS / "prometheus/rules.yml").read_text()
        queries = re.findall(r"^ +expr: (?:>-\n +)?(.*)$", text, re.MULTILINE)
        self.assertEqual(len(queries), text.count("expr:"))
        asked = set().union(*map(names_in, queries))
        self.assertGreater(len(asked), 5)
        self.assertLessEqual(asked, self.told.names())

    @unittest.skipUnless(PROMTOOL, "no promtool; tools/test takes it from Debian's prometheus")
    def test_the_rules_fire_when_they_should(self):
        folder = CONFIGS / "prometheus"
        subprocess.run([PROMTOOL, "check", "rules", folder / "rules.yml"], check=True)
        subprocess.run([PROMTOOL, "test", "rules", "rules_test.yml"], cwd=folder, check=True)

    def test_every_alert_is_tested(self):
        rules, tests = ((CONFIGS / "prometheus" / name).read_text() for name in ("rules.yml", "rules_test.yml"))
        alerts = set(re.findall(r"alert: (\w+)", rules))
        self.assertTrue(alerts)
        self.assertEqual(alerts, set(re.findall(r"alertname: (\w+)", tests)))

    def test_the_table_of_the_documents(self):
        rows = {}
        for line in (ROOT / "docs/metrics.md").read_text().splitlines():
            if match := re.match(r"\| `([a-z_:0-9]+)` \| (\w+) \|", line):
                rows[match[1]] = match[2]
        self.assertEqual(rows, self.told.types)


class ExpertLoadTest(MetricsTestCase):
    """A mixture whose first layer has no experts."""

    MODEL = ROOT / "tests/engine/model/golden/glm4_moe_plain"
    FLAGS = ("--model", str(MODEL), "--skip-tokenizer-init", "--expert-load-metrics")

    def test_every_token_that_is_computed_chooses_its_experts(self):
        config = json.loads((self.MODEL / "config.json").read_text())
        layers, dense = config["num_hidden_layers"], config["first_k_dense_replace"]
        top_k, experts = config["num_experts_per_tok"], config["n_routed_experts"]
        name = "quire_expert_tokens_total"
        page = self.page()
        self.assertEqual(page.types[name], "counter")
        self.assertEqual({int(dict(labels)["layer"]) for other, labels in page.samples if other == name},
                         set(range(dense, layers)))
        for layer in range(dense, layers):
            self.assertEqual(page.value(name, layer=str(layer)), 0, "the warm-up counts")
        prompt, answer = list(range(1, 22)), 6
        self.generate(ids_request(prompt, answer))
        self.server.wait_until_idle()
        page = self.page()
        for layer in range(dense, layers):
            tokens = answer if layer == layers - 1 else len(prompt) + answer - 1
            self.assertEqual(page.value(name, layer=str(layer)), tokens * top_k, f"layer {layer}")
            self.assertEqual(sum(other == name and dict(labels)["layer"] == str(layer)
                                 for other, labels in page.samples), experts)

    def test_a_dense_model_has_none_to_count(self):
        with self.assertRaisesRegex(RuntimeError, "--expert-load-metrics: this model is no mixture of experts"):
            Server("--expert-load-metrics")


class AccessTest(unittest.TestCase):
    KEYS = {"inference": "k" * 20, "admin": "a" * 20}

    def status(self, server, role):
        headers = {"authorization": f"Bearer {self.KEYS[role]}"} if role else {}
        try:
            with OPEN(urllib.request.Request(f"http://{server.target}/metrics", headers=headers)) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_it_is_as_open_as_the_setting_says(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as keys:
            for role, key in self.KEYS.items():
                print(json.dumps({"key": key, "name": role, "roles": [role]}), file=keys, flush=True)
            for flags, expected in (((), (401, 403, 200)), (("--metrics-access", "anyone"), (200, 200, 200))):
                with Server("--api-key-file", keys.name, *flags) as server:
                    self.assertEqual(tuple(self.status(server, role) for role in (None, "inference", "admin")), expected)


if __name__ == "__main__":
    main()
