#!/usr/bin/env python3
"""Makes tests/kernels/golden/gated_delta.json: what the gated delta net of transformers' Qwen3.5 makes of its
projections, in float32 and by its chunks of 64 tokens, and the states it keeps.

    tools/make_hf_venv.sh && build/venv-hf/bin/python tools/make_gated_delta_vectors.py

Arrays are flat, in the order of GatedDeltaArgs (kernels/gated_delta.h).
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[0] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import json

import torch
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5GatedDeltaNet

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests/kernels/golden/gated_delta.json"
SHAPE = dict(num_k_heads=2, num_v_heads=4, k_head_dim=8, v_head_dim=8, conv_width=4)
NUM_TOKENS = 66  # more than a chunk
HIDDEN_SIZE = 8
EPS = 1e-6


def make_layer():
    config = Qwen3_5TextConfig(
        vocab_size=16, hidden_size=HIDDEN_SIZE, num_hidden_layers=1, layer_types=["linear_attention"],
        linear_num_key_heads=SHAPE["num_k_heads"], linear_num_value_heads=SHAPE["num_v_heads"],
        linear_key_head_dim=SHAPE["k_head_dim"], linear_value_head_dim=SHAPE["v_head_dim"],
        linear_conv_kernel_dim=SHAPE["conv_width"], rms_norm_eps=EPS)
    torch.manual_seed(3)
    layer = Qwen3_5GatedDeltaNet(config, 0).float().eval()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(std=0.5)
        layer.A_log.copy_(torch.tensor([-4.0, -2.0, 0.0, 1.0]))  # from long memories to short ones
        layer.norm.weight.add_(1)
    return layer, config


def main():
    layer, config = make_layer()
    seen = {}

    def keep(name):
        def hook(module, args, output):
            seen[name] = (output * 16).round() / 16  # few digits
            return seen[name]

        return hook

    for name in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"):
        getattr(layer, name).register_forward_hook(keep(name))
    layer.out_proj.register_forward_hook(lambda module, args, output: seen.update(out=args[0][0]))
    cache = DynamicCache(config=config)
    with torch.no_grad():
        layer(torch.randn(1, NUM_TOKENS, HIDDEN_SIZE), cache_params=cache)
    state = cache.layers[0]
    conv = state.conv_states[0][0].T[-(SHAPE["conv_width"] - 1):]  # [conv_width - 1, channels]
    arrays = dict(
        qkvz=torch.cat([seen["in_proj_qkv"], seen["in_proj_z"]], -1),
        ba=torch.cat([seen["in_proj_b"], seen["in_proj_a"]], -1),
        conv_weight=layer.conv1d.weight, a_log=layer.A_log, dt_bias=layer.dt_bias, norm_weight=layer.norm.weight,
        out=seen["out"], conv_state=conv, recurrent_state=state.recurrent_states[0][0])
    golden = dict(SHAPE, num_tokens=NUM_TOKENS, norm_eps=EPS)
    for name, values in arrays.items():
        golden[name] = [float(f"{value:.9g}") for value in values.detach().flatten().tolist()]
    GOLDEN.parent.mkdir(exist_ok=True)
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in golden.items()]
    GOLDEN.write_text("{" + ",\n".join(lines) + "}\n")
    print(f"{GOLDEN}: {GOLDEN.stat().st_size} bytes")


main()
