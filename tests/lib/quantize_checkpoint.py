"""Makes quantized checkpoints of a folder with bfloat16 weights, by rounding to nearest, in the forms that quantizers
write: what compressed-tensors, AutoGPTQ, AutoAWQ and the makers of FP8 checkpoints call their tensors and keys."""

import json
import pathlib
import shutil
import struct

import ml_dtypes
import numpy as np

DTYPES = {"BF16": ml_dtypes.bfloat16, "F32": np.float32, "F16": np.float16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
          "I8": np.int8, "U8": np.uint8, "I32": np.int32, "I64": np.int64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # of the columns in the fields of a word
GROUP = 128


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]],
                                DTYPES[entry["dtype"]]).reshape(entry["shape"]) for name, entry in header.items()}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).tobytes())


def pack(fields, bits, axis):
    """Unsigned fields in words of 32 bits along `axis`, low bits first."""
    per_word = 32 // bits
    fields = np.moveaxis(fields.astype(np.uint32), axis, -1)
    words = np.zeros((*fields.shape[:-1], fields.shape[-1] // per_word), np.uint32)
    for i in range(per_word):
        words |= fields[..., i::per_word] << np.uint32(bits * i)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32)


def integers(weight, bits, symmetric, scale_dtype, group=GROUP, signed_scales=False):
    """Codes from 0 to 2^bits - 1 [rows, columns], scales and zero points [rows, groups]. With signed scales, as AutoRound
    has them, the value that is farthest from 0 gets the code 0."""
    groups, most = weight.reshape(weight.shape[0], -1, group), 2**bits - 1
    if symmetric and signed_scales:
        farthest = np.take_along_axis(groups, np.abs(groups).argmax(-1)[..., None], -1)[..., 0]
        scales = -farthest / 2 ** (bits - 1)
        scales = np.where(np.abs(scales) < 1e-7, 1e-7, scales).astype(scale_dtype)
        zeros = np.full(scales.shape, 2 ** (bits - 1))
        codes = np.clip(np.rint(groups / scales.astype(np.float32)[..., None]) + zeros[..., None], 0, most)
        return codes.reshape(weight.shape), scales, zeros
    if symmetric:
        scales = np.abs(groups).max(-1) / (2 ** (bits - 1) - 0.5)
        zeros = np.full(scales.shape, 2 ** (bits - 1))
    else:
        low, high = np.minimum(groups.min(-1), 0), np.maximum(groups.max(-1), 0)
        scales = (high - low) / most
        zeros = None
    scales = np.maximum(scales, 1e-7).astype(scale_dtype)
    if zeros is None:
        zeros = np.clip(np.rint(-low / scales.astype(np.float32)), 0, most)
    codes = np.clip(np.rint(groups / scales.astype(np.float32)[..., None]) + zeros[..., None], 0, most)
    return codes.reshape(weight.shape), scales, zeros


def fp8_block(name, weight):
    rows, columns = weight.shape
    padded = np.zeros((-(-rows // 128) * 128, -(-columns // 128) * 128), np.float32)
    padded[:rows, :columns] = weight
    blocks = padded.reshape(padded.shape[0] // 128, 128, -1, 128)
    scales = np.maximum(np.abs(blocks).max((1, 3)), 1e-9) / 448
    values = (blocks / scales[:, None, :, None]).reshape(padded.shape)[:rows, :columns]
    return {f"{name}.weight": values.astype(ml_dtypes.float8_e4m3fn),
            f"{name}.weight_scale_inv": scales.astype(ml_dtypes.bfloat16).astype(np.float32)}


def fp8_channel(name, weight):
    scales = (np.maximum(np.abs(weight).max(1, keepdims=True), 1e-9) / 448).astype(ml_dtypes.bfloat16)
    return {f"{name}.weight": (weight / scales.astype(np.float32)).astype(ml_dtypes.float8_e4m3fn),
            f"{name}.weight_scale": scales}


def fp8_tensor(name, weight):
    scale = np.float32(np.abs(weight).max() / 448)
    return {f"{name}.weight": (weight / scale).astype(ml_dtypes.float8_e4m3fn),
            f"{name}.weight_scale": np.array(scale, np.float32), f"{name}.input_scale": np.array(0.05, np.float32)}


def int8(name, weight):
    scales = (np.maximum(np.abs(weight).max(1, keepdims=True), 1e-9) / 127).astype(ml_dtypes.bfloat16)
    values = np.clip(np.rint(weight / scales.astype(np.float32)), -127, 127)
    return {f"{name}.weight": values.astype(np.int8), f"{name}.weight_scale": scales}


def pack_quantized(symmetric):
    def quantize(name, weight):
        codes, scales, zeros = integers(weight, 4, symmetric, ml_dtypes.bfloat16)
        tensors = {f"{name}.weight_packed": pack(codes, 4, 1), f"{name}.weight_scale": scales,
                   f"{name}.weight_shape": np.array(weight.shape, np.int64)}
        if not symmetric:
            tensors[f"{name}.weight_zero_point"] = pack(zeros, 4, 0)
        return tensors
    return quantize


def gptq(bits, ordered=False, symmetric=True, group=GROUP, zero_offset=1, signed_scales=False):
    """Stored zero points are less by zero_offset: 1 in the first version of the format, 0 in the second."""
    def quantize(name, weight):
        columns = weight.shape[1]
        order = np.argsort(-np.abs(weight).sum(0)) if ordered else np.arange(columns)
        codes, scales, zeros = integers(weight[:, order], bits, symmetric, np.float16, group, signed_scales)
        unordered = np.empty_like(codes)
        unordered[:, order] = codes
        groups = np.empty(columns, np.int32)
        groups[order] = np.arange(columns) // group
        stored_zeros = (zeros.T.astype(np.int64) - zero_offset) % 2**bits
        return {f"{name}.qweight": pack(unordered.T, bits, 0), f"{name}.qzeros": pack(stored_zeros, bits, 1),
                f"{name}.scales": np.ascontiguousarray(scales.T), f"{name}.g_idx": groups}
    return quantize


def awq(group=GROUP):
    def in_order(fields):
        return pack(fields.reshape(fields.shape[0], -1, 8)[..., AWQ_ORDER].reshape(fields.shape), 4, 1)

    def quantize(name, weight):
        codes, scales, zeros = integers(weight, 4, False, np.float16, group)
        return {f"{name}.qweight": in_order(codes.T), f"{name}.qzeros": in_order(zeros.T),
                f"{name}.scales": np.ascontiguousarray(scales.T)}
    return quantize


def halves(codes):
    codes = codes.view(np.uint8)
    return codes[:, 0::2] | codes[:, 1::2] << 4


def float4(weight, scales):
    size = weight.shape[1] // scales.shape[1]
    values = weight.reshape(weight.shape[0], -1, size) / scales[..., None]
    return halves(values.reshape(weight.shape).astype(ml_dtypes.float4_e2m1fn))


def powers_of_two(weight, most_of_code):
    """[rows, groups of 32]: exponents with which no value is more than the largest that there is a code for."""
    most = np.abs(weight.reshape(weight.shape[0], -1, 32)).max(-1)
    return np.clip(np.ceil(np.log2(np.maximum(most, 1e-30) / most_of_code)), -127, 127)


def mxfp4(name, weight):
    exponents = powers_of_two(weight, 6)
    return {f"{name}.weight_packed": float4(weight, np.exp2(exponents).astype(np.float32)),
            f"{name}.weight_scale": (exponents + 127).astype(np.uint8)}


def mxfp8(name, weight):
    exponents = powers_of_two(weight, 448)
    values = weight / np.repeat(np.exp2(exponents).astype(np.float32), 32, 1)
    return {f"{name}.weight": values.astype(ml_dtypes.float8_e4m3fn),
            f"{name}.weight_scale": (exponents + 127).astype(np.uint8)}


def nvfp4(divides):
    def quantize(name, weight):
        most = np.abs(weight.reshape(weight.shape[0], -1, 16)).max(-1)
        factor = np.float32(most.max() / 6 / 448)
        scales = (np.maximum(most, 1e-9) / 6 / factor).astype(ml_dtypes.float8_e4m3fn)
        scales = np.maximum(scales.astype(np.float32), 2.0**-9).astype(ml_dtypes.float8_e4m3fn)
        values = float4(weight, scales.astype(np.float32) * factor)
        if divides:
            return {f"{name}.weight_packed": values, f"{name}.weight_scale": scales,
                    f"{name}.weight_global_scale": np.array([1 / factor], np.float32)}
        return {f"{name}.weight": values, f"{name}.weight_scale": scales,
                f"{name}.weight_scale_2": np.array(factor, np.float32), f"{name}.input_scale": np.array(0.01, np.float32)}
    return quantize


def compressed(kind, weights, activations=None):
    return {"quant_method": "compressed-tensors", "format": kind, "ignore": ["lm_head"], "quantization_status": "compressed",
            "kv_cache_scheme": None, "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None}}}


INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "group_size": GROUP, "strategy": "group", "dynamic": False}
TOKEN8 = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}
GPTQ4 = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "desc_act": False, "checkpoint_format": "gptq"}
AWQ4 = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm",
        "modules_to_not_convert": None}
AUTO_ROUND4 = {"quant_method": "auto-round", "bits": 4, "group_size": 64, "sym": True, "data_type": "int",
               "packing_format": "auto_round:auto_gptq", "iters": 0, "act_bits": 16}
FP4 = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16, "dynamic": False}
# By name: how a module's weight becomes its tensors, and quantization_config.
FORMATS = {
    "fp8-block": (fp8_block, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
                              "modules_to_not_convert": ["lm_head"]}),
    "fp8-channel": (fp8_channel, compressed("float-quantized", {**TOKEN8, "strategy": "channel", "dynamic": False}, TOKEN8)),
    "fp8-tensor": (fp8_tensor, {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": None, "ignore": ["lm_head"]}),
    "int8": (int8, compressed("int-quantized", {**INT4, "num_bits": 8, "strategy": "channel", "group_size": None},
                              {**TOKEN8, "type": "int"})),
    "pack-quantized": (pack_quantized(True), compressed("pack-quantized", INT4)),
    "pack-quantized-asymmetric": (pack_quantized(False), compressed("pack-quantized", {**INT4, "symmetric": False})),
    "gptq": (gptq(4), GPTQ4),
    "gptq-8-ordered": (gptq(8, ordered=True), {**GPTQ4, "bits": 8, "desc_act": True}),
    "gptq-v2-group32": (gptq(4, symmetric=False, group=32, zero_offset=0),
                        {**GPTQ4, "group_size": 32, "sym": False, "checkpoint_format": "gptq_v2"}),
    "awq": (awq(), AWQ4),
    "mxfp4": (mxfp4, compressed("mxfp4-pack-quantized", {**FP4, "strategy": "group", "group_size": 32,
                                                         "scale_dtype": "torch.uint8"})),
    "nvfp4": (nvfp4(True), compressed("nvfp4-pack-quantized", FP4)),
    "nvfp4-modelopt": (nvfp4(False), {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]}),
}
# Others of the same ways to pack, which tests have when they have the time.
MORE_FORMATS = {
    "gptq-group32": (gptq(4, group=32), {**GPTQ4, "group_size": 32}),
    "gptq-group64": (gptq(4, symmetric=False, group=64), {**GPTQ4, "group_size": 64, "sym": False}),
    "awq-group32": (awq(32), {**AWQ4, "group_size": 32}),
    "awq-group64": (awq(64), {**AWQ4, "group_size": 64}),
    "auto-round": (gptq(4, group=64, signed_scales=True), AUTO_ROUND4),
    "auto-round-plain-zeros": (gptq(4, symmetric=False, group=64, zero_offset=0),
                               {**AUTO_ROUND4, "sym": False, "packing_format": "auto_round"}),
    "auto-round-awq": (awq(64), {**AUTO_ROUND4, "sym": False, "packing_format": "auto_round:auto_awq"}),
    "mxfp8": (mxfp8, compressed("mxfp8-quantized", {**FP4, "num_bits": 8, "strategy": "group", "group_size": 32,
                                                    "scale_dtype": "torch.uint8"})),
}


def quantize_checkpoint(source, target, kind):
    """The model of the folder `source` in the folder `target`, which is made, in that format."""
    source, target = pathlib.Path(source), pathlib.Path(target)
    quantize, config = (FORMATS | MORE_FORMATS)[kind]
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.safetensors", "*.jsonl"))
    tensors = {}
    for name, tensor in read_safetensors(source / "model.safetensors").items():
        if name.endswith("_proj.weight"):
            tensors.update(quantize(name.removesuffix(".weight"), tensor.astype(np.float32)))
        else:
            tensors[name] = tensor
    write_safetensors(target / "model.safetensors", tensors)
    model = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**model, "quantization_config": config}))
