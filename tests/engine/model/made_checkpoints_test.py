#!/usr/bin/env python3
"""What quire-bench make-checkpoint writes in each format is what the packages of the format read: a tiny model, whose
weights as the package reads them are equal to what we make of the same files, bit for bit (ModelOpt has 0 for -0).

    made_checkpoints_test.py [FORMAT...]

fp8-block is read by transformers, other formats by compressed-tensors, gptqmodel and ModelOpt. A format whose package is
not installed is skipped by name, and all are (exit code 77) without torch and transformers. They are large; this test
uses build/venv-hf when its own Python lacks them. To run it with all of them:

    tools/make_hf_venv.sh && build/venv-hf/bin/pip install accelerate compressed-tensors nvidia-modelopt setuptools
    BUILD_CUDA_EXT=0 build/venv-hf/bin/pip install --no-build-isolation gptqmodel
    tools/test --nightly made_checkpoints -V
"""

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from hf_modules import SKIPPED, find_modules

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu"))
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 512, "hidden_size": 256,
          "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
          "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True}
NUM_MODULES = 7  # of the model that are quantized


def our_weights(folder):
    """By module, as weights_tool reads them."""
    import torch
    values = folder.with_name("values")
    run = subprocess.run([BUILD / "bin/weights_tool", folder, values], capture_output=True, text=True)
    if run.returncode != 0:
        raise AssertionError(f"weights_tool exited with {run.returncode}: {run.stderr.strip()}")
    data, at, weights = torch.frombuffer(bytearray(values.read_bytes()), dtype=torch.float32), 0, {}
    for line in run.stdout.splitlines():
        name, rows, columns = line.split()
        size = int(rows) * int(columns)
        weights[name] = data[at:at + size].reshape(int(rows), int(columns))
        at += size
    assert at == len(data), f"{len(data) - at} values too many"
    return weights


def read_stored(folder):
    from safetensors.torch import load_file
    return load_file(folder / "model.safetensors")


def by_transformers(folder, names, config):
    """As a user's from_pretrained has them."""
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, quantization_config=config)
    return {name: model.get_submodule(name).weight.detach().float() for name in names}


def by_fp8(folder, names):
    from transformers.utils.quantization_config import FineGrainedFP8Config
    return by_transformers(folder, names, FineGrainedFP8Config(dequantize=True))


def by_compressed_tensors(folder, names):
    from transformers.utils.quantization_config import CompressedTensorsConfig
    return by_transformers(folder, names, CompressedTensorsConfig(dequantize=True))


def by_gptqmodel(folder, names):
    import torch
    from gptqmodel import BACKEND, GPTQModel
    from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
    is_awq = json.loads((folder / "config.json").read_text())["quantization_config"]["quant_method"] == "awq"
    model = GPTQModel.load(str(folder), backend=BACKEND.TORCH_AWQ if is_awq else BACKEND.TORCH, device="cpu",
                           dtype=torch.float16).model
    weights = {}
    for name in names:
        module = model.get_submodule(name)
        module.scales = module.scales.float()  # so that products are rounded to float32 and not to float16
        weight = dequantize_gemm(module.qweight, module.qzeros, module.scales, module.bits,
                                 module.group_size) if is_awq else module.dequantize_weight()
        weights[name] = weight.t().float()
    return weights


def by_modelopt(folder, names):
    import torch
    from modelopt.torch.quantization.qtensor import NVFP4QTensor
    stored, weights = read_stored(folder), {}
    for name in names:
        packed = stored[f"{name}.weight"]
        tensor = NVFP4QTensor(torch.Size((packed.shape[0], 2 * packed.shape[1])), torch.float32, packed)
        weights[name] = tensor.dequantize(torch.float32, scale=stored[f"{name}.weight_scale"],
                                          double_scale=stored[f"{name}.weight_scale_2"], block_sizes={-1: 16})
    return weights


DISTRIBUTIONS = {"compressed_tensors": "compressed-tensors", "modelopt": "nvidia-modelopt"}
# By format: the packages beside torch and transformers, and their reader.
READERS = {
    "fp8-block": (["accelerate"], by_fp8),
    "fp8-channel": (["compressed_tensors"], by_compressed_tensors),
    "awq": (["gptqmodel"], by_gptqmodel),
    "gptq": (["gptqmodel"], by_gptqmodel),
    "pack-quantized": (["compressed_tensors"], by_compressed_tensors),
    "int8": (["compressed_tensors"], by_compressed_tensors),
    "mxfp4": (["compressed_tensors"], by_compressed_tensors),
    "nvfp4": (["modelopt"], by_modelopt),
}


def check(kind, read):
    """How many values there are; AssertionError when something differs."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "model"
        config = folder.with_name("config.json")
        config.write_text(json.dumps(CONFIG))
        subprocess.run([BUILD / "bin/quire-bench", "make-checkpoint", "--config", config, "--format", kind, folder],
                       check=True, capture_output=True)
        ours = our_weights(folder)
        assert len(ours) == NUM_MODULES, f"{len(ours)} modules are quantized: {', '.join(ours)}"
        with contextlib.redirect_stdout(sys.stderr):  # of packages that say what they do
            theirs = read(folder, list(ours))
    for name, weight in ours.items():
        assert theirs[name].shape == weight.shape, f"{name} is {list(theirs[name].shape)} there"
        num_others = (theirs[name] != weight).sum().item()
        assert num_others == 0, f"{name}: {num_others} of {weight.numel()} values are others"
        assert weight.isfinite().all() and weight.unique().numel() > 10, f"{name} has hardly any values"
    return sum(weight.numel() for weight in ours.values())


def formats_of_make_checkpoint():
    run = subprocess.run([BUILD / "bin/quire-bench", "make-checkpoint", "--help"], capture_output=True, text=True, check=True)
    return re.search(r"--format TEXT:\{(.*?)\}", run.stdout)[1].split(",")


def main():
    kinds = sys.argv[1:]
    find_modules()
    for program in ("weights_tool", "quire-bench"):
        if not (BUILD / "bin" / program).exists():
            print(f"skipped: {BUILD / 'bin' / program} is not built")
            return SKIPPED
    import transformers
    transformers.utils.logging.disable_progress_bar()
    num_failed = num_passed = 0
    for kind in kinds or formats_of_make_checkpoint():
        packages, read = READERS[kind]
        missing = [name for name in packages if not importlib.util.find_spec(name)]
        if missing:
            print(f"skipped {kind}: needs {', '.join(missing)}", flush=True)
            continue
        try:
            count = check(kind, read)
            versions = ", ".join(f"{name} {importlib.metadata.version(DISTRIBUTIONS.get(name, name))}"
                                 for name in ["transformers", *packages])
            print(f"ok {kind}: {count:,} values are equal ({versions})", flush=True)
            num_passed += 1
        except Exception as error:  # of a package: whatever it is
            print(f"FAILED {kind}: {type(error).__name__}: {error}", flush=True)
            num_failed += 1
    return 1 if num_failed else 0 if num_passed else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
