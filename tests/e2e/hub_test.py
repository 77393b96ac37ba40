"""Models by name: quire-server finds them in the Hugging Face cache or downloads them from a hub, here a
server on loopback; together with Python's huggingface_hub, and whatever the hub, the network, the disk or
another process does.

    hub_test.py [CLASS[.TEST]...]     # without names all of them, in several processes, as they mostly wait"""

import contextlib
import fcntl
import importlib.util
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BENCH, ROOT, SERVER, Answer, Server, chat_request, free_port, main, pb
from hub_server import Hub, etag_of

DEMO = ROOT / "configs/demo"
NAME = "org/demo-7M"
NUM_PROCESSES = 4
WANTED = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
          "model.safetensors"}


def demo_files():
    return {name: (DEMO / name).read_bytes() for name in WANTED}


def sharded_demo_files(num_shards):
    """The demo model with its tensors in several files. Each is padded to several parts of a download."""
    files = demo_files()
    data = files.pop("model.safetensors")
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    names, weight_map = sorted(header), {}
    for shard in range(num_shards):
        name, tensors, body = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors", {}, b""
        for tensor in names[shard::num_shards]:
            begin, end = header[tensor]["data_offsets"]
            tensors[tensor] = {**header[tensor],
                               "data_offsets": [len(body), len(body) + end - begin]}
            body += data[8 + length + begin:8 + length + end]
            weight_map[tensor] = name
        text = json.dumps(tensors).encode()
        files[name] = len(text).to_bytes(8, "little") + text + body
    files["model.safetensors.index.json"] = json.dumps({"weight_map": weight_map}).encode()
    return files


