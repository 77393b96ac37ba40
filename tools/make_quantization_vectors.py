#!/usr/bin/env python3
"""Makes tests/engine/model/quantization/golden: quantized modules, written by the packages that define the formats,
and the float32 values that the same packages read from them; and which names of modules match which patterns.

    python3 -m venv build/venv-quantization
    build/venv-quantization/bin/pip install torch transformers compressed-tensors nvidia-modelopt requests
    build/venv-quantization/bin/pip download --no-deps --no-binary :all: -d build/gptqmodel gptqmodel
    tar xzf build/gptqmodel/gptqmodel-*.tar.gz -C build/gptqmodel
    build/venv-quantization/bin/python tools/make_quantization_vectors.py build/gptqmodel/gptqmodel-*/

Of gptqmodel only files are read that need torch alone. Values are float32 wherever a package leaves the choice: scales
are handed to it as float32 after they were rounded to the type of the file.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[0] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import fnmatch
import importlib.util
import json
import re
import shutil
import types

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.mx_utils import decompress_mx_scale
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.utils.match import match_name
from modelopt.torch.quantization.qtensor import NVFP4QTensor
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.quantizers.quantizers_utils import should_convert_module

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/engine/model/quantization/golden"
MODULE = "model.layers.0.mlp.experts.0.up_proj"
FP8_MAX = 448.0

cases = []


def load_file(name, path):
    """A module of a package, without the package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_functions(path, names):
    """Functions of a file whose imports are not needed for them."""
    text = path.read_text()
    scope = {"torch": torch, "PLANAR_BITS": ()}
    for name in names:
        match = re.search(rf"^def {name}\(.*?(?=^\S)", text, re.M | re.S)
        exec(compile(match[0], str(path), "exec"), scope)
    return types.SimpleNamespace(**{name: scope[name] for name in names})


def add(name, config, tensors, expected, module=MODULE, experts=0):
    *_, rows, columns = expected.shape
    save_file({**{module + suffix: tensor.contiguous() for suffix, tensor in tensors.items()},
               "expected": expected.float().contiguous()}, GOLDEN / f"{name}.safetensors")
    case = {"name": name, "rows": rows, "columns": columns, "config": {"quantization_config": config}}
    if module != MODULE:
        case["module"] = module
    if experts:
        case["experts"] = experts
    cases.append(case)


def random_weight(rows, columns):
    weight = torch.randn(rows, columns) * torch.exp(torch.randn(rows, 1))
    weight[0, 0] = 0
    return weight


def group_range(weight, args):
    """The least and the largest value of each group, [rows of the grid, columns of the grid]."""
    rows, columns = weight.shape
    height, width = {"tensor": (rows, columns), "channel": (1, columns),
                     "block": args.block_structure}.get(args.strategy, (1, args.group_size))
    padded = torch.nn.functional.pad(weight, (0, -columns % width, 0, -rows % height))
    blocks = padded.unflatten(0, (-1, height)).unflatten(2, (-1, width))
    return blocks.amin((1, 3)), blocks.amax((1, 3))


# compressed-tensors


def compressed_parameters(weight, args, scale_dtype):
    low, high = group_range(weight, args)
    if args.type == "float":
        return torch.maximum(high, -low) / {8: FP8_MAX, 4: 6.0}[args.num_bits], None
    largest = 2 ** args.num_bits - 1
    if args.symmetric:
        return (torch.maximum(high, -low) * 2 / largest).to(scale_dtype).float(), None
    scale = ((high.clamp(min=0) - low.clamp(max=0)) / largest).to(scale_dtype).float()
    zero = torch.round(-low.clamp(max=0) / scale) - 2 ** (args.num_bits - 1)
    return scale, zero.clamp(-2 ** (args.num_bits - 1), 2 ** (args.num_bits - 1) - 1).to(torch.int8)


def compressed_config(args, format, activations=None, **more):
    weights = json.loads(args.model_dump_json())
    return {"quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed",
            "ignore": ["lm_head"], **more,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                          "input_activations": activations, "output_activations": None}}}


def add_compressed(name, format, rows, columns, scale_dtype=torch.float32, **arguments):
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = random_weight(rows, columns)
    scale, zero = compressed_parameters(weight, args, scale_dtype)
    if args.strategy == "tensor":
        scale = scale.reshape(1)
    state = {"weight": weight, "weight_scale": scale}
    if zero is not None:
        state["weight_zero_point"] = zero
    compressor = BaseCompressor.get_value_from_registry(format)
    compressed = compressor.compress(state, scheme)
    expected = compressor.decompress(compressed, scheme)["weight"]
    compressed["weight_scale"] = scale.to(scale_dtype)
    add(name, compressed_config(args, format), {"." + key: value for key, value in compressed.items()}, expected)


