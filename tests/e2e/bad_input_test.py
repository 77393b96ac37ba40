"""Bad input of every kind gets the named status or exit code, and a sentence that says what to change."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from unittest import mock

from harness import (ROOT, SERVER, Server, ServerTestCase, chat_request, free_port, grpc, ids_request, main,
                     pb)

INVALID = grpc.StatusCode.INVALID_ARGUMENT


class BadRequestTest(ServerTestCase):
    def check(self, fragment, request, code=INVALID):
        self.assert_status(code, fragment, lambda: self.generate(request))
        self.assert_status(code, fragment, lambda: self.server.inference.GenerateOnce(request))

    def test_prompts(self):
        self.check("prompt", pb.GenerateRequest())
        self.check("no tokens", ids_request([]))
        self.check("1000000", ids_request([5, 1000000]))
        self.check("token", ids_request([1] * 100000))
        request = pb.GenerateRequest()
        request.messages.messages.add(role="", content="x")
        self.check("role", request)
        request = chat_request("hello")
        request.messages.tools_json = "{not json"
        self.check("tools_json", request)

    def test_json_that_is_made_to_cost_much(self):
        keys = "{" + ",".join(f'"{i}":1' for i in range(30_000)) + "}"
        for field, json_text, fragment in (("tools_json", f"[{keys}]", "maximum context length"),
                                           ("template_kwargs_json", keys, None),
                                           ("tools_json", "[" * 10**6, "tools_json: nested more than 64 deep"),
                                           ("tools_json", "[" + "1," * 300_000 + "1]", "more than 65536 values")):
            request = chat_request("What is 1 + 1?")
            setattr(request.messages, field, json_text)
            if fragment:
                self.check(fragment, request)
            else:
                self.assertTrue(self.generate(request).text)
        request = chat_request("What is 1 + 1?")
        request.messages.messages[0].extra_json = keys
        self.assertTrue(self.generate(request).text)
        for _ in range(4096):
            request.messages.messages.add(role="user")
        self.check("at most 4096", request)

    def test_sampling(self):
        for field, value in (("top_k", -5), ("temperature", -1.0), ("temperature", float("nan")),
                             ("top_p", 1.5), ("top_p", 0.0), ("min_p", 2.0), ("n", 10**6), ("n", 0),
                             ("repetition_penalty", 0.0), ("presence_penalty", float("inf"))):
            request = chat_request("hello")
            setattr(request.sampling, field, value)
            self.check(field, request)
        request = chat_request("hello")
        request.sampling.logit_bias[10**6] = 1
        self.check("logit_bias", request)

    def test_stops_and_output(self):
        for field, value in (("max_tokens", 0), ("max_tokens", -3), ("min_tokens", -1)):
            request = chat_request("hello")
            setattr(request.stop, field, value)
            self.check(field, request)
        self.check("stop_strings", chat_request("hello", stop_strings=["x"] * 65))
        self.check("stop_strings", chat_request("hello", stop_strings=["x" * 257]))
        self.check("stop_strings", chat_request("hello", stop_strings=[""]))
        self.check("stop_token_ids", chat_request("hello", stop_token_ids=[10**6]))
        for field in ("logprobs", "prompt_logprobs"):
            request = chat_request("hello")
            setattr(request.output, field, 21)
            self.check(field, request)

    def test_names(self):
        request = chat_request("hello")
        request.model = "another-model"
        self.check("another-model", request, grpc.StatusCode.NOT_FOUND)
        request = chat_request("hello")
        request.request_id = "x" * 129
        self.check("request_id", request)
        request = chat_request("hello")
        request.cache_salt = "x" * 129
        self.check("cache_salt", request)

    def test_invalid_utf8_is_refused(self):
        # Python's protobuf refuses to build such a message: send the bytes. Field 3 is `text`, its
        # field 1 the string.
        raw = self.server.channel.unary_unary("/quire.v1.Inference/GenerateOnce")
        self.assert_status(INVALID, "UTF-8", lambda: raw(b"\x1a\x04\x0a\x02\xff\xfe"))

    def test_request_id_must_be_unique_while_running(self):
        request = ids_request(range(1, 50), max_tokens=1500)
        request.request_id = "twin"
        stream = self.server.inference.Generate(request)
        next(stream)
        self.check("twin", request, grpc.StatusCode.ALREADY_EXISTS)
        stream.cancel()

    def test_accepted_requests_survive_a_storm_of_bad_ones(self):
        stream = self.server.inference.Generate(ids_request(range(1, 50), max_tokens=300))
        for _ in range(100):
            self.assert_status(INVALID, "", lambda: self.server.inference.GenerateOnce(
                ids_request([10**6])))
        self.assertEqual(sum(len(r.delta.token_ids) for r in stream), 300)


class BadStartTest(unittest.TestCase):
    """Exit codes: 64 arguments or configuration, 66 model files, 69 device, port or memory."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quire_bad_start_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, code, fragment, *flags, env=None):
        port = () if "--port" in flags else ("--port", str(free_port()))
        result = subprocess.run([SERVER, "--host", "127.0.0.1", *port, *flags],
                                capture_output=True, text=True, timeout=60, check=False,
                                env=None if env is None else {**os.environ, **env})
        self.assertEqual(result.returncode, code, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("quire-server: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn(fragment, lines[0])

    def copy_of_demo(self):
        folder = self.folder / "model"
        shutil.copytree(ROOT / "configs/demo", folder, dirs_exist_ok=True)
        return folder

    def config(self, value):
        path = self.folder / "config.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return str(path)

    def test_arguments(self):
        self.check(64, "--max-num-seqs", "--max-num-seqs", "0")
        self.check(64, "--max-model-len", "--max-model-lem", "100")  # names the nearest flag
        self.check(64, "dtype", "--dtype", "int3")
        self.check(64, "use --dtype float32 or --dtype bfloat16", "--device", "cpu", "--dtype", "half")
        self.check(64, "kv-cache-dtype", "--kv-cache-dtype", "int8")
        self.check(64, "use it with --kv-cache-dtype fp8_e4m3", "--calculate-kv-scales")
        self.check(64, "use it with --kv-cache-dtype fp8_e4m3", "--kv-cache-dtype-skip-layers", "0")
        for wrong in ("99", "-1", "full", "0,"):
            self.check(64, "--kv-cache-dtype-skip-layers", "--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers",
                       wrong)
        self.check(64, "--kv-cache-dtype float16", "--device", "cpu", "--kv-cache-dtype", "float16")
        self.check(64, "block", "--block-size", "17")
        self.check(64, "port", "--port", "70000")
        self.check(64, "4X", "--kv-cache-memory-bytes", "4X")
        self.check(64, "a value must follow", "--max-num-seqs")
        self.check(64, "leave out \"serve\"", "serve", "org/name")
        self.check(64, "two models", "org/name", "--model", "other")
        self.check(64, "the bundled model", "--model", "")

    def test_environment(self):
        self.check(64, "QUIRE_MAX_NUM_SEQS", env={"QUIRE_MAX_NUM_SEQS": "0"})
        self.check(64, "QUIRE_MODEL: must not be empty", env={"QUIRE_MODEL": ""})
        self.check(64, "missing.json", env={"QUIRE_CONFIG": "/nonexistent/missing.json"})
        self.check(64, "comes from QUIRE_MAX_MODEL_LEN", env={"QUIRE_MAX_MODEL_LEN": "1M"})
        self.check(64, "--max-num-seqs", "--max-num-seqs", "0", env={"QUIRE_MAX_NUM_SEQ": "1"})

    def test_keys_and_certificates(self):
        self.check(64, "--api-key-file: /nonexistent/keys: No such file", "--api-key-file", "/nonexistent/keys")
        self.check(64, "not a regular file", "--api-key-file", "/dev/zero")
        self.check(64, "comes from QUIRE_API_KEY_FILE", env={"QUIRE_API_KEY_FILE": "/nonexistent/keys"})
        self.check(64, "--tls-cert needs --tls-key", "--tls-cert", "/nonexistent/cert")
        self.check(64, "--tls-cert: /nonexistent/cert: No such file", "--tls-cert", "/nonexistent/cert",
                   "--tls-key", "/nonexistent/key")
        self.check(64, "--plaintext: off leaves no way in", "--plaintext", "off")

    def test_flags_of_other_servers(self):
        self.check(64, "--api-key: use --api-key-file", "--api-key", "secret")
        self.check(64, "-ngl: use --device", "-ngl", "99")
        self.check(64, "-hf: use --model", "-hf", "org/name")
        self.check(64, "--trust-remote-code: not needed", "org/name", "--trust-remote-code")

    def test_values_that_the_model_or_the_device_shows(self):
        self.check(64, "--max-model-len: 4097", "--max-model-len", "4097")
        self.check(64, "--attention-backend", "--device", "cpu", "--attention-backend", "trtllm")
        self.check(64, "--max-num-batched-tokens", "--max-num-batched-tokens", "8",
                   "--max-num-seqs", "16")
        self.check(64, "no.jinja", "--chat-template", "/nonexistent/no.jinja")
        self.check(64, "is a folder", "--chat-template", str(self.folder))
        self.check(64, "not a chat template", "--chat-template", str(ROOT / "configs/demo/README.md"))
        self.check(64, "--chat-template", "--skip-tokenizer-init", "--chat-template", "x")

    def test_settings_without_effect_on_the_device(self):
        self.check(64, "--kv-cache-memory-bytes", "--device", "cpu", "--gpu-memory-utilization", "0.5")
        self.check(64, "--enforce-eager", "--device", "cpu", "--enforce-eager")
        self.check(64, "QUIRE_AUTOTUNE", "--device", "cpu", env={"QUIRE_AUTOTUNE": "false"})
        self.check(64, '"cpu_isa"', "--device", "cuda", "--config", self.config({"cpu_isa": "avx2"}))

    def test_configuration_file(self):
        self.check(64, "max_num_seqs", "--config", self.config({"max_num_sequences": 4}))
        self.check(64, "max_num_seqs", "--config", self.config({"max_num_seqs": -1}))
        self.check(64, "max_num_seqs", "--config", self.config({"max_num_seqs": "four"}))
        self.check(64, "JSON", "--config", self.config("{broken"))
        self.check(64, "missing.json", "--config", "/nonexistent/missing.json")
        self.check(64, "not a regular file", "--config", "/dev/zero")
        self.check(64, "is a folder", "--config", str(self.folder))
        self.check(64, "1.5X", "--config", self.config({"kv_cache_memory_bytes": "1.5X"}))

    def test_files_that_never_end_or_nest_without_end(self):
        folder = self.copy_of_demo()
        deep = '{"a":' * 100_000
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.check(64, "nested more than 64 deep", "--config", self.config(deep))
        self.check(64, "fifo is not a regular file", "--config", str(fifo))
        for path in ("/", "/dev/zero", str(fifo)):
            self.check(64, f"{path} is ", "--chat-template", path)
        for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                     "chat_template.jinja"):
            contents = (folder / name).read_bytes() if (folder / name).exists() else None
            if name != "chat_template.jinja":
                (folder / name).write_text(deep)
                self.check(66, f"{name}: nested more than 64 deep", "--model", str(folder))
            for target in (fifo, "/dev/zero"):
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to(target)
                self.check(66, name, "--model", str(folder))
            (folder / name).unlink()
            if contents is not None:
                (folder / name).write_bytes(contents)

    def test_weights_that_no_layer_reads(self):
        folder = self.copy_of_demo()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(
            json.dumps({**config, "num_hidden_layers": config["num_hidden_layers"] - 1}))
        self.check(66, f"model.layers.{config['num_hidden_layers'] - 1}.", "--model", str(folder))

    def test_model_folder(self):
        self.check(66, "/nonexistent/model", "--model", "/nonexistent/model")
        self.check(66, "config.json", "--model", str(self.folder))

    def test_model_files(self):
        folder = self.copy_of_demo()
        weights = folder / "model.safetensors"
        data = weights.read_bytes()
        weights.write_bytes(data[:-1000])
        self.check(66, "truncated", "--model", str(folder))
        weights.write_bytes(b"\xff" * 100)
        self.check(66, "model.safetensors", "--model", str(folder))
        weights.write_bytes(data)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 128}))
        self.check(66, "shape", "--model", str(folder))
        (folder / "config.json").write_text(
            json.dumps({**config, "architectures": ["MambaForCausalLM"]}))
        self.check(66, "MambaForCausalLM", "--model", str(folder))
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "tokenizer.json").write_text("{}")
        self.check(66, "tokenizer.json", "--model", str(folder))

    def test_machine(self):
        self.check(69, "--device", "--device", "cuda", env={"CUDA_VISIBLE_DEVICES": "-1"})
        self.check(69, "--kv-cache-memory-bytes 16777216", "--kv-cache-memory-bytes", "1000")
        self.check(69, "use --max-model-len 16 or less", "--kv-cache-memory-bytes", "100k")
        self.check(69, "or less", "--kv-cache-memory-bytes", "1000G")

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.check(69, "port", "--port", str(taken.getsockname()[1]))