def padded_demo_files(num_bytes):
    """The demo model with a tensor that nobody reads, so large that the file is downloaded in parts."""
    files = demo_files()
    data = files["model.safetensors"]
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    end = len(data) - 8 - length
    header["model.rotary_emb.inv_freq"] = {"dtype": "F32", "shape": [num_bytes // 4], "data_offsets": [end, end + num_bytes]}
    text = json.dumps(header).encode()
    padding = b"".join(block.to_bytes(8, "little") * 1024 for block in range(num_bytes // 8192))
    files["model.safetensors"] = len(text).to_bytes(8, "little") + text + data[8 + length:] + padding
    return files


class HubTestCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quire_hub_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.hub = Hub()
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)
        self.faults = self.hub.faults
        self.commit = self.hub.add(NAME, demo_files())
        self.home = self.folder / "home"
        self.empty = self.folder / "inner/empty"  # where no name is that of a folder, nor beside it
        self.empty.mkdir(parents=True)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder),
                            "HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.endpoint,
                            "no_proxy": "127.0.0.1"}

    @property
    def repo(self):
        return self.home / "hub" / ("models--" + NAME.replace("/", "--"))

    @property
    def snapshot(self):
        return self.repo / "snapshots" / self.commit

    def with_environment(self, **changes):
        return {key: value for key, value in {**self.environment, **changes}.items() if value is not None}

    @contextlib.contextmanager
    def server(self, *flags, wait=True, **changes):
        flags = flags if "--model" in flags else ("--model", NAME, *flags)
        saved = dict(os.environ)
        os.environ.clear()
        os.environ.update(self.with_environment(**changes))
        try:
            server = Server(*flags, wait=False)
        finally:
            os.environ.clear()
            os.environ.update(saved)
        with server:
            if wait:
                server.wait_until_serving()
            yield server

    def serve(self, *flags, **changes):
        """Starts a server, asks it something, stops it; what it has logged."""
        with self.server(*flags, **changes) as server:
            answer = Answer(server.inference.Generate(chat_request("Say hello", max_tokens=4)))
            self.assertEqual(answer.finished.usage.completion_tokens, 4)
            self.assertEqual(server.stop(), 0, server.output())
            return server.output()

    def check_fails(self, code, *fragments, flags=(), preexec=None, **changes):
        """Starts a server that ends by itself with this code and one line with all fragments."""
        flags = flags if "--model" in flags else ("--model", NAME, *flags)
        result = subprocess.run(
            [SERVER, "--host", "127.0.0.1", "--port", str(free_port()), *flags], text=True,
            capture_output=True, timeout=60, check=False, env=self.with_environment(**changes),
            cwd=self.empty, preexec_fn=preexec, restore_signals=False)
        lines = [line for line in result.stderr.splitlines() if line.startswith("quire-server: ")]
        self.assertEqual((result.returncode, len(lines)), (code, 1), result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, lines[0])
        self.assert_nothing_half_written()
        return result.stderr

    def incomplete(self, content):
        return self.repo / "blobs" / f"{etag_of(content)}.quire.incomplete"

    def kept(self, content, path):
        """Of each part of a file that is being downloaded, how many bytes the next process finds."""
        try:
            with path.open("rb") as file:
                file.seek(len(content) + struct.calcsize("<Qqq"))  # what is behind the data: incomplete_file.cc
                return [done for (done,) in struct.iter_unpack("<q", file.read())]
        except FileNotFoundError:
            return []

    def wait_until_kept(self, server, content, count):
        """Until a server has kept `count` bytes of a file and some of each part. What the hub has sent says less:
        megabytes of it may be on their way."""
        path = self.incomplete(content)
        give_up = time.monotonic() + 60
        kept = []
        while sum(kept) < count or 0 in kept:
            self.assertLess(time.monotonic(), give_up, server.output())
            time.sleep(0.01)
            kept = self.kept(content, path)

    def kill_while_downloading(self, content, count):
        """Kills a server when it has kept so many bytes of a file; how many they are by then."""
        with self.server(wait=False) as server:
            self.wait_until_kept(server, content, count)
            server.process.kill()
            server.process.wait()
        self.assert_nothing_half_written()
        return sum(self.kept(content, self.incomplete(content)))

    def num_asked_for(self, file, first_request):
        """The bytes of a file that requests from this one on have asked for, all of them by ranges."""
        ranges = [headers["Range"].removeprefix("bytes=").split("-")
                  for host, _, path, headers in self.hub.requests[first_request:]
                  if host == "content" and path.split("?")[0].endswith(file)]
        return sum(int(last) + 1 - int(first) for first, last in ranges)

    def assert_nothing_half_written(self):
        """Everything under a final name is what its name says."""
        for blob in self.repo.glob("blobs/*"):
            if not blob.name.endswith(".incomplete"):
                self.assertEqual(blob.name, etag_of(blob.read_bytes()))
        for link in self.repo.glob("snapshots/*/*"):
            self.assertTrue(link.is_symlink() and link.exists(), link)

    def assert_whole(self, files=None):
        files = files or demo_files()
        self.assertEqual({path.name: path.read_bytes() for path in self.snapshot.iterdir()}, files)
        self.assertEqual([path.name for path in self.repo.glob("blobs/*incomplete")], [])
        self.assert_nothing_half_written()


class DownloadTest(HubTestCase):
    def test_a_name_is_downloaded_once_and_served_under_it(self):
        with self.server() as server:
            self.assertEqual(server.inference.GetModel(pb.GetModelRequest()).name, NAME)
            self.assertIn(f"downloading {NAME} (main, commit {self.commit[:8]})", server.output())
        self.assert_whole()
        self.assertEqual((self.repo / "refs/main").read_text(), self.commit)
        link = os.readlink(self.snapshot / "config.json")
        self.assertEqual(link, "../../blobs/" + etag_of(demo_files()["config.json"]))
        num_requests = len(self.hub.requests)
        self.assertNotIn("downloading", self.serve())
        self.assertEqual(len(self.hub.requests), num_requests + 1)  # what main is now

    def test_only_what_is_needed_is_downloaded(self):
        files = demo_files()
        junk = ["pytorch_model.bin", "consolidated.safetensors", "model.fp16.safetensors", "README.md",
                "original/params.json", "onnx/model.onnx", "model.gguf", ".gitattributes"]
        self.commit = self.hub.add(NAME, {**files, **{name: b"x" * 100 for name in junk}})
        self.serve()
        self.assert_whole(files)
        self.assertEqual([path for path in self.hub.paths("api")
                          if any(path.endswith(name) for name in junk)], [])

    def test_shards_of_an_index(self):
        files = sharded_demo_files(3)
        self.commit = self.hub.add(NAME, {**files, "extra-00001.safetensors": b"not of the index"})
        self.serve()
        self.assert_whole(files)

    def test_dummy_weights_and_no_tokenizer_download_neither(self):
        with self.server("--load-format", "dummy", "--skip-tokenizer-init"):
            pass
        self.assert_whole({name: content for name, content in demo_files().items()
                           if name in ("config.json", "generation_config.json")})
        self.serve()  # and what is missing comes when it is needed
        self.assert_whole()

    def test_a_plan_downloads_the_small_files_alone(self):
        def plan():
            result = subprocess.run([SERVER, "--plan-json", "--device", "cpu", "--model", NAME], text=True, check=False,
                                    env=self.with_environment(), capture_output=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)

        planned = plan()
        self.assertIsNone(planned["weight_file_bytes"])
        self.assert_whole({name: content for name, content in demo_files().items()
                           if name in ("config.json", "generation_config.json")})
        self.serve()  # which misses the rest, and gets it
        self.assert_whole()
        with_weights = plan()
        self.assertEqual(with_weights["weight_file_bytes"], len(demo_files()["model.safetensors"]))
        self.assertEqual(with_weights["kv"], planned["kv"])

    def test_additional_chat_templates(self):
        files = {**demo_files(), "additional_chat_templates/tool_use.jinja": b"{{ messages }}"}
        self.commit = self.hub.add(NAME, files)
        with self.server():
            pass
        template = self.snapshot / "additional_chat_templates/tool_use.jinja"
        self.assertEqual(template.read_bytes(), b"{{ messages }}")
        self.assertTrue(os.readlink(template).startswith("../../../blobs/"))

    def test_revisions(self):
        other = self.hub.add(NAME, {**demo_files(), "generation_config.json": b"{}"}, "refs/pr/1")
        self.serve("--revision", "refs/pr/1")
        self.assertEqual((self.repo / "refs/refs/pr/1").read_text(), other)
        self.assertTrue((self.repo / "snapshots" / other / "model.safetensors").exists())
        self.serve("--revision", self.commit)
        self.assert_whole()
        self.assertFalse((self.repo / "refs/main").exists())
        del self.hub.requests[:]
        self.serve("--revision", self.commit)  # a whole commit in the cache needs no asking
        self.assertEqual(self.hub.requests, [])
        self.check_fails(66, "has no revision nowhere", "branch", flags=("--revision", "nowhere"))

    def test_a_branch_that_moved_is_followed(self):
        self.serve()
        first, self.commit = self.commit, self.hub.add(
            NAME, {**demo_files(), "generation_config.json": b"{}"})
        self.assertIn("downloading", self.serve())
        self.assertEqual((self.repo / "refs/main").read_text(), self.commit)
        self.assertTrue((self.repo / "snapshots" / first / "config.json").exists())
        self.assertEqual(self.hub.body_bytes["model.safetensors"],
                         (DEMO / "model.safetensors").stat().st_size)  # the blob is shared

    def test_a_renamed_model_and_a_mirror_without_facts(self):
        self.hub.renamed["old/name"] = NAME
        self.faults.no_blob_facts = True
        with self.server("--model", "old/name"):
            pass
        folder = self.home / "hub/models--old--name/snapshots" / self.commit
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, demo_files())

    def test_download_dir_and_cache_variables(self):
        for changes, flags, place in (
                ({"HF_HUB_CACHE": "A"}, (), "A"), ({"HUGGINGFACE_HUB_CACHE": "B"}, (), "B"),
                ({"HF_HOME": None, "XDG_CACHE_HOME": "C"}, (), "C/huggingface/hub"),
                ({"HF_HOME": None}, (), ".cache/huggingface/hub"),
                ({"HF_HOME": "~/D"}, (), "D/hub"),
                ({"HF_HUB_CACHE": "A"}, ("--download-dir", str(self.folder / "E")), "E")):
            changes = {key: value if value is None or "~" in value else str(self.folder / value)
                       for key, value in changes.items()}
            self.serve(*flags, **changes)
            folder = self.folder / place / "models--org--demo-7M/snapshots" / self.commit
            self.assertTrue((folder / "model.safetensors").exists(), place)

    def test_without_links_files_are_moved(self):
        self.serve(HF_HUB_DISABLE_SYMLINKS="1")
        self.assertEqual({path.name: path.read_bytes() for path in self.snapshot.iterdir()}, demo_files())
        self.assertFalse(any(path.is_symlink() for path in self.snapshot.iterdir()))
        self.assertNotIn("downloading", self.serve())

    @unittest.skipUnless(BENCH.exists(), f"{BENCH} is not built")
    def test_quire_bench_takes_names_too(self):
        result = subprocess.run([BENCH, "throughput", "--num-prompts", "1", "--model", NAME],
                                env=self.environment, capture_output=True, text=True, timeout=120,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_whole()


class TokenTest(HubTestCase):
    TOKEN = "hf_secret"

    def setUp(self):
        super().setUp()
        self.faults.token = self.TOKEN

    def assert_token_went_to_the_hub_only(self):
        for host, _, _, headers in self.hub.requests:
            expected = f"Bearer {self.TOKEN}" if host == "api" else None
            self.assertEqual(headers.get("Authorization"), expected)
        self.assertTrue(self.hub.paths("content"))

    def test_the_token_goes_to_the_hub_only(self):
        self.serve(HF_TOKEN=f" {self.TOKEN}\n")
        self.assert_token_went_to_the_hub_only()

    def test_tokens_in_files(self):
        self.home.mkdir()
        (self.home / "token").write_text(self.TOKEN + "\n")
        self.serve()
        self.assert_token_went_to_the_hub_only()
        (self.home / "token").rename(self.folder / "elsewhere")
        self.serve(HF_TOKEN_PATH=str(self.folder / "elsewhere"), HF_HUB_CACHE=str(self.folder / "new"))
        self.assert_token_went_to_the_hub_only()

    def test_without_a_valid_token(self):
        self.faults.error_message = "Invalid credentials in Authorization header"
        self.check_fails(66, NAME, "HF_TOKEN")
        self.check_fails(66, "refuses the token from HF_TOKEN", HF_TOKEN="hf_wrong")
        self.check_fails(66, "without a token", HF_TOKEN=self.TOKEN, HF_HUB_DISABLE_IMPLICIT_TOKEN="1")
        self.check_fails(64, "HF_TOKEN", HF_TOKEN="two\nlines")

    def test_a_gated_model(self):
        self.faults.file_statuses = [403] * 100
        self.faults.error_code = "GatedRepo"
        self.check_fails(66, f"{NAME} is gated", f"{self.hub.endpoint}/{NAME}", "licence", HF_TOKEN=self.TOKEN)


class CacheTest(HubTestCase):
    def test_offline(self):
        self.check_fails(69, "HF_HUB_OFFLINE", str(self.home / "hub"), NAME, HF_HUB_OFFLINE="1")
        self.serve()
        del self.hub.requests[:]
        self.serve(HF_HUB_OFFLINE="1")
        self.serve(TRANSFORMERS_OFFLINE="true")
        self.assertEqual(self.hub.requests, [])
        (self.snapshot / "model.safetensors").unlink()
        self.check_fails(69, "without model.safetensors", HF_HUB_OFFLINE="1")

    def test_a_cached_model_serves_without_a_hub(self):
        self.serve()
        for changes in ({"HF_ENDPOINT": f"http://127.0.0.1:{free_port()}"},
                        {"HF_ENDPOINT": "http://no-such-host.invalid"}):
            log = self.serve(**changes)
            self.assertEqual(log.count(f"{NAME} is served as it was last downloaded: "), 1, log)
        self.faults.statuses = [500]
        self.assertIn("served as it was last downloaded", self.serve())
        self.check_fails(66, "has no revision nowhere", flags=("--revision", "nowhere"))

    def test_a_read_only_cache(self):
        self.serve()
        self.assertEqual(0, subprocess.run(["chmod", "-R", "a-w", self.home], check=False).returncode)
        self.addCleanup(subprocess.run, ["chmod", "-R", "u+w", self.home], check=False)
        if os.geteuid() == 0:
            def preexec():
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os.chmod(self.folder, 0o755)
        else:
            preexec = None
        self.hub.add("org/other", demo_files())
        self.check_fails(69, "HF_HOME", "--download-dir", str(self.home), flags=("--model", "org/other"),
                  preexec=preexec)
        process = subprocess.Popen(
            [SERVER, "--model", NAME, "--host", "127.0.0.1", "--port", str(free_port())],
            env=self.environment, preexec_fn=preexec, stderr=subprocess.PIPE, text=True)
        with process:
            log = ""
            for line in process.stderr:
                log += line
                if "ready on" in line:
                    process.terminate()
            self.assertEqual(process.wait(timeout=120), 0, log)
            self.assertIn("ready on", log)

    def test_huggingface_hub_finds_what_we_wrote(self):
        self.serve()
        found = self.huggingface_hub(
            "snapshot_download(NAME, local_files_only=True)", HF_HUB_OFFLINE="1")
        self.assertEqual(found, str(self.snapshot))
        found = self.huggingface_hub("hf_hub_download(NAME, 'model.safetensors')", HF_HUB_OFFLINE="1")
        self.assertEqual(found, str(self.snapshot / "model.safetensors"))
        self.assertEqual(self.huggingface_hub("len(scan_cache_dir().warnings)"), "0")

    def test_we_find_what_huggingface_hub_wrote(self):
        self.assertEqual(self.huggingface_hub("snapshot_download(NAME)"), str(self.snapshot))
        del self.hub.requests[:]
        self.serve(HF_HUB_OFFLINE="1")
        self.assertNotIn("downloading", self.serve())
        self.assertEqual(self.hub.paths("content"), [])

    def test_what_huggingface_hub_has_begun_is_completed(self):
        self.huggingface_hub("hf_hub_download(NAME, 'tokenizer.json')")
        sent = self.hub.body_bytes["tokenizer.json"]
        self.serve()
        self.assert_whole()
        self.assertEqual(self.hub.body_bytes["tokenizer.json"], sent)

    @unittest.skipUnless(importlib.util.find_spec("huggingface_hub"), "no huggingface_hub")
    def huggingface_hub(self, expression, **changes):
        program = ("from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download; "
                   f"NAME = {NAME!r}; print({expression})")
        result = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60,
            env=self.with_environment(HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", **changes))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip()


class PartsTest(HubTestCase):
    """A file of several parts, each on a connection of its own."""

    @classmethod
    def setUpClass(cls):
        cls.files = padded_demo_files(200 << 20)

    def setUp(self):
        super().setUp()
        self.commit = self.hub.add(NAME, self.files)

    def check(self, surplus=0):
        self.serve()
        self.assert_whole(self.files)
        size = len(self.files["model.safetensors"])
        self.assertLessEqual(self.hub.body_bytes["model.safetensors"], size + surplus)

    def test_parts_come_in_parallel(self):
        self.check()
        ranges = {headers.get("Range") for host, _, _, headers in self.hub.requests if host == "content"}
        self.assertEqual(len(ranges), 4)
        self.assertIn("bytes=67108864-134217727", ranges)

    def test_cut_parts_go_on_where_they_were(self):
        self.faults.cut_after, self.faults.num_cuts = 20_000_000, 6
        self.check()

    def test_ranges_that_are_ignored(self):
        self.faults.ignore_ranges = True
        self.check()

    def test_ranges_that_are_ignored_and_cuts(self):
        self.faults.ignore_ranges = True
        self.faults.cut_after, self.faults.num_cuts = 100_000_000, 2
        self.check(surplus=200_000_000)

    def test_a_killed_download_is_resumed(self):
        self.faults.bytes_per_second = 10_000_000
        content = self.files["model.safetensors"]
        num_kept = self.kill_while_downloading(content, 20_000_000)
        self.faults.bytes_per_second = 0
        num_requests = len(self.hub.requests)
        self.serve()
        self.assert_whole(self.files)
        self.assertEqual(self.num_asked_for("model.safetensors", num_requests), len(content) - num_kept)


class TroubleTest(HubTestCase):
    def test_cut_connections_go_on_where_they_were(self):
        self.faults.cut_after, self.faults.num_cuts = 5_000_000, 2
        self.serve()
        self.assert_whole()
        size = (DEMO / "model.safetensors").stat().st_size
        self.assertEqual(self.hub.body_bytes["model.safetensors"], size)

    def test_connections_that_are_always_cut(self):
        self.faults.cut_after, self.faults.num_cuts = 1000, 1000
        self.check_fails(69, NAME, "check the network")

    def test_a_stalled_connection_is_given_up(self):
        self.faults.stalls = 1
        self.serve(HF_HUB_DOWNLOAD_TIMEOUT="1")
        self.assert_whole()

    def test_servers_that_ignore_ranges(self):
        self.faults.ignore_ranges = True
        self.faults.cut_after, self.faults.num_cuts = 5_000_000, 1
        self.serve()
        self.assert_whole()

    def test_wrong_bytes(self):
        self.faults.wrong_bytes = 1
        self.assertIn("wrong bytes", self.serve())
        self.assert_whole()
        self.hub.add("org/bad", demo_files())
        self.faults.wrong_bytes = 2
        self.check_fails(69, "wrong bytes twice", "model.safetensors", flags=("--model", "org/bad"))
        blobs = self.home / "hub/models--org--bad/blobs"
        self.assertFalse((blobs / etag_of(demo_files()["model.safetensors"])).exists())

    def test_passing_errors_are_retried(self):
        self.faults.statuses = [500, 503, 429]
        self.faults.file_statuses = [502, 429]
        self.faults.retry_after = "1"
        self.serve()
        self.assert_whole()

    def test_lasting_errors(self):
        for statuses, code, fragments in (
                ([500] * 9, 69, ("HTTP 500", "later")), ([429] * 9, 69, ("too many requests", "HF_TOKEN")),
                ([418], 69, ("HTTP 418",)), ([451], 66, ("may not be downloaded",)),
                ([401], 66, ("without a token", "HF_TOKEN")), ([404], 66, ("check the spelling",))):
            self.faults.statuses = list(statuses)
            self.check_fails(code, NAME if code == 66 else self.hub.endpoint, *fragments)
        self.faults.statuses, self.faults.retry_after = [429], "3600"
        self.check_fails(69, "in 3600 s")

    def test_no_network(self):
        log = self.check_fails(69, "check the network", "HTTPS_PROXY",
                               HF_ENDPOINT="http://no-such-host.invalid")
        self.assertEqual(log.count("trying again"), 1)

    def test_unknown_names(self):
        self.check_fails(66, "no folder org/absent here", "HF_TOKEN",
                  flags=("--model", "org/absent"))
        self.check_fails(66, "no folder absent here", flags=("--model", "absent"),
                  HF_TOKEN="hf_any")

    @unittest.skipUnless(shutil.which("openssl"), "no openssl to make a certificate")
    def test_certificates(self):
        certificate, key = self.folder / "certificate.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=hub",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", key, "-out",
                        certificate], check=True, capture_output=True)
        self.hub.encrypt(certificate, key)
        self.check_fails(69, "cannot prove who it is", "SSL_CERT_FILE", HF_ENDPOINT=self.hub.endpoint)
        # The content host is not encrypted: nothing is taken from there.
        self.check_fails(69, NAME, HF_ENDPOINT=self.hub.endpoint, SSL_CERT_FILE=str(certificate))
        self.assertEqual(self.hub.paths("content"), [])
        self.serve("--load-format", "dummy", HF_ENDPOINT=self.hub.endpoint, SSL_CERT_FILE=str(certificate))

    def test_malformed_names_ask_nobody(self):
        for name, fragment in (("org/na me", "letters"), ("org/..", "'.'"), ("org/a..b", '".."'),
                               ("org/-x", "'-'"), ("a" * 97, "96"),
                               ("https://huggingface.co/org/x/tree/main", "org/x"),
                               ("org/x@v1", "--model org/x and --revision v1"), ("org/x\n", "letters")):
            self.check_fails(64, fragment, flags=("--model", name))
        for revision in ("../x", "a b", "/x", "x" * 201, "a..b", "x\n"):
            self.check_fails(64, "--revision", flags=("--revision", revision))
        self.check_fails(64, "--revision is for models by name", flags=("--model", str(DEMO), "--revision", "v1"))
        self.check_fails(64, "HF_ENDPOINT", HF_ENDPOINT="huggingface.co")
        self.check_fails(64, "HF_HUB_DOWNLOAD_TIMEOUT", HF_HUB_DOWNLOAD_TIMEOUT="soon")
        for path in ("/absent/model", "./absent", "a/b/c", "org//x", "../x"):
            self.check_fails(66, path, "does not exist", flags=("--model", path))
        self.assertEqual(self.hub.requests, [])

    def test_web_pages_instead_of_answers(self):
        self.faults.html = "api"
        self.check_fails(69, "web page", "HF_ENDPOINT", self.hub.endpoint)
        self.faults.html = "file"
        self.check_fails(69, "web page", "HF_ENDPOINT", self.hub.endpoint)

    def test_answers_that_make_no_sense(self):
        for answer in (b"", b"{", b"[]", b"null", b'{"sha": "../../etc", "siblings": []}',
                       b'{"sha": "%s"}' % (b"0" * 40), b"[" * 100000):
            self.faults.api_bytes = answer or b" "
            self.check_fails(69, "hub", self.hub.endpoint)
        self.faults.api_bytes = b" " * (33 << 20)
        self.check_fails(69, "33,554,432 bytes")

    def test_a_hub_that_does_not_say_what_it_has(self):
        self.faults.no_blob_facts = self.faults.no_etag = True
        self.check_fails(69, "ETag", HF_ENDPOINT=self.hub.endpoint)

    def test_names_that_lead_out_are_never_followed(self):
        self.faults.extra_names = ["../../../evil.json", "/tmp/evil.json", "additional_chat_templates/../../x.jinja",
                                   "additional_chat_templates/.x.jinja", "a\\b.safetensors", "\u0000.json"]
        self.serve()
        self.assert_whole()
        self.assertEqual([path for path in self.hub.paths("api") if "evil" in path or "jinja" in path], [])
        files = sharded_demo_files(2)
        index = json.loads(files["model.safetensors.index.json"])
        index["weight_map"]["x"] = "../../../../evil.safetensors"
        files["model.safetensors.index.json"] = json.dumps(index).encode()
        self.hub.add("org/evil", {**files, "../../../../evil.safetensors": b"x"})
        self.check_fails(66, "evil.safetensors", flags=("--model", "org/evil"))
        index["weight_map"]["x"] = "model-00009-of-00002.safetensors"
        files["model.safetensors.index.json"] = json.dumps(index).encode()
        self.hub.add("org/partial", files)
        self.check_fails(66, "lacks", "model-00009-of-00002.safetensors", flags=("--model", "org/partial"))

    def test_a_huge_configuration_is_not_downloaded(self):
        self.faults.claimed_sizes = {"config.json": 100 << 20}
        self.check_fails(66, "config.json has 104,857,600 bytes")
        self.assertFalse(self.repo.exists())

    def test_repositories_that_are_no_models(self):
        weights = {"config.json": b"{}", "tokenizer.json": b"{}"}
        for files, fragment in (
                ({**weights, "pytorch_model.bin": b"x"}, "save_pretrained"),
                ({"model-Q4_K_M.gguf": b"x"}, "GGUF"), ({**weights, "x.gguf": b"x"}, "GGUF"),
                ({"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}, "merge"),
                ({"params.json": b"{}", "consolidated.00.pth": b"x"}, "maker's own format"),
                ({"README.md": b"x"}, "no config.json"), ({}, "is empty"),
                (weights, "--load-format dummy"),
                ({"config.json": b"{}", "model.safetensors": b"x"}, "--skip-tokenizer-init")):
            name = f"org/kind{len(self.hub.repos)}"
            self.hub.add(name, files)
            self.check_fails(66, name, fragment, flags=("--model", name))
        self.assertEqual([path for path in self.hub.paths("api") if "/resolve/" in path], [])

    def test_a_full_disk(self):
        limit = 4 << 20

        def preexec():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        self.check_fails(69, "cannot write", "File too large", "--download-dir", preexec=preexec)
        self.serve()  # and with more space it goes on
        self.assert_whole()
        self.assertLess(self.hub.body_bytes["model.safetensors"],
                        (DEMO / "model.safetensors").stat().st_size + (2 << 20))

    def test_more_bytes_than_the_disk_has(self):
        self.faults.claimed_sizes = {"model.safetensors": 1 << 60}
        self.faults.no_blob_facts = False
        files = self.hub.repos[NAME]["main"][1]
        # For a file with an LFS entry, the size in that entry counts: claim it there.
        answer = {"sha": self.commit, "siblings": [
            {"rfilename": name, "lfs": {"sha256": "0" * 64, "size": 1 << 60}} if name == "model.safetensors"
            else {"rfilename": name, "size": len(content), "blobId": etag_of(content)}
            for name, content in files.items()]}
        self.faults.api_bytes = json.dumps(answer).encode()
        self.check_fails(69, "free some space", "nothing was downloaded")


class ProcessesTest(HubTestCase):
    def test_two_servers_at_once_download_once(self):
        self.faults.bytes_per_second = 8_000_000
        with self.server(wait=False) as first, self.server(wait=False) as second:
            first.wait_until_serving()
            second.wait_until_serving()
            logs = first.output() + second.output()
        self.assert_whole()
        self.assertEqual(dict(self.hub.body_bytes),
                         {name: len(content) for name, content in demo_files().items()}, logs)
        self.assertIn("another process is downloading", logs)

    def test_we_wait_for_a_lock_of_huggingface_hub(self):
        etag = etag_of(demo_files()["model.safetensors"])
        lock = self.home / "hub/.locks/models--org--demo-7M" / f"{etag}.lock"
        lock.parent.mkdir(parents=True)
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with self.server(wait=False) as server:
                give_up = time.monotonic() + 30
                while "another process is downloading" not in server.output():
                    self.assertLess(time.monotonic(), give_up, server.output())
                    time.sleep(0.05)
                self.assertEqual(self.hub.body_bytes["model.safetensors"], 0)
                fcntl.flock(file, fcntl.LOCK_UN)
                server.wait_until_serving()
        self.assert_whole()

    def test_a_killed_download_is_resumed(self):
        self.faults.bytes_per_second = 2_000_000
        content = demo_files()["model.safetensors"]
        num_kept = self.kill_while_downloading(content, 2_000_000)
        self.assertFalse((self.repo / "refs/main").exists())
        self.assertFalse((self.snapshot / "config.json").exists())  # so that it does not count as whole
        self.faults.bytes_per_second = 0
        num_requests = len(self.hub.requests)
        self.serve()
        self.assert_whole()
        self.assertEqual(self.num_asked_for("model.safetensors", num_requests), len(content) - num_kept)

    def test_a_damaged_rest_of_a_download_is_found_out(self):
        self.faults.bytes_per_second = 2_000_000
        content = demo_files()["model.safetensors"]
        self.kill_while_downloading(content, 2_000_000)
        self.faults.bytes_per_second = 0
        with self.incomplete(content).open("r+b") as file:
            file.write(b"damaged")
        self.assertIn("wrong bytes", self.serve())
        self.assert_whole()

    def test_ctrl_c_ends_a_download_at_once(self):
        self.faults.bytes_per_second = 1_000_000
        content = demo_files()["model.safetensors"]
        with self.server(wait=False) as server:
            self.wait_until_kept(server, content, 1_000_000)
            server.signal(signal.SIGINT)
            self.assertEqual(server.process.wait(timeout=5), 0)
        self.assert_nothing_half_written()
        self.assertTrue(self.incomplete(content).exists())


def run_all_in_processes():
    """Each process takes every fourth test: a test has its own hub, folders and port. Their output, one after another."""
    loader = unittest.defaultTestLoader
    names = [f"{case.__name__}.{name}" for case in HubTestCase.__subclasses__()
             for name in loader.getTestCaseNames(case)]
    processes = []
    for first in range(NUM_PROCESSES):
        log = tempfile.TemporaryFile("w+")
        processes.append((log, subprocess.Popen([sys.executable, __file__, *names[first::NUM_PROCESSES]],
                                                stdout=log, stderr=subprocess.STDOUT)))
    codes = [process.wait(timeout=120) for _, process in processes]
    for log, _ in processes:
        log.seek(0)
        print(log.read(), end="")
    return max(codes, key=abs)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    sys.exit(run_all_in_processes())
