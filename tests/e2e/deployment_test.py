"""What deploys Quire beside Kubernetes: the Dockerfile says what the build and the programs need (tools/image-test builds it),
the Compose file is one and what it mounts is there, Prometheus scrapes a server with its configuration, systemd takes the
unit."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from harness import ROOT, SERVER, Answer, Server, chat_request, free_port, main, packages
from metrics_test import OPEN

with packages():
    import compose_spec
    import yaml

CONFIGS = ROOT / "configs"
BIN = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")) / "bin"
PROMETHEUS = ROOT / "build/promtool/prometheus"
DRAIN_SECONDS = int(re.search(r"\| `shutdown_timeout` \| 0 \.\. 86400 \| (\d+) ", (ROOT / "docs/settings.md").read_text())[1])


def seconds(text):
    return int(re.fullmatch(r"(\d+)s?", str(text))[1])


class Dockerfile:
    """Its stages, each a list of (instruction, text) after those of the stage that it continues."""

    def __init__(self, text):
        lines = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines()
        self.stages, self.images = {}, set()
        for line in filter(None, lines):
            instruction, _, rest = line.partition(" ")
            if instruction == "FROM":
                base, _, name = rest.partition(" AS ")
                self.stages[name] = stage = list(self.stages.get(base, []))
                if base not in self.stages:
                    self.images.add(base)
            else:
                stage.append((instruction, rest.strip()))

    def last(self, stage, instruction):
        return [text for name, text in self.stages[stage] if name == instruction][-1]

    def packages(self, stage):
        """Of all apt-get install of the stage."""
        runs = [text for name, text in self.stages[stage] if name == "RUN" and "apt-get" in text]
        for text in runs:
            assert re.match(r"apt-get update && apt-get install -y --no-install-recommends .*"
                            r"&& rm -rf /var/lib/apt/lists/\*$", text), text
        return set(re.findall(r"[a-z][a-z0-9+.-]+", " ".join(
            re.sub(r".*--no-install-recommends(.*)&& rm .*", r"\1", text) for text in runs)))


def packages_of(*programs):
    """The Debian packages with the libraries that the programs themselves ask for."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", subprocess.run(
        ["readelf", "-d", *programs], check=True, capture_output=True, text=True).stdout))
    found = subprocess.run(["dpkg", "-S", *(f"*/{name}" for name in needed)], capture_output=True, text=True).stdout
    return set(re.findall(r"(?m)^([a-z0-9+.-]+)(?::\w+)?: /(?:usr/)?lib/", found))


class DockerfileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = Dockerfile((ROOT / "Dockerfile").read_text())

    def test_builds_with_the_packages_that_the_scripts_install(self):
        script = subprocess.run(["bash", "-c", "source tools/lib/setup.sh && echo $QUIRE_BUILD_PACKAGES"], cwd=ROOT,
                                check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual(self.file.packages("tools"), set(script) - {"git"})

    @unittest.skipUnless(shutil.which("dpkg") and shutil.which("readelf"), "no dpkg or no readelf")
    def test_has_the_libraries_that_the_programs_need(self):
        needed = packages_of(*(BIN / name for name in ("quire-server", "quire-bench")))
        self.assertIn("libprotobuf32", needed)
        self.assertEqual({name for name in needed if "grpc" in name}, set())
        # Every image of Debian has the first two; certificates are for models from the hub.
        self.assertEqual(self.file.packages("runtime") | {"libc6", "libgcc-s1"},
                         needed | {"libc6", "libgcc-s1", "ca-certificates"})

    def test_both_images_stand_on_debian_and_the_one_for_processors_is_the_default(self):
        self.assertEqual(self.file.images, {"debian:bookworm-slim"})
        self.assertEqual(list(self.file.stages)[-2:], ["cuda", "cpu"])

    def test_what_runs(self):
        for stage in ("cpu", "cuda"):
            with self.subTest(stage):
                user, group = self.file.last(stage, "USER").split(":")
                self.assertGreater(int(user), 0)
                self.assertEqual(group, "0", "OpenShift's users are in this group")
                self.assertEqual(json.loads(self.file.last(stage, "ENTRYPOINT")), ["/opt/quire/bin/quire-server"])
                health = self.file.last(stage, "HEALTHCHECK").partition(" CMD ")[2]
                self.assertEqual(json.loads(health), ["/opt/quire/bin/quire-server", "--check-health"])
                self.assertEqual(self.file.last(stage, "STOPSIGNAL"), "SIGTERM")
                volumes = self.file.last(stage, "VOLUME").split()
                variables = dict(text.split("=", 1) for name, line in self.file.stages[stage] if name == "ENV"
                                 for text in line.split())
                for name in ("HF_HOME", "QUIRE_CACHE_DIR", "QUIRE_ADDRESS_FILE"):
                    self.assertTrue(any(variables[name].startswith(volume) for volume in volumes), name)

    def test_the_toolkit_is_of_one_release_and_what_stays_of_it_is_little(self):
        wheels = dict(re.findall(r"(nvidia-[a-z-]+)==([0-9.]+)", (ROOT / "Dockerfile").read_text()))
        for name in ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-cuda-cccl"):
            self.assertTrue(wheels[name].startswith("13.0."), name)
        copied = [text.split()[1] for name, text in self.file.stages["cuda"] if name == "COPY" and "cuda-toolkit" in text]
        self.assertEqual(copied, ["/usr/local/cuda/lib/libcublasLt.so.13", "/usr/local/cuda/LICENSE.txt"])


class ComposeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = {path.name: path.read_text() for path in (CONFIGS / "compose").glob("*.yaml")}
        cls.services = yaml.safe_load(cls.texts["compose.yaml"])["services"]

    def test_the_files_are_what_compose_takes(self):
        self.assertEqual(set(self.texts), {"compose.yaml", "gpu.yaml"})
        for text in self.texts.values():
            file = compose_spec.PyCompose.from_yaml(text)
            file.validate()
            file.to_spec()
        with self.assertRaises(ValueError):
            compose_spec.PyCompose.from_yaml(self.texts["compose.yaml"].replace("cap_drop", "capdrop"))

    def test_what_is_mounted_is_there(self):
        volumes = yaml.safe_load(self.texts["compose.yaml"])["volumes"]
        for service in self.services.values():
            for source in (mount.split(":")[0] for mount in service.get("volumes", ())):
                if source.startswith("."):
                    self.assertTrue((CONFIGS / "compose" / source).exists(), source)
                else:
                    self.assertIn(source, volumes)

    def test_the_server_has_no_rights_that_it_does_not_need(self):
        server = self.services["quire"]
        self.assertTrue(server["read_only"])
        self.assertEqual(server["cap_drop"], ["ALL"])
        self.assertEqual(server["security_opt"], ["no-new-privileges:true"])
        for service in self.services.values():
            for port in service["ports"]:
                self.assertTrue(port.startswith("127.0.0.1:"), "there are no keys")
        self.assertGreater(seconds(server["stop_grace_period"]), DRAIN_SECONDS)

    def test_an_unset_variable_is_not_an_empty_one(self):
        # Which the server would refuse.
        self.assertEqual(self.services["quire"]["environment"], ["QUIRE_MODEL", "HF_TOKEN"])

    def test_the_targets_are_stages_of_the_dockerfile(self):
        stages = Dockerfile((ROOT / "Dockerfile").read_text()).stages
        for text in self.texts.values():
            build = yaml.safe_load(text)["services"]["quire"]["build"]
            self.assertIn(build["target"], stages)
        context = CONFIGS / "compose" / self.services["quire"]["build"]["context"]
        self.assertEqual(context.resolve(), ROOT)

    def test_prometheus_scrapes_the_server_and_grafana_asks_prometheus(self):
        jobs = yaml.safe_load((CONFIGS / "prometheus/prometheus.yml").read_text())["scrape_configs"]
        self.assertEqual(jobs[0]["static_configs"][0]["targets"], ["quire:8000"])
        provisioning = CONFIGS / "grafana/provisioning"
        source = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text())["datasources"][0]
        url = urllib.parse.urlsplit(source["url"])
        self.assertIn(url.hostname, self.services)
        self.assertTrue(self.services[url.hostname]["ports"][0].endswith(f":{url.port}"))
        provider = yaml.safe_load((provisioning / "dashboards/quire.yaml").read_text())["providers"][0]
        mounted = [mount.split(":") for mount in self.services["grafana"]["volumes"]]
        self.assertIn(["../grafana/quire.json", provider["options"]["path"] + "/quire.json", "ro"], mounted)


