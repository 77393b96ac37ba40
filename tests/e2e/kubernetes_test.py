"""configs/kubernetes/, as kubectl builds it, next to Kubernetes' schemas and to what it is for: the endpoint picker finds in
/metrics what its contract asks for, and a server runs with the arguments of the Deployment. Names of fields, plugins and metrics are transcribed from
  [gie]    kubernetes-sigs/gateway-api-inference-extension 84436a96: docs/proposals/003-model-server-protocol/README.md,
           api/v1/inferencepool_types.go
  [router] llm-d/llm-d-router ebab6879: pkg/epp/framework/plugins/datalayer/extractor/metrics/factories.go (engine "vllm"),
           apix/config/v1alpha1/endpointpickerconfig_types.go, pkg/kvevents/pool.go, the plugins' packages
  [k8s]    the API reference of Kubernetes 1.30 and of Gateway API 1.1
No cluster and no endpoint picker has been run here."""

import copy
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from harness import ROOT, Answer, Server, ids_request, main, packages
from metrics_test import OPEN, Page

with packages():
    import kubernetes_validate
    import msgpack
    import yaml
    import zmq

KUBECTL = ROOT / "build/kubectl/kubectl"
if not KUBECTL.exists():
    print("skipped: no kubectl; tools/test takes it out of a Python package")
    sys.exit(77)

FOLDER = ROOT / "configs/kubernetes"
KUBERNETES = "1.33"
KEY = "key-of-an-operator-1"
POD_IP = "127.0.0.1"

# The metrics that the picker asks for: metric, its type, labels, where it is read. Everything is a MUST except the
# labels, without which the picker takes its own configuration.
METRICS = [
    ("TotalQueuedRequests", "vllm:num_requests_waiting", "gauge", ()),
    ("TotalRunningRequests", "vllm:num_requests_running", "gauge", ()),
    ("KVCacheUtilization", "vllm:kv_cache_usage_perc", "gauge", ()),
    ("BlockSize, NumGPUBlocks", "vllm:cache_config_info", "gauge", ("block_size", "num_gpu_blocks")),
]
# [gie], for servers that load adapters, which Quire refuses by name; [router] takes its absence for none.
LORA = ("vllm:lora_requests_info", "gauge", ("max_lora", "running_lora_adapters", "waiting_lora_adapters"))

# The schemas of kinds that are no part of Kubernetes itself. Fields: a dict of them, a list of one kind, a set of
# values, or a type; "!" marks those that must be there.
METADATA = {"name!": str, "labels": dict}
SCHEMAS = {
    "InferencePool": ("inference.networking.k8s.io/v1", {"metadata!": METADATA, "spec!": {  # [gie]
        "selector!": {"matchLabels!": dict}, "targetPorts!": [{"number!": int}],
        "appProtocol": {"http", "kubernetes.io/h2c"},
        "endpointPickerRef": {"group": str, "kind": str, "name!": str, "port": {"number!": int},
                              "failureMode": {"FailOpen", "FailClose"}}}}),
    "HTTPRoute": ("gateway.networking.k8s.io/v1", {"metadata!": METADATA, "spec!": {  # [k8s]
        "parentRefs": [{"name!": str, "namespace": str}],
        "rules": [{"matches": [{"path": {"type": {"Exact", "PathPrefix"}, "value": str}}],
                   "backendRefs": [{"group": str, "kind": str, "name!": str, "port": int, "weight": int}]}]}}),
    "EndpointPickerConfig": ("llm-d.ai/v1alpha1", {  # [router]
        "plugins!": [{"name": str, "type!": str, "parameters": dict}],
        "dataLayer": {"sources": [{"pluginRef!": str, "extractors!": [{"pluginRef!": str}]}]},
        "schedulingProfiles!": [{"name!": str, "plugins!": [{"pluginRef!": str, "weight": int}]}]}),
}
PLUGINS = {  # [router]: type and parameters; the picker refuses others
    "metrics-data-source": {"scheme": {"http", "https"}, "path": str, "interval": str, "insecureSkipVerify": bool,
                            "caCertPath": str, "clientCertPath": str, "clientKeyPath": str},
    "core-metrics-extractor": {}, "endpoint-notification-source": {}, "queue-scorer": {}, "max-score-picker": {},
    "kv-cache-utilization-scorer": {}, "single-profile-handler": {},
    "prefix-cache-scorer": {"prefixMatchInfoProducerName": str},
    "token-producer": {"modelName!": str, "vllm": {"url": str}},
    "precise-prefix-cache-producer": {
        "tokenProcessorConfig": {"blockSize": int},
        "kvEventsConfig": {"topicFilter": str, "podDiscoveryConfig": {"socketPort": int, "replaySocketPort": int}}},
}


