"""Tiny random checkpoints of Gemma 4's kinds, as they are published: layers of two sizes, values that are keys, caches that
layers share, inputs of each layer. Used by tools/make_test_vectors.py. Needs torch and transformers."""

import copy

import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_hybrids import edit_config, finish

PROMPT_TOKENS = 60  # borders of blocks of 16 and of the windows lie inside
SLIDING, FULL = "sliding_attention", "full_attention"
BASE = dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            global_head_dim=16, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
            pad_token_id=0, final_logit_softcapping=10.0)
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
              head_dim=8, patch_size=2, position_embedding_size=8)
UNIFIED_VISION = dict(patch_size=2, pooling_kernel_size=1, mm_embed_dim=8, mm_posemb_size=4, output_proj_dims=8)
UNIFIED_AUDIO = dict(audio_samples_per_token=8, output_proj_dims=8)
# Ids of pictures and sounds are none of a prompt's.
TOKENS = dict(image_token_id=1000, video_token_id=1001, audio_token_id=1002, boi_token_id=1003, eoi_token_id=1004,
              boa_token_id=1005, eoa_token_index=1006)


def randomise(model, generator):
    """Weights with which every part of the model shows in the logits. Scores are not divided by the heads' size, so the
    norms of queries are small."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "q_norm" in name:
                p.copy_(0.5 + 0.15 * noise)
            elif "norm" in name:
                p.copy_(1 + 0.3 * noise)
            elif p.ndim == 1:
                p.copy_(0.3 * noise)
            elif "embed" in name:
                p.copy_(0.4 * noise)
            else:
                p.copy_(noise * 1.5 / p.shape[-1] ** 0.5)
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):
                buffer.uniform_(0.4, 1.2, generator=generator)


def add_spare_tensors(folder, config, generator):
    """What published checkpoints may have of layers that read another layer's keys and values."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    dtype = next(iter(tensors.values())).dtype
    for i in range(config.num_hidden_layers - config.num_kv_shared_layers, config.num_hidden_layers):
        layer = config.per_layer_config[i]
        kv_size = layer.num_key_value_heads * layer.head_dim
        shapes = {"k_proj": (kv_size, config.hidden_size), "v_proj": (kv_size, config.hidden_size),
                  "k_norm": (layer.head_dim,)}
        for name, shape in shapes.items():
            tensor = torch.randn(shape, generator=generator).to(dtype)
            tensors[f"model.language_model.layers.{i}.self_attn.{name}.weight"] = tensor
    save_file(tensors, path, metadata={"format": "pt"})


def make(folder, seed, config, dtype, edit=None, spare_tensors=False):
    generator = torch.Generator().manual_seed(seed)
    config._attn_implementation = "eager"
    text = config.get_text_config()
    text._attn_implementation = "eager"
    kind = {"Gemma4TextConfig": "Gemma4ForCausalLM", "Gemma4Config": "Gemma4ForConditionalGeneration",
            "Gemma4UnifiedConfig": "Gemma4UnifiedForConditionalGeneration"}[type(config).__name__]
    model = getattr(transformers, kind)(config)
    randomise(model, generator)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):
                buffer.copy_(buffer.to(dtype))
    finish(model, dtype)
    copy.deepcopy(model).to(dtype).save_pretrained(folder)
    if spare_tensors:
        add_spare_tensors(folder, text, generator)
    if edit:
        edit_config(folder, edit)
    return model, getattr(transformers, kind).from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager").eval()


def make_e_kind(folder, seed):
    """As E2B and E4B: inputs of each layer, of which the last ones share caches and are twice as wide."""
    text = dict(BASE, num_hidden_layers=7, layer_types=[SLIDING, SLIDING, FULL, SLIDING, SLIDING, SLIDING, FULL],
                sliding_window=7, num_key_value_heads=1, num_kv_shared_layers=4, use_double_wide_mlp=True,
                hidden_size_per_layer_input=8, vocab_size_per_layer_input=48)
    return make(folder, seed, transformers.Gemma4Config(text_config=text, vision_config=dict(VISION), **TOKENS),
                torch.bfloat16, spare_tensors=True)


def make_31b_kind(folder, seed):
    """As 31B, with the keys of published files and what these leave to the class: layers without a window whose values are
    their keys, with other heads than the others."""
    text = dict(BASE, num_hidden_layers=8, sliding_window=9, num_key_value_heads=4, num_global_key_value_heads=2,
                attention_k_eq_v=True, hidden_size_per_layer_input=0)

    def publish(config):
        text = config["text_config"]
        for key in ("per_layer_config", "layer_types", "rope_parameters"):
            del text[key]
        text.update(global_head_dim=16, num_global_key_value_heads=2)

    return make(folder, seed, transformers.Gemma4Config(text_config=text, **TOKENS), torch.bfloat16, edit=publish)


def make_26b_kind(folder, seed):
    """As 26B-A4B: experts beside the MLP of every layer."""
    text = dict(BASE, num_hidden_layers=2, layer_types=[SLIDING, FULL], sliding_window=9,
                num_key_value_heads=4, num_global_key_value_heads=2, attention_k_eq_v=True, hidden_size_per_layer_input=0,
                enable_moe_block=True, num_experts=8, top_k_experts=2, moe_intermediate_size=24)
    return make(folder, seed, transformers.Gemma4Config(text_config=text, **TOKENS), torch.bfloat16)


def make_unified(folder, seed):
    """As 12B, with parts for pictures and sounds."""
    text = dict(BASE, num_hidden_layers=4, layer_types=[SLIDING, FULL, SLIDING, FULL], sliding_window=5,
                num_global_key_value_heads=1, attention_k_eq_v=True)
    config = transformers.Gemma4UnifiedConfig(text_config=text, vision_config=dict(UNIFIED_VISION),
                                              audio_config=dict(UNIFIED_AUDIO), **TOKENS)

    def end_sliding(config):  # the class makes of it what the model was made with
        config["text_config"]["layer_types"][-1] = SLIDING

    return make(folder, seed, config, torch.bfloat16, edit=end_sliding)


def make_causal(folder, seed):
    """A text model, with biases and a head of its own, and an epsilon that shows."""
    config = transformers.Gemma4TextConfig(**{**BASE, "final_logit_softcapping": None, "rms_norm_eps": 0.05}, num_hidden_layers=3,
                                           layer_types=[FULL, SLIDING, FULL], sliding_window=6, attention_bias=True,
                                           tie_word_embeddings=False, hidden_size_per_layer_input=12,
                                           vocab_size_per_layer_input=50)
    return make(folder, seed, config, torch.float32)


# Name -> seed, maker, ids that a prompt may have. With other seeds a model may blow rounding up.
CASES = {
    "gemma4_e_kind": (6, make_e_kind, 48),
    "gemma4_31b_kind": (5, make_31b_kind, 48),
    "gemma4_26b_kind": (64, make_26b_kind, 48),
    "gemma4_unified": (0, make_unified, 48),
    "gemma4_causal": (2, make_causal, 48),
}
