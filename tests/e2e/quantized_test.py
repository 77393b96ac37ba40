"""The bundled model, quantized in every format that is served, answers its held-out questions; and a quantized checkpoint
with something wrong is refused by the name of the tensor or key."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from harness import AT_LENGTH, BENCH, ON_GPU, ROOT, SERVER, SMALL_CACHE, Server, main, pb

try:
    import numpy as np
    from quantize_checkpoint import FORMATS, MORE_FORMATS, quantize_checkpoint, read_safetensors, write_safetensors
except ImportError as error:
    FORMATS = MORE_FORMATS = {}
    print(f"skipped: {error}; tools/test installs tests/requirements.txt")

FOUR_BITS = ("pack-quantized", "gptq", "awq", "auto-round", "mxfp4", "nvfp4")


@unittest.skipUnless(FORMATS, "no numpy or ml_dtypes")
class QuantizedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "model"

    def test_answers_of_each_format(self):
        # A GPU has other gemms for other groups, and starts quickly.
        for kind in [*FORMATS, *(MORE_FORMATS if AT_LENGTH or ON_GPU else ())]:
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                model = pathlib.Path(folder) / "model"
                quantize_checkpoint(ROOT / "configs/demo", model, kind)
                every = "24" if not AT_LENGTH else "1" if kind in FORMATS else "6"
                required = "0.92" if kind.startswith(FOUR_BITS) and kind != "gptq-8-ordered" else "0.95"
                with Server("--model", str(model), "--served-model-name", "demo") as server:
                    result = subprocess.run(
                        [BENCH, "quality", "--target", server.target, "--dataset-path", ROOT / "configs/demo/heldout.jsonl",
                         "--every", every, "--require", required],
                        capture_output=True, text=True, check=False)
                    print(kind, result.stdout.strip().splitlines()[-1:])
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    self.assertEqual(server.stop(), 0)

    def test_a_checkpoint_that_is_made_for_an_8_bit_cache(self):
        quantize_checkpoint(ROOT / "configs/demo", self.folder, "fp8-channel")
        path = self.folder / "config.json"
        config = json.loads(path.read_text())
        config["quantization_config"]["kv_cache_scheme"] = {
            "num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}
        path.write_text(json.dumps(config))
        tensors = read_safetensors(self.folder / "model.safetensors")
        for layer in range(config["num_hidden_layers"]):
            for name in ("k_scale", "v_scale"):
                tensors[f"model.layers.{layer}.self_attn.{name}"] = np.array([0.125], np.float32)
        write_safetensors(self.folder / "model.safetensors", tensors)
        with Server("--model", str(self.folder), "--served-model-name", "demo") as server:
            self.assertEqual(server.inference.GetModel(pb.GetModelRequest()).kv_cache_dtype, "fp8_e4m3")
            self.answers(server)

    def answers(self, server):
        result = subprocess.run(
            [BENCH, "quality", "--target", server.target, "--dataset-path", ROOT / "configs/demo/heldout.jsonl",
             "--every", "1" if AT_LENGTH else "12", "--require", "0.95"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(server.stop(), 0)

    def test_a_model_that_becomes_fp8(self):
        with Server("--model", str(ROOT / "configs/demo"), "--served-model-name", "demo", "--quantization", "fp8") as server:
            self.answers(server)

    def test_what_is_quantized_already_does_not_become_fp8(self):
        quantize_checkpoint(ROOT / "configs/demo", self.folder, "awq")
        self.refused("--quantization: the checkpoint is quantized already (awq)", 64, "--quantization", "fp8")

    def test_checkpoints_of_random_weights_are_read(self):
        config = self.folder.with_name("tiny.json")
        config.write_text(json.dumps(
            {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 512, "hidden_size": 256,
             "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "head_dim": 64, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
             "tie_word_embeddings": True}))
        sizes = {}
        for kind in (None, "fp8-block", "fp8-channel", "awq", "gptq", "pack-quantized", "int8", "mxfp4", "nvfp4"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                subprocess.run([BENCH, "make-checkpoint", "--config", config, *(["--format", kind] if kind else []),
                                f"{folder}/model"], check=True, capture_output=True)
                sizes[kind] = (pathlib.Path(folder) / "model/model.safetensors").stat().st_size
                run = subprocess.run([BENCH, "latency", "--model", f"{folder}/model", "--device", "cpu", "--batch-size", "1",
                                      "--input-len", "8", "--output-len", "4", "--num-iters", "1", "--num-iters-warmup", "0"],
                                     capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                self.assertIn("1 completed, 0 failed", run.stdout)
        plain = sizes.pop(None)
        for kind, size in sizes.items():
            self.assertLess(size, plain * (0.65 if kind in ("fp8-block", "fp8-channel", "int8") else 0.5), kind)

    def refused(self, fragment, code=66, *flags):
        run = subprocess.run([SERVER, "--model", self.folder, "--port", "1", *SMALL_CACHE, *flags], capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertIn(fragment, run.stderr.strip().splitlines()[-1])

    def change(self, name, tensor):
        path = self.folder / "model.safetensors"
        tensors = read_safetensors(path)
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor(tensors[name].copy())
        write_safetensors(path, tensors)

    def test_what_is_wrong_is_named(self):
        quantize_checkpoint(ROOT / "configs/demo", self.folder, "gptq")
        module = "model.layers.3.mlp.up_proj"

        def far(groups):
            groups[5] = 1000
            return groups
        self.change(f"{module}.g_idx", far)
        self.refused(f"{module}.g_idx")
        self.change(f"{module}.g_idx", None)
        self.change(f"{module}.qweight", lambda words: words[1:])
        self.refused(f"{module}.qweight")
        self.change(f"{module}.scales", None)
        self.refused(f"{module}")

    def test_scales_that_are_no_numbers(self):
        quantize_checkpoint(ROOT / "configs/demo", self.folder, "fp8-block")

        def broken(scales):
            scales[0, 0] = float("nan")
            return scales
        self.change("model.layers.0.self_attn.q_proj.weight_scale_inv", broken)
        self.refused("model.layers.0.self_attn.q_proj.weight_scale_inv")

    def test_a_method_that_is_not_served(self):
        quantize_checkpoint(ROOT / "configs/demo", self.folder, "awq")
        path = self.folder / "config.json"
        config = json.loads(path.read_text())
        for method in ("bitsandbytes", "exl3", "aqlm", "hqq", "quark", "torchao", "nonsense"):
            config["quantization_config"]["quant_method"] = method
            path.write_text(json.dumps(config))
            self.refused(method)

    def test_a_part_of_a_fused_weight_that_is_left_out(self):
        quantize_checkpoint(ROOT / "configs/demo", self.folder, "awq")
        path = self.folder / "config.json"
        config = json.loads(path.read_text())
        config["quantization_config"]["modules_to_not_convert"] = ["layers.2.self_attn.k_proj"]
        path.write_text(json.dumps(config))
        self.refused("model.layers.2.self_attn.k_proj")


if __name__ == "__main__":
    main()