def check(value, schema, path):
    """AssertionError at the first field that is not there, or is not as the schema says."""
    if isinstance(schema, dict):
        assert isinstance(value, dict), f"{path}: not a map"
        known = {name.rstrip("!"): kind for name, kind in schema.items()}
        for name, member in value.items():
            assert name in known, f"{path}: no field is called {name}"
            check(member, known[name], f"{path}.{name}")
        for name in schema:
            assert not name.endswith("!") or name[:-1] in value, f"{path}: {name[:-1]} is missing"
    elif isinstance(schema, list):
        assert isinstance(value, list) and value, f"{path}: not a list with something in it"
        for i, member in enumerate(value):
            check(member, schema[0], f"{path}[{i}]")
    elif isinstance(schema, set):
        assert value in schema, f"{path}: {value!r} is none of {sorted(schema)}"
    else:
        assert type(value) is schema, f"{path}: {value!r} is no {schema.__name__}"


def picker(name):
    return yaml.safe_load((FOLDER / "gateway" / name).read_text())


@functools.cache
def built(folder):
    """The objects that kubectl apply -k would make, by kind and name."""
    text = subprocess.run([KUBECTL, "kustomize", folder], check=True, capture_output=True, text=True).stdout
    return {(document["kind"], document["metadata"]["name"]): document for document in yaml.safe_load_all(text)}


def deployment(overlay="gateway"):
    """Its pod's labels, its pod, and its container."""
    template = built(FOLDER / overlay)["Deployment", "quire"]["spec"]["template"]
    return template["metadata"]["labels"], template["spec"], template["spec"]["containers"][0]


def environment():
    return {variable["name"]: variable.get("value") for variable in deployment()[2]["env"]}


def kv_events_settings():
    return json.loads(environment()["QUIRE_KV_EVENTS_CONFIG"])


def autoscaled(folder):
    """A kustomization as its users write it: an overlay and the autoscaler."""
    text = {"resources": [os.path.relpath(FOLDER / "gpu", folder)],
            "components": [os.path.relpath(FOLDER / "autoscaling", folder)]}
    pathlib.Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(text))
    return built(folder)


