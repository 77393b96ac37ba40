"""A checkpoint that quire-bench writes, served without a tokenizer: it is read, and it is the model that
--load-format dummy makes of the same seed."""

import http.client
import json
import pathlib
import subprocess
import tempfile
import unittest

from harness import BENCH, Answer, Server, chat_request, grpc, ids_request, main, pb

CONFIG = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 500,
          "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
          "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
          "torch_dtype": "bfloat16"}
SEED = "7"

HYBRID = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": 500, "hidden_size": 128,
          "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
          "head_dim": 64, "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1,
          "linear_num_value_heads": 3, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
          "max_position_embeddings": 512, "tie_word_embeddings": True}


def make_checkpoint(folder, *flags, values=None):
    config = pathlib.Path(folder, "input_config.json")
    config.write_text(json.dumps(values or CONFIG))
    model = pathlib.Path(folder, "model")
    subprocess.run([BENCH, "make-checkpoint", "--config", config, "--seed", SEED, *flags, model],
                   check=True, capture_output=True)
    return model


def answers(*flags):
    """Greedy ids after a few prompts."""
    with Server("--skip-tokenizer-init", "--device", "cpu", *flags) as server:
        return [Answer(server.inference.Generate(ids_request(range(first, first + 20)))).ids
                for first in (3, 100, 400)]


class CheckpointTest(unittest.TestCase):
    def test_one_file_or_many_they_are_the_dummy_model_of_the_same_seed(self):
        for flags in ((), ("--max-shard-bytes", "100000")):
            with self.subTest(flags=flags), tempfile.TemporaryDirectory() as folder:
                model = make_checkpoint(folder, *flags)
                files = sorted(path.name for path in model.glob("*.safetensors*"))
                self.assertEqual("model.safetensors.index.json" in files, bool(flags), files)
                self.assertEqual(len(files) > 3, bool(flags), files)
                read = answers("--model", str(model))
                self.assertTrue(all(len(ids) == 16 for ids in read), read)
                self.assertEqual(read, answers("--model", str(model), "--load-format", "dummy",
                                               "--seed", SEED))
                self.assertNotEqual(read, answers("--model", str(model), "--load-format", "dummy",
                                                  "--seed", "8"))

    def test_what_decides_how_states_decay_stays_in_16_bits(self):
        for name in ("fp8-block", "fp8-channel", "awq", "gptq", "pack-quantized", "int8", "mxfp4", "nvfp4"):
            with self.subTest(format=name), tempfile.TemporaryDirectory() as folder:
                model = make_checkpoint(folder, "--format", name, values=HYBRID)
                data = (model / "model.safetensors").read_bytes()
                tensors = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
                dtypes = {key: value["dtype"] for key, value in tensors.items() if "linear_attn.in_proj" in key}
                for gates in "ab":
                    self.assertEqual(dtypes.get(f"model.layers.0.linear_attn.in_proj_{gates}.weight"), "BF16")
                self.assertNotEqual(dtypes.get("model.layers.0.linear_attn.in_proj_qkv.weight"), "BF16")
                subprocess.run([BENCH, "latency", "--model", model, "--device", "cpu", "--input-len", "70", "--output-len",
                                "2", "--num-iters", "1", "--num-iters-warmup", "0"], check=True, capture_output=True)

    def test_bad_arguments_are_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "precious").write_text("data")
            for flags, fragment in (([folder], "--shape"),
                                    (["--shape", "gpt-9", folder], "llama-3-8b"),
                                    (["--shape", "qwen3-0.6b", folder], "not an empty folder")):
                result = subprocess.run([BENCH, "make-checkpoint", *flags], check=False,
                                        capture_output=True, text=True)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(fragment, result.stdout + result.stderr)


def break_token(file, token):
    """The embedding of this token becomes NaN."""
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[:8], "little")
    tensor = json.loads(data[8:8 + size])["model.embed_tokens.weight"]
    row_bytes = 2 * tensor["shape"][1]
    begin = 8 + size + tensor["data_offsets"][0] + token * row_bytes
    data[begin:begin + row_bytes] = b"\xc0\x7f" * tensor["shape"][1]
    file.write_bytes(data)


class BrokenLogitsTest(unittest.TestCase):
    def test_a_request_that_meets_them_ends_with_an_error_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            model = make_checkpoint(folder)
            break_token(model / "model.safetensors", 7)
            with Server("--skip-tokenizer-init", "--device", "cpu", "--model", str(model)) as server:
                sound = ids_request([3, 4, 5], max_tokens=5)
                expected = Answer(server.inference.Generate(sound)).ids
                self.assertEqual(len(expected), 5)
                for request in (ids_request([3, 4, 7]), ids_request([7] + [3] * 300)):
                    neighbour = server.inference.Generate(sound)
                    with self.assertRaises(grpc.RpcError) as refused:
                        Answer(server.inference.Generate(request))
                    self.assertEqual(refused.exception.code(), grpc.StatusCode.INTERNAL)
                    self.assertEqual(refused.exception.details(),
                                     "the model produced logits that are no numbers (NaN)")
                    self.assertEqual(Answer(neighbour).ids, expected)
                body = json.dumps({"prompt": [3, 7], "max_tokens": 3}).encode()
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                self.assertEqual(answer.status, 500)
                self.assertIn("no numbers", answer.read().decode())
                connection.request("GET", "/metrics")
                self.assertRegex(connection.getresponse().read().decode(), r"(?m)^quire_broken_logits_total\{.*\} 3$")
                connection.close()
                self.assertEqual(server.output().count("logits that are no numbers (NaN), and its request"), 1)


class WithoutTokenizerTest(unittest.TestCase):
    def test_text_is_refused_and_ids_work(self):
        with Server("--skip-tokenizer-init") as server:
            stop_strings = ids_request([5, 6])
            stop_strings.stop.stop_strings.append("x")
            text = pb.GenerateRequest()
            text.text.text = "hello"
            tokenize = pb.TokenizeRequest()
            tokenize.text.text = "hello"
            for call, request in ((server.inference.GenerateOnce, chat_request("hello")),
                                  (server.inference.GenerateOnce, text),
                                  (server.inference.GenerateOnce, stop_strings),
                                  (server.inference.Tokenize, tokenize),
                                  (server.inference.Detokenize, pb.DetokenizeRequest(ids=[5]))):
                with self.assertRaises(grpc.RpcError) as refused:
                    call(request)
                self.assertEqual(refused.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
                self.assertIn("--skip-tokenizer-init", refused.exception.details())
            request = ids_request([5, 6], max_tokens=4)
            request.output.return_token_ids = False  # there is nothing else to return
            self.assertEqual(len(Answer(server.inference.Generate(request)).ids), 4)


if __name__ == "__main__":
    main()
