"""Tiny random checkpoints whose layers have what no supported family has yet: the attention of gpt-oss, and layers that
read the keys and values of earlier ones. Their config.json is a Llama's; decoder_golden_test.cc adds the rest. Used by
tools/make_test_vectors.py. Needs torch and transformers."""

import copy
import json
import pathlib

import safetensors.torch
import tiny_checkpoints
import torch
import transformers
from transformers.models.llama.modeling_llama import LlamaMLP

BASE = dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1,
            eos_token_id=2, pad_token_id=0)


class PairOfMlp(LlamaMLP):
    """Gives what gpt-oss's mixture of experts gives: the output, and scores of a router."""

    def forward(self, x):
        return super().forward(x), None


class OutputOf(torch.nn.Module):
    """Gives what another module has given last."""

    def __init__(self, source):
        super().__init__()
        source.register_forward_hook(lambda module, args, output: setattr(self, "output", output))

    def forward(self, x):
        return self.output


def sinks_windows():
    """gpt-oss with a gated MLP: a sink for each query head, biases, YaRN, every other layer with a window."""
    rope = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, original_max_position_embeddings=32, beta_fast=32.0,
                beta_slow=1.0, truncate=False)
    layer_types = ["sliding_attention", "full_attention"]
    special = dict(num_hidden_layers=2, layer_types=layer_types, sliding_window=7, attention_bias=True)
    settings = transformers.GptOssConfig(**BASE, **special, rope_parameters=rope, num_local_experts=2,
                                         num_experts_per_tok=1, hidden_act="silu")
    settings._attn_implementation = "eager"
    settings.mlp_bias = False
    model = transformers.GptOssForCausalLM(settings)
    for layer in model.model.layers:
        layer.mlp = PairOfMlp(settings)
    return model, {**special, "rope_parameters": rope}


def kv_sharing():
    """A Llama whose third and fourth layers read what the first and the second one store."""
    special = dict(num_hidden_layers=4)
    settings = transformers.LlamaConfig(**BASE, **special)
    settings._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(settings)
    for index in (2, 3):
        attention, target = model.model.layers[index].self_attn, model.model.layers[index - 2].self_attn
        attention.k_proj, attention.v_proj = OutputOf(target.k_proj), OutputOf(target.v_proj)
    return model, special


VARIANTS = {"llama_sinks_windows_yarn": sinks_windows, "llama_kv_sharing": kv_sharing}


def make(name, folder, seed):
    """Writes the checkpoint; returns the model in float32, and one in bfloat16."""
    models = []
    for _ in range(2):
        model, special = VARIANTS[name]()
        tiny_checkpoints.randomise(model, torch.Generator().manual_seed(seed))
        for p in model.parameters():
            p.data = p.data.bfloat16()
        models.append(model.eval())
    exact, in_bfloat16 = models
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    safetensors.torch.save_file({key: value.contiguous() for key, value in exact.state_dict().items()},
                                folder / "model.safetensors", metadata={"format": "pt"})
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", **BASE, **special}
    (folder / "config.json").write_text(json.dumps(copy.deepcopy(config), indent=2) + "\n")
    for p in exact.parameters():
        p.data = p.data.float()
    return exact, in_bfloat16
