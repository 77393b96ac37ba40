"""Tiny random checkpoints of models with gated delta nets (Qwen3.5's text part), as they are published: their weights are
made otherwise than those of tiny_checkpoints.py, and their prompts are longer than a chunk of the reference. Used by
tools/make_test_vectors.py. Needs torch and transformers."""

import copy
import json

import torch
import transformers
from safetensors.torch import load_file, save_file

# Borders of the reference's chunks of 64 lie inside; so do those of blocks of 16 and 32.
PROMPT_TOKENS = 140
BASE = dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=1,
            eos_token_id=2, pad_token_id=0, linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=8,
            linear_num_key_heads=2, linear_num_value_heads=4,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25,
                                 mrope_interleaved=True, mrope_section=[1, 1, 0]))
VISION = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, spatial_merge_size=2,
              temporal_patch_size=2, out_hidden_size=32, num_position_embeddings=16)
# Keys that transformers' classes do not know but published configurations have.
PUBLISHED = dict(attn_output_gate=True, full_attention_interval=4, mamba_ssm_dtype="float32", output_gate_type="swish",
                 mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, partial_rotary_factor=0.25)


def randomise(model, generator):
    """Weights with which every part of the model shows in the logits. As tiny_checkpoints.randomise, but for norms whose
    weights are less one, and decays from a token to some hundred."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if name.endswith("A_log"):
                p.copy_(torch.empty(p.shape).uniform_(-5, 1, generator=generator))
            elif "linear_attn.norm" in name:  # the one norm that is not zero-centred
                p.copy_(1 + 0.3 * noise)
            elif p.ndim == 1:
                p.copy_(0.3 * noise)
            elif "embed" in name:
                p.copy_(0.4 * noise)
            elif "conv1d" in name:
                p.copy_(0.6 * noise)
            else:
                p.copy_(noise * 1.5 / p.shape[1:].numel() ** 0.5)


def add_mtp(folder, config, generator):
    """What published checkpoints have of a draft layer, of the right shapes, in the file of the other tensors."""
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    q, kv = config.num_attention_heads, config.num_key_value_heads
    shapes = {"fc.weight": (hidden, 2 * hidden), "norm.weight": (hidden,), "pre_fc_norm_embedding.weight": (hidden,),
              "pre_fc_norm_hidden.weight": (hidden,), "layers.0.input_layernorm.weight": (hidden,),
              "layers.0.post_attention_layernorm.weight": (hidden,),
              "layers.0.self_attn.q_proj.weight": (2 * q * dim, hidden),
              "layers.0.self_attn.k_proj.weight": (kv * dim, hidden),
              "layers.0.self_attn.v_proj.weight": (kv * dim, hidden),
              "layers.0.self_attn.o_proj.weight": (hidden, q * dim),
              "layers.0.self_attn.q_norm.weight": (dim,), "layers.0.self_attn.k_norm.weight": (dim,),
              "layers.0.mlp.gate_proj.weight": (inner, hidden), "layers.0.mlp.up_proj.weight": (inner, hidden),
              "layers.0.mlp.down_proj.weight": (hidden, inner)}
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name, shape in shapes.items():
        tensors["mtp." + name] = torch.randn(shape, generator=generator).to(torch.bfloat16)
    save_file(tensors, path, metadata={"format": "pt"})


def edit_config(folder, edit):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config, indent=2))


def finish(model, dtype):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    return model.eval()


def make_conditional(folder, seed):
    generator = torch.Generator().manual_seed(seed)
    config = transformers.Qwen3_5Config(text_config=dict(BASE), vision_config=dict(VISION), image_token_id=44,
                                        video_token_id=45, vision_start_token_id=46, vision_end_token_id=47)
    config._attn_implementation = "eager"
    model = transformers.Qwen3_5ForConditionalGeneration(config)
    randomise(model, generator)
    finish(model, torch.bfloat16)
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)
    add_mtp(folder, config.text_config, generator)
    edit_config(folder, lambda c: c["text_config"].update(PUBLISHED))
    return model, transformers.Qwen3_5ForConditionalGeneration.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager").eval()


def make_causal(folder, seed, dtype=torch.float32, keep_layer_types=False, **settings):
    generator = torch.Generator().manual_seed(seed)
    config = transformers.Qwen3_5TextConfig(**{**BASE, **settings})
    config._attn_implementation = "eager"
    model = transformers.Qwen3_5ForCausalLM(config)
    randomise(model, generator)
    finish(model, dtype)
    copy.deepcopy(model).to(dtype).save_pretrained(folder)
    if not keep_layer_types:
        edit_config(folder, lambda c: (c.pop("layer_types"), c.update(full_attention_interval=4)))
    return model, transformers.Qwen3_5ForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager").eval()


HEADS_128 = dict(num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], num_attention_heads=2,
                 num_key_value_heads=1, head_dim=256, linear_key_head_dim=128, linear_value_head_dim=128,
                 linear_num_key_heads=1, linear_num_value_heads=3,
                 rope_parameters=dict(BASE["rope_parameters"], mrope_section=[11, 11, 10]))


# Name -> seed, maker, ids that a prompt may have (those behind them stand for pictures). With other seeds a model may
# blow rounding up: float32 and float64 differ by more than 1e-4.
CASES = {
    "qwen35_conditional": (0, make_conditional, 44),
    "qwen35_causal": (20, lambda folder, seed: make_causal(folder, seed, tie_word_embeddings=True), 48),
    "qwen35_heads_128": (0, lambda folder, seed: make_causal(folder, seed, torch.bfloat16, True, **HEADS_128), 48),
}