class GoodStartTest(unittest.TestCase):
    """Settings from several places at once, as a user would give them."""

    def test_names_environment_and_positional_model(self):
        with tempfile.TemporaryDirectory(prefix="quire_good_start_") as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps({"max_model_len": "1k", "max_num_seqs": 3,
                                          "kv_cache_memory_bytes": "64M", "device": "cpu"}))
            env = {"QUIRE_CONFIG": str(config), "QUIRE_MAX_MODEL_LEN": "2K", "QUIRE_PROT": "1",
                   "QUIRE_PORT": "tcp://10.0.0.1:8000"}
            with mock.patch.dict(os.environ, env), \
                    Server(str(ROOT / "configs/demo"), "--served-model-name", "first", "second") as server:
                model = server.inference.GetModel(pb.GetModelRequest())
                self.assertEqual((model.name, list(model.aliases)), ("first", ["second"]))
                self.assertEqual(model.max_model_len, 2048)  # the variable wins over the file
                for name in ("", "first", "second"):
                    request = ids_request([1, 2], max_tokens=1)
                    request.model = name
                    server.inference.GenerateOnce(request)
                output = server.output()
            self.assertIn("did you mean QUIRE_PORT?", output)
            self.assertIn("link to a service", output)
            self.assertIn("settings from the environment: QUIRE_MAX_MODEL_LEN\n", output)

    def test_every_line_of_the_log_is_json_if_asked(self):
        with Server("--log-format", "json", "--log-level", "debug") as server:
            server.inference.GenerateOnce(chat_request("hello"))
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=30), 0)
            lines = [json.loads(line) for line in server.output().splitlines()]
        self.assertTrue(all({"time", "level", "message"} <= set(line) for line in lines))
        self.assertTrue(any(line["message"].startswith("ready on ") for line in lines))
        self.assertTrue(any(line["level"] == "debug" for line in lines))

    def test_a_seed_makes_the_server_repeat_itself(self):
        def tokens(*flags):
            request = ids_request([1, 2], max_tokens=20)
            request.sampling.temperature = 2.0
            with Server(*flags) as server:
                return [tuple(server.inference.GenerateOnce(request).choices[0].token_ids) for _ in range(3)]
        first = tokens("--seed", "7")
        self.assertEqual(tokens("--seed", "7"), first)
        self.assertEqual(len(set(first)), 3)
        self.assertNotEqual(tokens(), tokens())


if __name__ == "__main__":
    main()