class FilesTest(unittest.TestCase):
    def check_object(self, where, document):
        if document["kind"] not in SCHEMAS:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
            return
        version, schema = SCHEMAS[document["kind"]]
        self.assertEqual(document["apiVersion"], version)
        rest = {name: value for name, value in document.items() if name not in ("kind", "apiVersion")}
        check(rest, schema, f"{where}: {document['kind']}")

    def test_every_object_has_the_fields_that_its_kind_has(self):
        kinds = set()
        with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="kustomization_") as folder:
            overlays = {name: built(FOLDER / name) for name in ("base", "cpu", "gpu", "gateway")}
            overlays["autoscaling"] = autoscaled(folder)
        for where, objects in overlays.items():
            for document in objects.values():
                with self.subTest(where, kind=document["kind"]):
                    self.check_object(where, document)
                kinds.add(document["kind"])
        for name in ("picker.yaml", "picker-precise.yaml"):
            self.check_object(name, picker(name))
        self.assertLessEqual({"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "InferencePool",
                              "HTTPRoute", "PersistentVolumeClaim"}, kinds)

    def test_a_misspelt_field_is_found(self):
        for path, wrong in ((("spec",), "replica"), (("spec", "template", "spec"), "terminationGracePeriod"),
                            (("spec", "template", "spec", "containers", 0, "securityContext"), "readOnlyRoot")):
            document = copy.deepcopy(built(FOLDER / "cpu")["Deployment", "quire"])
            place = functools.reduce(lambda at, name: at[name], path, document)
            place[wrong] = 1
            with self.assertRaises(kubernetes_validate.ValidationError):
                self.check_object("wrong", document)

    def test_services_budget_and_autoscaler_mean_the_deployment(self):
        with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="kustomization_") as folder:
            objects = autoscaled(folder)
        labels = objects["Deployment", "quire"]["spec"]["template"]["metadata"]["labels"]
        ports = {port["name"] for port in deployment("gpu")[2]["ports"]}
        for name in ("quire", "quire-pods"):
            service = objects["Service", name]["spec"]
            self.assertLessEqual(service["selector"].items(), labels.items())
            self.assertLessEqual({port["targetPort"] for port in service["ports"]}, ports)
        budget = objects["PodDisruptionBudget", "quire"]["spec"]
        self.assertLessEqual(budget["selector"]["matchLabels"].items(), labels.items())
        scaler = objects["HorizontalPodAutoscaler", "quire"]["spec"]
        self.assertEqual((scaler["scaleTargetRef"]["kind"], scaler["scaleTargetRef"]["name"]), ("Deployment", "quire"))
        self.assertNotIn("replicas", objects["Deployment", "quire"]["spec"], "an apply would set it back")
        rule = yaml.safe_load((FOLDER / "autoscaling/prometheus-adapter.yaml").read_text())["rules"]["custom"][0]
        self.assertEqual(rule["name"]["as"], scaler["metrics"][0]["pods"]["metric"]["name"])
        self.assertIn(METRICS[0][1] + "{", rule["seriesQuery"])

    def test_pods_have_no_rights_that_they_do_not_need(self):
        for overlay in ("cpu", "gpu", "gateway"):
            with self.subTest(overlay):
                _, pod, container = deployment(overlay)
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertFalse(pod["automountServiceAccountToken"])
                self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                                "capabilities": {"drop": ["ALL"]}})
                volumes = {volume["name"] for volume in pod["volumes"]}
                self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
                self.assertEqual([mount["mountPath"] for mount in container["volumeMounts"]], ["/cache"])

    def test_the_check_minds_what_is_wrong(self):
        schema = SCHEMAS["InferencePool"][1]
        good = {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {}}, "targetPorts": [{"number": 1}]}}
        check(good, schema, "good")
        for wrong in ({"metadata": {"name": "a"}}, {**good, "status": {}},
                      {**good, "spec": {**good["spec"], "targetPorts": [{"number": "1"}]}},
                      {**good, "spec": {**good["spec"], "targetPorts": []}},
                      {**good, "spec": {**good["spec"], "appProtocol": "grpc"}}):
            with self.assertRaises(AssertionError):
                check(wrong, schema, "wrong")

    def test_the_pool_finds_the_servers(self):
        labels, _, container = deployment()
        objects = built(FOLDER / "gateway")
        pool, route = objects["InferencePool", "quire"], objects["HTTPRoute", "quire"]
        self.assertLessEqual(pool["spec"]["selector"]["matchLabels"].items(), labels.items())
        self.assertEqual(labels["llm-d.ai/engine-type"], "vllm")
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.assertEqual([target["number"] for target in pool["spec"]["targetPorts"]], [ports["http"]])
        self.assertIn(f"--port={ports['http']}", container["args"])
        backend = route["spec"]["rules"][0]["backendRefs"][0]
        self.assertEqual((backend["kind"], backend["name"]), (pool["kind"], pool["metadata"]["name"]))

    def test_a_pod_that_goes_has_time(self):
        _, pod, container = deployment()
        drain = next(int(text.partition("=")[2]) for text in container["args"] if text.startswith("--shutdown-timeout="))
        sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        self.assertGreater(pod["terminationGracePeriodSeconds"], drain + sleep)

    def test_the_pickers_plugins(self):
        for name in ("picker.yaml", "picker-precise.yaml"):
            config = picker(name)
            declared = {plugin.get("name", plugin["type"]): plugin for plugin in config["plugins"]}
            for plugin in declared.values():
                check(plugin.get("parameters", {}), PLUGINS[plugin["type"]], f"{name}: {plugin['type']}")
            used = [entry["pluginRef"] for profile in config["schedulingProfiles"] for entry in profile["plugins"]]
            for source in config["dataLayer"]["sources"]:
                used += [source["pluginRef"], *(extractor["pluginRef"] for extractor in source["extractors"])]
            self.assertLessEqual(set(used), set(declared))

    def test_the_precise_picker_hears_the_servers(self):
        declared = picker("picker-precise.yaml")["plugins"]
        plugins = {plugin["type"]: plugin.get("parameters", {}) for plugin in declared}
        events = plugins["precise-prefix-cache-producer"]["kvEventsConfig"]
        settings = kv_events_settings()
        self.assertEqual(settings["endpoint"], f"tcp://*:{events['podDiscoveryConfig']['socketPort']}")
        self.assertEqual(settings["replay_endpoint"], f"tcp://*:{events['podDiscoveryConfig']['replaySocketPort']}")
        self.assertTrue(settings["topic"].startswith(events["topicFilter"]))
        model = environment()["QUIRE_MODEL"]
        self.assertEqual((plugins["token-producer"]["modelName"], settings["topic"].split("@")[2]), (model, model))
        ports = [port["containerPort"] for port in deployment()[2]["ports"]]
        self.assertLessEqual({5557, 5558}, set(ports))