class PrometheusTest(unittest.TestCase):
    @unittest.skipUnless(PROMETHEUS.exists(), "no prometheus; tools/test takes it out of Debian's package")
    def test_scrapes_a_server_and_knows_the_rules(self):
        with tempfile.TemporaryDirectory() as folder, Server("--metrics-access=anyone") as server:
            shutil.copytree(CONFIGS / "prometheus", folder, dirs_exist_ok=True)
            settings = pathlib.Path(folder, "prometheus.yml")
            settings.write_text(settings.read_text().replace("quire:8000", server.target).replace("5s", "1s"))
            port = free_port()
            process = subprocess.Popen(
                [PROMETHEUS, f"--config.file={settings}", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.assertEqual(self.wait_for(port, 'up{job="quire"} == 1')["instance"], server.target)
                self.assertIn("model_name", self.wait_for(port, "vllm:num_requests_waiting"))
                groups = self.ask(port, "rules")["groups"]
                self.assertTrue(any(rule["name"] == "QuireEngineFailed" for rule in groups[0]["rules"]))
            finally:
                process.kill()
                process.wait()

    def ask(self, port, path):
        with OPEN(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=60) as answer:
            return json.load(answer)["data"]

    def wait_for(self, port, query):
        """The labels of the query's first series."""
        give_up = time.monotonic() + 60
        while True:
            try:
                if result := self.ask(port, "query?query=" + urllib.parse.quote(query))["result"]:
                    return result[0]["metric"]
            except OSError:
                pass
            self.assertLess(time.monotonic(), give_up, query)
            time.sleep(0.1)


@unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
class SystemdTest(unittest.TestCase):
    UNIT = CONFIGS / "systemd/quire.service"

    def verify(self, text):
        """What systemd says about the unit, where the programs that it starts are."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for program in ("usr/bin/quire-server", "bin/kill"):
                (root / program).parent.mkdir(parents=True)
                shutil.copy("/bin/true", root / program)
            shutil.copytree("/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True)
            (root / "etc/systemd/system").mkdir(parents=True)
            (root / "etc/systemd/system/quire.service").write_text(text)
            run = subprocess.run(["systemd-analyze", "verify", f"--root={root}", "--man=no", "quire.service"],
                                 capture_output=True, text=True)
        return run.stdout + run.stderr

    def test_systemd_takes_it(self):
        text = self.UNIT.read_text()
        self.assertEqual(self.verify(text), "")
        self.assertIn("PrivateTemp", self.verify(text.replace("PrivateTmp", "PrivateTemp")))

    def test_it_may_do_little(self):
        exposure = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", self.UNIT],
                                  capture_output=True, text=True)
        self.assertEqual(exposure.returncode, 0, exposure.stdout[-300:])

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_it_allows_what_the_server_asks_the_kernel_for(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "trace")
            with Server("--max-connections=99", program=("strace", "-f", "-qq", "-o", trace, SERVER)) as server:
                Answer(server.inference.Generate(chat_request("What is 3 + 4?")))
                subprocess.run(["pkill", "-TERM", "-P", str(server.process.pid)], check=True)
                self.assertEqual(server.process.wait(timeout=60), 0)
            called = set(re.findall(r"(?m)^\d+ +([a-z_0-9]+)\(", trace.read_text()))
        self.assertIn("epoll_wait", called)
        filters = re.findall(r"(?m)^SystemCallFilter=(~?)(@[a-z-]+)$", self.UNIT.read_text())
        allowed = self.calls("@default").union(*(self.calls(name) for sign, name in filters if not sign))
        denied = set().union(*(self.calls(name) for sign, name in filters if sign))
        self.assertEqual(called - allowed, set())
        self.assertEqual(called & denied, set())

    def calls(self, group):
        """The system calls of one of systemd's groups."""
        lines = subprocess.run(["systemd-analyze", "syscall-filter", group], check=True, capture_output=True,
                               text=True).stdout.splitlines()[1:]
        names = {line.strip() for line in lines} - {""}
        return {name for name in names if name[0] not in "#@"}.union(
            *(self.calls(name) for name in names if name.startswith("@")))

    def test_it_gives_the_server_time_and_does_not_repeat_mistakes(self):
        unit = dict(re.findall(r"(?m)^(\w+)=(.*)$", self.UNIT.read_text()))
        self.assertGreater(seconds(unit["TimeoutStopSec"]), DRAIN_SECONDS)
        self.assertEqual(unit["RestartPreventExitStatus"], "64 66")

    def test_what_it_sets_are_settings(self):
        keys = re.findall(r"\| `([a-z_0-9]+)` \|", (ROOT / "docs/settings.md").read_text())
        default = (CONFIGS / "systemd/quire.default").read_text()
        names = re.findall(r"(QUIRE_[A-Z_]+)=", self.UNIT.read_text() + default)
        self.assertLessEqual({name[6:].lower() for name in names} - {"cache_dir"}, set(keys))


if __name__ == "__main__":
    main()
