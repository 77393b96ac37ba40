#!/usr/bin/env python3
"""Makes tests/engine/model/golden_quantized: checkpoints of some 100 KB that the packages quantized, and what transformers
computes in float32 with the weights that the same packages read from them.

    for package in llmcompressor gptqmodel nvidia-modelopt auto-round; do
      python3 -m venv build/venv-$package
      build/venv-$package/bin/pip install setuptools torch transformers
      BUILD_CUDA_EXT=0 build/venv-$package/bin/pip install --no-build-isolation $package
      [ $package != auto-round ] || build/venv-$package/bin/pip install auto-round-lib  # which reads them
      GPTQMODEL_CPU_WORKERS=2 build/venv-$package/bin/python tools/make_quantized_models.py [CASE...]
    done

Each run makes the cases of the packages that its Python has, transformers' own included. Each folder has config.json, the
weights, and expected.json: the prompt, for each of its tokens the natural-log probabilities of the whole vocabulary for the
next one, and how far transformers is from them in bfloat16 and, where the format says that activations are quantized, with
those.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[0] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import copy
import importlib.util
import json
import os
import shutil
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/engine/model"))

import tiny_checkpoints
import torch
import transformers
from tiny_checkpoints import Case

GOLDEN = ROOT / "tests/engine/model/golden_quantized"
SMALL = dict(vocab_size=64, hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=2,
             num_key_value_heads=1, tie_word_embeddings=True)
PROMPT_TOKENS = 24

# Name and family of a model, what its package is asked for (the name of a scheme; bits and the like), and what it has over
# SMALL.
LLMCOMPRESSOR_CASES = [
    ("llama_fp8_dynamic", "Llama", "FP8_DYNAMIC"),
    ("llama_fp8_block", "Llama", "FP8_BLOCK"),
    ("llama_int8", "Llama", "W8A8"),
    ("llama_w4a16", "Llama", "W4A16"),
    ("llama_nvfp4", "Llama", "NVFP4A16"),
    ("llama_mxfp4", "Llama", "MXFP4A16"),
    ("llama_mxfp8", "Llama", "MXFP8A16"),
    ("qwen3_fp8_block", "Qwen3", "FP8_BLOCK"),
    ("qwen3_w4a16_asym", "Qwen3", "W4A16_ASYM"),
    ("qwen3_w8a16", "Qwen3", "W8A16"),
    ("phi3_fp8_dynamic", "Phi3", "FP8_DYNAMIC"),
    ("phi3_w4a16_asym", "Phi3", "W4A16_ASYM"),
    ("llama_fp8_static", "Llama", "FP8", dict(intermediate_size=128)),
    ("qwen3_fp8_dynamic", "Qwen3", "FP8_DYNAMIC", dict(intermediate_size=128)),
    ("qwen3_int8", "Qwen3", "W8A8", dict(intermediate_size=128)),
]
GPTQMODEL_CASES = [
    ("llama_gptq_desc_act", "Llama", dict(bits=4, group_size=32, desc_act=True)),
    ("llama_awq", "Llama", dict(bits=4, group_size=128, quant_method="awq", format="gemm")),
    ("qwen3_awq", "Qwen3", dict(bits=4, group_size=64, quant_method="awq", format="gemm")),
    ("qwen3_gptq_asym", "Qwen3", dict(bits=4, group_size=64, sym=False)),
    ("qwen3_gptq_8", "Qwen3", dict(bits=8, group_size=128)),
    ("llama_gptq_v2", "Llama", dict(bits=4, group_size=64, sym=False, format="gptq_v2")),
    ("llama_gptq_dynamic", "Llama", dict(bits=4, group_size=128, dynamic={
        r"-:.*\.o_proj": {}, r"+:.*\.down_proj": dict(bits=8, group_size=64)}), dict(intermediate_size=128)),
    ("llama_gptq_rows", "Llama", dict(bits=4, group_size=-1, desc_act=True)),
    # Its authors have gates and ups in one tensor, the package writes two.
    ("phi3_gptq", "Phi3", dict(bits=4, group_size=128), dict(intermediate_size=128)),
]
# Blocks of 128 x 128 are all that it makes.
TRANSFORMERS_CASES = [
    ("llama_fp8", "Llama", {}, dict(num_key_value_heads=2, intermediate_size=128)),
    ("qwen3_fp8", "Qwen3", {}, dict(head_dim=128, intermediate_size=128)),
    # As published: what decides how a state decays stays in 16 bits.
    ("qwen35_fp8", "Qwen3_5Text",
     dict(modules_to_not_convert=[f"model.layers.0.linear_attn.{name}" for name in ("in_proj_a", "in_proj_b", "conv1d")]
          + ["lm_head"]),
     dict(intermediate_size=128, num_hidden_layers=2, layer_types=["linear_attention", "full_attention"],
          num_key_value_heads=2, linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=64,
          linear_value_head_dim=64)),
]
MODELOPT_CASES = [
    ("qwen3_fp8_modelopt", "Qwen3", "FP8_DEFAULT_CFG", dict(intermediate_size=128)),
]
# Without zero points it writes them as GPTQ, with them as AWQ.
AUTOROUND_CASES = [
    ("llama_autoround", "Llama", dict(bits=4, group_size=32, sym=True), dict(intermediate_size=128)),
    ("qwen3_autoround_asym", "Qwen3", dict(bits=4, group_size=64, sym=False), dict(intermediate_size=128)),
]


def random_prompts():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, SMALL["vocab_size"], (64, 64), generator=generator).tolist()


def give_tokenizer(folder):
    """Packages want one where they are given prompts, and do not use it."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "configs/demo" / name, folder)