class PickerTest(unittest.TestCase):
    """A server with the Deployment's arguments, but for model, ports and a key file, so that who has no key is a stranger,
    as a picker on another machine is."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="quire_kubernetes_"))
        keys = f"{folder}/keys"
        with open(keys, "w") as file:
            file.write(json.dumps({"key": KEY, "name": "operator", "roles": ["inference", "admin"]}) + "\n")
        model = environment()["QUIRE_MODEL"]
        cls.events = f"ipc://{folder}/events"
        events = (environment()["QUIRE_KV_EVENTS_CONFIG"].replace("$(POD_IP)", POD_IP)
                  .replace("tcp://*:5557", cls.events).replace("tcp://*:5558", f"ipc://{folder}/replay"))
        arguments = [text for text in deployment()[2]["args"] if not text.startswith("--port=")]
        cls.server = cls.enterClassContext(Server("--served-model-name", model, "--max-num-seqs", "1", "--api-key-file", keys,
                                                  "--kv-events-config", events, *arguments))
        cls.model = model
        cls.metadata = [("authorization", f"Bearer {KEY}")]

    def page(self):
        """As the picker asks: HTTP/1.1 on the port of inference, no key."""
        with OPEN(f"http://{self.server.target}/metrics", timeout=60) as answer:
            self.assertTrue(answer.headers["content-type"].startswith("text/plain"))
            return Page(answer.read().decode())

    def begin(self, ids):
        return self.server.inference.Generate(ids_request(ids, max_tokens=4000), metadata=self.metadata)

    def test_every_metric_has_its_name_type_and_labels(self):
        page = self.page()
        for what, name, kind, labels in METRICS:
            with self.subTest(what):
                self.assertEqual(page.types.get(name), kind)
                self.assertEqual(sum(other == name for other, _ in page.samples), 1, "of several it reads one")
                self.assertLessEqual(set(labels), page.labels[name])
        labels = next(dict(labels) for name, labels in page.samples if name == "vllm:cache_config_info")
        self.assertGreater(int(labels["block_size"]), 0)
        self.assertGreater(int(labels["num_gpu_blocks"]), 0)
        self.assertNotIn(LORA[0], page.types)

    def test_metrics_mean_what_the_contract_says(self):
        running = self.begin([5, 6, 7] * 20)
        next(running)
        waiting = self.begin([8, 9])
        give_up = time.monotonic() + 60
        while (page := self.page()).value("vllm:num_requests_waiting") != 1:
            self.assertLess(time.monotonic(), give_up)
        self.assertEqual(page.value("vllm:num_requests_running"), 1)
        self.assertTrue(0 < page.value("vllm:kv_cache_usage_perc") <= 1)
        running.cancel()
        waiting.cancel()

    def test_who_has_no_key_may_read_metrics_and_nothing_else(self):
        self.page()
        with self.assertRaises(urllib.error.HTTPError) as refused:
            OPEN(f"http://{self.server.target}/v1/models", timeout=60)
        self.assertEqual(refused.exception.code, 401)

    def test_the_probes_are_answered_without_a_key(self):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            with OPEN(f"http://{self.server.target}{deployment()[2][probe]['httpGet']['path']}", timeout=60) as answer:
                self.assertEqual(answer.status, 200)

    def test_completions_and_chat(self):
        messages = [{"role": "user", "content": "What is 3 + 4?"}]
        for path, prompt in (("completions", {"prompt": "Once"}), ("chat/completions", {"messages": messages})):
            body = json.dumps({"model": self.model, "max_tokens": 4, **prompt}).encode()
            request = urllib.request.Request(f"http://{self.server.target}/v1/{path}", body,
                                             {"content-type": "application/json", "authorization": f"Bearer {KEY}"})
            with OPEN(request, timeout=60) as answer:
                self.assertEqual(len(json.load(answer)["choices"]), 1)

    def test_events_tell_pod_model_and_tokens(self):
        with zmq.Context() as context, context.socket(zmq.SUB) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SUBSCRIBE, b"kv@")
            socket.connect(self.events)
            give_up = time.monotonic() + 60
            ids = 100
            while not socket.poll(200):  # until the subscription has arrived, each prompt is a new one
                self.assertLess(time.monotonic(), give_up)
                ids += 1
                Answer(self.server.inference.Generate(ids_request([ids] * 40, max_tokens=1), metadata=self.metadata))
            topic, _, payload = socket.recv_multipart()
        self.assertEqual(topic.decode().split("@"), ["kv", f"{POD_IP}:8000", self.model])
        stored = next(event for event in msgpack.unpackb(payload)[1] if event[0] == "BlockStored")
        self.assertEqual(len(stored[3]), stored[4] * len(stored[1]), "the picker wants whole blocks")


if __name__ == "__main__":
    main()