def add_ordered():
    """As versions before 2026-08 wrote actorder group: fields in the order of the columns, groups by g_idx."""
    args = QuantizationArgs(num_bits=4, group_size=32, strategy="group", symmetric=False)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compressor = BaseCompressor.get_value_from_registry("pack-quantized")
    weight = random_weight(12, 128)
    order = torch.randperm(128)  # the columns by group
    scale, zero = compressed_parameters(weight[:, order], args, torch.bfloat16)
    compressed = compressor.compress({"weight": weight[:, order], "weight_scale": scale, "weight_zero_point": zero},
                                     scheme)
    place = torch.argsort(order)
    expected = compressor.decompress(compressed, scheme)["weight"][:, place]
    fields = unpack_from_int32(compressed["weight_packed"], 4, weight.shape)[:, place]
    compressed["weight_packed"] = pack_to_int32(fields.contiguous(), 4)
    compressed["weight_g_idx"] = (place // 32).to(torch.int32)
    compressed["weight_scale"] = scale.to(torch.bfloat16)
    config = compressed_config(args, "pack-quantized")
    config["config_groups"]["group_0"]["weights"]["actorder"] = "group"
    add("pack_quantized_int4_ordered", config, {"." + key: value for key, value in compressed.items()}, expected)


def add_nvfp4():
    args = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16,
                            scale_dtype="torch.float8_e4m3fn", zp_dtype="torch.float8_e4m3fn")
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = random_weight(10, 96)
    global_scale = (FP8_MAX * 6.0 / weight.abs().max()).reshape(1)
    scale = (compressed_parameters(weight, args, None)[0] * global_scale).to(torch.float8_e4m3fn)
    state = {"weight": weight, "weight_scale": scale.float(), "weight_global_scale": global_scale}
    compressed = BaseCompressor.get_value_from_registry("nvfp4-pack-quantized").compress(state, scheme)
    # The compressor itself would read bfloat16 values.
    codes = unpack_fp4_from_uint8(compressed["weight_packed"], *weight.shape, dtype=torch.float32)
    expected = dequantize(codes, compressed["weight_scale"].float(), args=args, global_scale=global_scale)
    add("nvfp4_compressed_tensors", compressed_config(args, "nvfp4-pack-quantized"),
        {"." + key: value for key, value in compressed.items()}, expected)


def add_mx(name, format, bits):
    args = QuantizationArgs(num_bits=bits, type="float", strategy="group", group_size=32, scale_dtype="torch.uint8",
                            zp_dtype="torch.uint8")
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = random_weight(10, 96)
    scale = torch.exp2(torch.ceil(torch.log2(compressed_parameters(weight, args, None)[0])))
    compressed = BaseCompressor.get_value_from_registry(format).compress({"weight": weight, "weight_scale": scale},
                                                                         scheme)
    if bits == 4:
        codes = unpack_fp4_from_uint8(compressed["weight_packed"], *weight.shape, dtype=torch.float32)
    else:
        codes = compressed["weight"]
    expected = dequantize(codes, decompress_mx_scale(compressed["weight_scale"]).float(), args=args)
    add(name, compressed_config(args, format), {"." + key: value for key, value in compressed.items()}, expected)


def add_compressed_cases():
    group = dict(strategy="group", group_size=32)
    bfloat16 = torch.bfloat16
    add_compressed("pack_quantized_int4_group32", "pack-quantized", 10, 96, bfloat16, num_bits=4, **group)
    # 13 zero points of 4 bits do not fill two words.
    add_compressed("pack_quantized_int4_zeros", "pack-quantized", 13, 96, bfloat16, num_bits=4, symmetric=False,
                   **group)
    add_compressed("pack_quantized_int4_channel", "pack-quantized", 5, 77, torch.float16, num_bits=4,
                   strategy="channel", symmetric=False)
    for bits in (2, 3, 5, 6, 7, 8):
        add_compressed(f"pack_quantized_int{bits}", "pack-quantized", 13, 96, num_bits=bits, symmetric=bits == 2,
                       **group)
    add_compressed("int_quantized_channel", "int-quantized", 9, 50, bfloat16, num_bits=8, strategy="channel")
    add_compressed("int_quantized_zeros", "int-quantized", 9, 50, num_bits=8, strategy="channel", symmetric=False)
    add_compressed("float_quantized_tensor", "float-quantized", 9, 50, num_bits=8, type="float", strategy="tensor")
    add_compressed("float_quantized_channel", "float-quantized", 9, 50, num_bits=8, type="float", strategy="channel")
    add_compressed("float_quantized_block", "float-quantized", 130, 150, num_bits=8, type="float", strategy="block",
                   block_structure=[128, 128])
    add_ordered()
    add_mx("mxfp4_compressed_tensors", "mxfp4-pack-quantized", 4)
    add_mx("mxfp8_compressed_tensors", "mxfp8-quantized", 8)