class LlmCompressor:
    CASES = LLMCOMPRESSOR_CASES

    @staticmethod
    def quantize(plain, folder, scheme):
        from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme
        from datasets import Dataset
        from llmcompressor import oneshot
        from llmcompressor.modifiers.quantization import QuantizationModifier
        inputs = preset_name_to_scheme(scheme, ["Linear"]).input_activations
        prompts = {}
        if inputs and not inputs.dynamic:
            give_tokenizer(plain)
            tokens = random_prompts()
            dataset = Dataset.from_dict({"input_ids": tokens, "attention_mask": [[1] * len(x) for x in tokens]})
            prompts = dict(dataset=dataset, num_calibration_samples=len(tokens), max_seq_length=len(tokens[0]))
        model = transformers.AutoModelForCausalLM.from_pretrained(plain, dtype=torch.bfloat16)
        oneshot(model=model, recipe=QuantizationModifier(scheme=scheme, targets="Linear", ignore=["lm_head"]), **prompts)
        model.save_pretrained(folder, save_compressed=True)

    @staticmethod
    def read(folder):
        """The model with activations as the format says, and its weights in float32."""
        from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
        from compressed_tensors.quantization.lifecycle.forward import dequantize
        from safetensors.torch import load_file
        from transformers.utils.quantization_config import CompressedTensorsConfig
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, quantization_config=CompressedTensorsConfig(dequantize=True),
            attn_implementation="eager").eval()
        # Formats with scales of one byte are read in bfloat16 all the same: enough for e2m1 and e4m3 times a power of two.
        weights = {name: tensor.float() for name, tensor in model.state_dict().items()}
        stored = load_file(folder / "model.safetensors")
        for name, module in model.named_modules():
            global_scale = stored.get(f"{name}.weight_global_scale")
            if global_scale is not None:
                codes = unpack_fp4_from_uint8(stored[f"{name}.weight_packed"], *module.weight.shape, dtype=torch.float32)
                weights[f"{name}.weight"] = dequantize(codes, stored[f"{name}.weight_scale"].float(),
                                                       args=module.quantization_scheme.weights, global_scale=global_scale)
        quantizes = any(getattr(module, "quantization_scheme", None) and module.quantization_scheme.input_activations
                        for module in model.modules())
        return model if quantizes else None, weights


class GptqModel:
    CASES = GPTQMODEL_CASES

    @staticmethod
    def quantize(plain, folder, settings):
        from gptqmodel import GPTQModel, QuantizeConfig
        give_tokenizer(plain)
        model = GPTQModel.load(str(plain), QuantizeConfig(**settings), device="cpu")
        model.quantize([{"input_ids": prompt, "attention_mask": [1] * len(prompt)} for prompt in random_prompts()],
                       batch_size=1)
        model.save(str(folder))

    @staticmethod
    def read(folder):
        from gptqmodel import BACKEND, GPTQModel
        from gptqmodel.nn_modules.qlinear import BaseQuantLinear
        from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
        config = json.loads((folder / "config.json").read_text())
        is_awq = config["quantization_config"]["quant_method"] == "awq"
        model = GPTQModel.load(str(folder), backend=BACKEND.TORCH_AWQ if is_awq else BACKEND.TORCH, device="cpu",
                               dtype=torch.float16).model
        weights = dict(model.state_dict())
        for name, module in model.named_modules():
            if isinstance(module, BaseQuantLinear):
                module.scales = module.scales.float()
                weight = dequantize_gemm(module.qweight, module.qzeros, module.scales, module.bits,
                                         module.group_size) if is_awq else module.dequantize_weight()
                weights[f"{name}.weight"] = weight.t().float().contiguous()
        for name in [name for name in weights if config["model_type"] == "phi3" and name.endswith("gate_proj.weight")]:
            both = [weights.pop(name), weights.pop(name.replace("gate_proj", "up_proj"))]
            weights[name.replace("gate_proj", "gate_up_proj")] = torch.cat(both)
        return None, weights


class Transformers:
    CASES = TRANSFORMERS_CASES

    @staticmethod
    def quantize(plain, folder, settings):
        from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer
        # It refuses to make what only a GPU can compute with: here it is only made.
        FineGrainedFP8HfQuantizer.validate_environment = lambda self, *args, **kwargs: None
        model = transformers.AutoModelForCausalLM.from_pretrained(
            plain, dtype=torch.bfloat16, quantization_config=transformers.FineGrainedFP8Config(**settings))
        model.save_pretrained(folder)

    @staticmethod
    def read(folder):
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, quantization_config=transformers.FineGrainedFP8Config(dequantize=True),
            attn_implementation="eager").eval()
        # The package's kernels, which only a GPU has, quantize activations like this: e4m3, a scale for each token's
        # 128 columns.
        plain = json.loads((folder / "config.json").read_text())["quantization_config"]["modules_to_not_convert"] or ()
        with_activations = with_float8_inputs(model, lambda name, x: x.abs().amax(-1, keepdim=True) / 448, 128, plain)
        return with_activations, model.state_dict()


class ModelOpt:
    CASES = MODELOPT_CASES

    @staticmethod
    def quantize(plain, folder, settings):
        import modelopt.torch.quantization as mtq
        from modelopt.torch.export import export_hf_checkpoint
        model = transformers.AutoModelForCausalLM.from_pretrained(plain, dtype=torch.bfloat16)
        mtq.quantize(model, getattr(mtq, settings), lambda model: model(torch.tensor(random_prompts())))
        export_hf_checkpoint(model, export_dir=folder)

    @staticmethod
    def read(folder):
        from modelopt.torch.quantization.qtensor import FP8QTensor
        from safetensors.torch import load_file
        stored = load_file(folder / "model.safetensors")
        weights = {name: tensor.float() for name, tensor in stored.items()}
        for name, tensor in stored.items():
            if tensor.dtype == torch.float8_e4m3fn:
                codes = FP8QTensor(tensor.shape, torch.float32, tensor)
                weights[name] = codes.dequantize(torch.float32, scale=stored[f"{name}_scale"])
        weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
        return with_float8_inputs(plain_model(folder, weights), lambda name, x: stored[f"{name}.input_scale"]), weights