# fp8 and mxfp4, as transformers reads them


def add_fp8_block(name, scale_dtype):
    # transformers reads ragged grids otherwise than those who write them; see float_quantized_block.
    height, width = 32, 16
    weight = random_weight(2 * height, 3 * width)
    scale = group_range(weight.abs(), QuantizationArgs(num_bits=8, type="float", strategy="block",
                                                       block_structure=[height, width]))[1] / FP8_MAX
    scale = scale.to(scale_dtype)
    codes = (weight / scale.float().repeat_interleave(height, 0).repeat_interleave(width, 1)).clamp(-FP8_MAX, FP8_MAX)
    codes = codes.to(torch.float8_e4m3fn)
    expected = Fp8Dequantize(None)._dequantize_one(codes, scale, torch.float32)
    add(name, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [height, width],
               "modules_to_not_convert": ["lm_head"]},
        {".weight": codes, ".weight_scale_inv": scale}, expected)


def add_fp8_tensor():
    weight = random_weight(9, 50)
    scale = (weight.abs().max() / FP8_MAX).reshape(())
    codes = (weight / scale).to(torch.float8_e4m3fn)
    expected = Fp8Dequantize(None)._dequantize_one(codes, scale.reshape(1, 1), torch.float32)
    add("fp8_tensor_static", {"quant_method": "fp8", "activation_scheme": "static"},
        {".weight": codes, ".weight_scale": scale, ".input_scale": torch.tensor(0.5)}, expected)


def add_gpt_oss():
    blocks = torch.randint(0, 256, (3, 10, 2, 16), dtype=torch.uint8)
    scales = torch.randint(0, 250, (3, 10, 2), dtype=torch.uint8)
    # Scales that it subtracts 127 from; the result is [experts, in, out].
    expected = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2)
    add("gpt_oss_mxfp4", {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
        {"_blocks": blocks, "_scales": scales}, expected, module="model.layers.0.mlp.experts.gate_up_proj", experts=3)


# ModelOpt


def add_modelopt():
    weight = random_weight(10, 96)
    packed, scale, scale_2 = NVFP4QTensor.quantize(weight, 16)
    expected = packed.dequantize(torch.float32, scale=scale, double_scale=scale_2, block_sizes={-1: 16})
    add("nvfp4_modelopt", {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
        {".weight": packed._quantized_data, ".weight_scale": scale, ".weight_scale_2": scale_2,
         ".input_scale": torch.tensor(0.1)}, expected)


# GPTQ and AWQ, as gptqmodel reads them


def add_gptq(name, gptq, bits, group_size, rows=16, columns=64, zeros="any", version=1, order=None):
    groups = columns // group_size
    fields = torch.randint(0, 2 ** bits, (columns, rows))
    middle = 2 ** (bits - 1)
    zero = torch.full((groups, rows), middle) if zeros == "symmetric" else torch.randint(0, 2 ** bits, (groups, rows))
    stored = (zero - 1) % 2 ** bits if version == 1 else zero
    scales = (torch.rand(groups, rows) + 0.01).half()
    if zeros == "negative":  # AutoRound's
        scales[:, ::3] *= -1
    g_idx = (torch.arange(columns) // group_size if order is None else order).to(torch.int32)
    qweight = gptq.pack_cols(fields.t(), bits, pack_dtype=torch.int32).t()
    qzeros = gptq.pack_cols(stored, bits, pack_dtype=torch.int32)
    read = gptq._correct_gptq_v1_qzeros(qzeros, bits) if version == 1 else qzeros
    weight = gptq.unpack_rows(qweight.contiguous(), bits).float()
    expected = (weight - gptq.unpack_cols(read, bits).float()[g_idx]) * scales.float()[g_idx]
    add(name, {"quant_method": "gptq", "bits": bits, "group_size": group_size if groups > 1 else -1,
               "sym": zeros == "symmetric", "desc_act": order is not None,
               "checkpoint_format": "gptq" if version == 1 else "gptq_v2"},
        {".qweight": qweight, ".qzeros": qzeros, ".scales": scales, ".g_idx": g_idx}, expected.t())


def add_awq(awq):
    rows, columns, group_size = 24, 64, 32
    fields = torch.randint(0, 16, (columns, rows))
    zeros = torch.randint(0, 16, (columns // group_size, rows))
    scales = (torch.rand(columns // group_size, rows) + 0.01).half()
    qweight, qzeros = awq.pack_awq(fields, zeros, 4)
    expected = awq.dequantize_gemm(qweight, qzeros, scales.float(), 4, group_size)
    assert torch.equal(expected, (fields - zeros.repeat_interleave(group_size, 0)) *
                       scales.float().repeat_interleave(group_size, 0))
    add("awq_gemm", {"quant_method": "awq", "bits": 4, "group_size": group_size, "zero_point": True,
                     "version": "gemm"},
        {".qweight": qweight, ".qzeros": qzeros, ".scales": scales}, expected.t())


def add_gptqmodel_cases(folder):
    gptq = load_functions(folder / "gptqmodel/utils/model_dequant.py",
                          ["unpack_cols", "pack_cols", "unpack_rows", "_uses_gptq_v1_qzeros", "_shift_gptq_qzeros",
                           "_correct_gptq_v1_qzeros"])
    # Functions see each other.
    for name in vars(gptq):
        getattr(gptq, name).__globals__.update(vars(gptq))
    awq = load_file("awq_packing", folder / "gptqmodel/quantization/awq/utils/packing_utils.py")
    add_gptq("gptq_v1_int4_symmetric", gptq, 4, 32, zeros="symmetric")
    add_gptq("gptq_v1_int4_zeros", gptq, 4, 32)
    add_gptq("gptq_v2_int4_zeros", gptq, 4, 32, version=2)
    add_gptq("gptq_v1_int8_zeros", gptq, 8, 32)
    add_gptq("gptq_v2_int8_columns", gptq, 8, 64, version=2)
    add_gptq("gptq_v1_int4_ordered", gptq, 4, 16, order=torch.randperm(64) // 16)
    add_gptq("gptq_v2_int4_negative_scales", gptq, 4, 32, zeros="negative", version=2)
    add_awq(awq)


# How packages read the names of modules


def write_names():
    """names.json: for each rule and pattern a digit for each name, 1 where the package says that it matches."""
    prefixes = ["", "model.", "model.language_model.", "model.visual."]
    names = [prefix + name for prefix in prefixes for name in (
        "lm_head", "layers.1.mlp.gate", "layers.1.mlp.gate_proj", "layers.11.mlp.gate", "layers.11.self_attn.q_proj",
        "layers.1.mlp.experts.7.down_proj", "layers.1")]
    texts = ["lm_head", "model.layers.1", "mlp.gate", "gate", "model.visual", "layers.11.self_attn.q_proj", "model."]
    expressions = [".*gate$", "model\\.layers\\.1\\.", "(?!.*visual).*proj", "model.layers.1", r".*layers\.\d+\.mlp", "",
                   "(model|lm)", "^lm_head$", "[a-m]+[._](lay|head)"]
    globs = ["*lm_head*", "model.layers.1*", "model.layers.[!2-9]*", "model.layers.?.mlp.*", "*.gate", "*gate*_proj"]
    rules = {
        "compressed": ([*texts, *("re:" + text for text in expressions)],
                       lambda name, text: match_name(name, text)),
        "transformers": ([*texts, "model.layers.*.mlp.gate", "model.layers.*.self_attn", "model.visual.*"],
                         lambda name, text: not should_convert_module(name, [text])),
        "glob": (globs, fnmatch.fnmatchcase),
        "substring": (texts, lambda name, text: text in name),
    }
    found = {rule: {text: "".join(str(int(matches(name, text))) for name in names) for text in patterns}
             for rule, (patterns, matches) in rules.items()}
    (GOLDEN / "names.json").write_text(json.dumps({"names": names, "rules": found}, indent=1) + "\n")


def main():
    if len(sys.argv) != 2:
        sys.exit("name the folder of gptqmodel's sources; see --help")
    torch.manual_seed(38)
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir(parents=True)
    add_compressed_cases()
    add_nvfp4()
    add_fp8_block("fp8_block_float32", torch.float32)
    add_fp8_block("fp8_block_bfloat16", torch.bfloat16)
    add_fp8_tensor()
    add_gpt_oss()
    add_modelopt()
    add_gptqmodel_cases(pathlib.Path(sys.argv[1]))
    (GOLDEN / "cases.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    write_names()
    for path in GOLDEN.iterdir():
        path.chmod(0o644)
    print(len(cases), "cases,", sum(path.stat().st_size for path in GOLDEN.iterdir()), "bytes in", GOLDEN)


if __name__ == "__main__":
    main()