class AutoRound:
    CASES = AUTOROUND_CASES

    @staticmethod
    def quantize(plain, folder, settings):
        import auto_round
        give_tokenizer(plain)
        model = transformers.AutoModelForCausalLM.from_pretrained(plain, dtype=torch.bfloat16)
        tokenizer = transformers.AutoTokenizer.from_pretrained(plain)
        # Rounded to the nearest: finding better roundings needs a data set.
        auto_round.AutoRound(model, tokenizer, iters=0, disable_opt_rtn=True, device_map="cpu",
                             **settings).quantize_and_save(str(folder), format="auto_round")
        (made,) = folder.iterdir()  # a folder of that model
        for path in made.iterdir():
            path.rename(folder / path.name)
        made.rmdir()

    @staticmethod
    def read(folder):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu")
        weights = dict(model.state_dict())
        for name, module in model.named_modules():
            if type(module).__name__.startswith("QuantLinear"):
                weights[f"{name}.weight"] = module(torch.eye(module.infeatures)).t().contiguous()
        return None, weights


PACKAGES = {"llmcompressor": LlmCompressor, "gptqmodel": GptqModel, "transformers": Transformers, "modelopt": ModelOpt,
            "auto_round": AutoRound}


def with_float8_inputs(model, scale, columns=None, plain=()):
    """The model, whose linear layers, but the head and `plain`, get inputs in e4m3: times scale(name, these columns)."""
    model = copy.deepcopy(model)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head" and name not in plain:
            def quantized(module, inputs, name=name):
                x = inputs[0].unflatten(-1, (-1, columns or inputs[0].shape[-1]))
                by = scale(name, x)
                return ((x / by).clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype) * by).flatten(-2)
            module.register_forward_pre_hook(quantized)
    return model


def error(actual, expected):
    difference = (actual - expected).abs()
    return {"max": difference.max().item(), "mean": difference.mean().item()}


def plain_model(folder, weights):
    config = transformers.AutoConfig.from_pretrained(folder)
    del config.quantization_config
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    missing, _ = model.load_state_dict({name: weights[name].float() for name in model.state_dict()}, strict=False)
    assert not missing, missing
    return model


def write_expected(package, folder, seed):
    tokens = tiny_checkpoints.prompt(SMALL["vocab_size"], PROMPT_TOKENS, seed)
    with_activations, weights = package.read(folder)
    plain = plain_model(folder, weights)
    expected = tiny_checkpoints.logprobs(plain, tokens)
    in_bfloat16 = copy.deepcopy(plain).to(torch.bfloat16)
    content = {"tokens": tokens, "bfloat16_error": error(tiny_checkpoints.logprobs(in_bfloat16, tokens), expected)}
    if with_activations:
        content["activation_error"] = error(tiny_checkpoints.logprobs(with_activations, tokens), expected)
    content["logprobs"] = [[round(x, 5) for x in row] for row in expected.tolist()]
    (folder / "expected.json").write_text(json.dumps(content, separators=(",", ":")))
    print(folder.name, {key: content.get(key) for key in ("bfloat16_error", "activation_error")})


def main():
    transformers.utils.logging.disable_progress_bar()
    scratch = tempfile.TemporaryDirectory()
    os.chdir(scratch.name)  # gptqmodel writes logs into the current folder
    cases = [(package, seed, *case) for name, package in PACKAGES.items() if importlib.util.find_spec(name)
             for seed, case in enumerate(package.CASES)]
    for package, seed, name, family, asked, *other in cases:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        folder = GOLDEN / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        settings = {**SMALL, **({} if family == "Phi3" else dict(head_dim=64)), **dict(*other)}
        with tempfile.TemporaryDirectory() as plain:
            tiny_checkpoints.make(Case(name, family, settings), plain, seed)
            package.quantize(plain, folder, asked)
        write_expected(package, folder, seed)
        for path in folder.iterdir():
            if path.name not in ("config.json", "model.safetensors", "expected.json"):
                path.unlink()
        # The machine that the model was made on has no place in the file.
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"].get("meta", {}).pop("offload_to_disk_path", None)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        (folder / "model.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
