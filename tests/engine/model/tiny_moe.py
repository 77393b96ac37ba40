"""Tiny random checkpoints of mixtures of experts, in every form that checkpoints have them: one tensor for each expert, those
of all experts as one, gpt-oss's interleaved ones in floats and in MXFP4. Used by tools/make_test_vectors.py. Needs torch
and transformers."""

import copy
import json
import pathlib
import re

import tiny_hybrids
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_hybrids import edit_config, finish

PROMPT_TOKENS = 28
ZERO_CENTRED = ("qwen3_next", "qwen3_5_moe_text", "qwen3_5_moe")  # whose norms' weights are less one
BASE = dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
            pad_token_id=0)
QWEN = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24)
GLM = dict(n_routed_experts=16, num_experts_per_tok=3, moe_intermediate_size=24, first_k_dense_replace=1)
HYBRID = dict(tiny_hybrids.BASE, **QWEN, shared_expert_intermediate_size=20)
SHORT = dict(HYBRID, num_hidden_layers=2, layer_types=["linear_attention", "full_attention"])
YARN = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0,
            truncate=False)
GPT_OSS = dict(num_local_experts=8, num_experts_per_tok=3, head_dim=16, num_hidden_layers=2, intermediate_size=32, sliding_window=7,
               rope_parameters=YARN)
ROUTER = r"\.(gate|router)\.weight$"


def randomise(model, generator):
    """As tiny_hybrids.randomise, but for what experts and routers have; a router's choice is a clear one."""
    tiny_hybrids.randomise(model, generator)
    is_gpt_oss = model.config.model_type == "gpt_oss"
    tensors = dict(model.named_parameters())
    tensors.update((name, b) for name, b in model.named_buffers() if name.endswith("e_score_correction_bias"))
    with torch.no_grad():
        for name, p in tensors.items():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name and "linear_attn" not in name and model.config.model_type not in ZERO_CENTRED:
                p.copy_(1 + 0.3 * noise)
            elif re.search(ROUTER, name):
                p.copy_(noise * 6 / p.shape[1] ** 0.5)
            elif name.endswith("e_score_correction_bias"):
                p.copy_(0.5 * noise)
            elif name.endswith("_proj_bias"):
                p.copy_(0.3 * noise)
            elif ".experts." in name:
                p.copy_(noise * (2.5 if is_gpt_oss else 1.5) / p.shape[1 if is_gpt_oss else 2] ** 0.5)


def stack_experts(folder):
    """Experts in one tensor for the gates and ups of all, gates first, and one for the downs."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    experts = {}
    for name in list(tensors):
        match = re.fullmatch(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight", name)
        if match:
            experts.setdefault(match[1], {}).setdefault(match[3], {})[int(match[2])] = tensors.pop(name)
    for prefix, of in experts.items():
        order = range(len(of["down"]))
        tensors[prefix + ".gate_up_proj"] = torch.stack([torch.cat([of["gate"][i], of["up"][i]]) for i in order])
        tensors[prefix + ".down_proj"] = torch.stack([of["down"][i] for i in order])
    save_file(tensors, path, metadata={"format": "pt"})


def add_draft_layer(folder, index):
    """What GLM-4.5's checkpoints have behind the last layer."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors[f"model.layers.{index}.eh_proj.weight"] = torch.zeros(2, 2, dtype=torch.bfloat16)
    tensors[f"model.layers.{index}.mlp.experts.0.down_proj.weight"] = torch.zeros(2, 2, dtype=torch.bfloat16)
    save_file(tensors, path, metadata={"format": "pt"})


def make(family, folder, seed, settings, dtype=torch.bfloat16, after=None, edit=None):
    """Writes the checkpoint; returns the model in float32, and one in bfloat16."""
    if "text_config" in settings:
        kind, config = "ForConditionalGeneration", getattr(transformers, f"{family}Config")(**copy.deepcopy(settings))
    else:
        name = f"{family}TextConfig" if hasattr(transformers, f"{family}TextConfig") else f"{family}Config"
        kind, config = "ForCausalLM", getattr(transformers, name)(**settings)
    config._attn_implementation = config._experts_implementation = "eager"
    model = getattr(transformers, family + kind)(config)
    randomise(model, torch.Generator().manual_seed(seed))
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(buffer.to(dtype))
    finish(model, dtype)
    folder = pathlib.Path(folder)
    copy.deepcopy(model).to(dtype).save_pretrained(folder)
    if after is not None:
        after(folder)
    if edit is not None:
        edit_config(folder, edit)
    return model, in_bfloat16(model)


def in_bfloat16(model):
    """The same computed in bfloat16, but for its rotary frequencies."""
    rounded = copy.deepcopy(model).to(torch.bfloat16)
    for module, exact in zip(rounded.modules(), model.modules()):
        for buffer in ("inv_freq", "original_inv_freq"):
            if hasattr(module, buffer):
                setattr(module, buffer, getattr(exact, buffer))
    return rounded.eval()


E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def quantize_mxfp4(weight):
    """[experts, rows, columns] -> blocks, scales and the values that they stand for."""
    experts, rows, columns = weight.shape
    groups = weight.reshape(experts, rows, columns // 32, 32)
    exponents = torch.floor(torch.log2(groups.abs().amax(-1).clamp(min=2.0**-20))) - 2
    scaled = groups / torch.exp2(exponents)[..., None]
    values = torch.tensor(E2M1 + [-x for x in E2M1])
    codes = (scaled[..., None] - values).abs().argmin(-1)
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    exact = (values[codes] * torch.exp2(exponents)[..., None]).reshape(weight.shape)
    return blocks, (exponents + 127).to(torch.uint8), exact


def make_gpt_oss_mxfp4(folder, seed):
    config = transformers.GptOssConfig(**{**BASE, **GPT_OSS})
    config._attn_implementation = config._experts_implementation = "eager"
    model = transformers.GptOssForCausalLM(config)
    randomise(model, torch.Generator().manual_seed(seed))
    finish(model, torch.bfloat16)
    tensors = {name: p.to(torch.bfloat16) for name, p in model.state_dict().items()}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                del tensors[name]
                blocks, scales, exact = quantize_mxfp4(p.transpose(1, 2))
                tensors[name + "_blocks"], tensors[name + "_scales"] = blocks, scales
                p.copy_(exact.transpose(1, 2))
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    settings = config.to_dict()
    settings.update(architectures=["GptOssForCausalLM"], dtype="bfloat16", swiglu_limit=7.0, experts_per_token=3,
                    quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=[
                        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]))
    (folder / "config.json").write_text(json.dumps(settings, indent=2))
    return model, in_bfloat16(model)


def case(seed, family, after=None, edit=None, dtype=torch.bfloat16, num_ids=48, **settings):
    return seed, lambda folder, seed: make(family, folder, seed, settings, dtype, after, edit), num_ids


# Name -> seed, maker, ids that a prompt may have. With other seeds a token's choice of experts may hang on rounding.
CASES = {
    "qwen3_moe_renormalised": case(5, "Qwen3Moe", **BASE, **QWEN, head_dim=16, norm_topk_prob=True, mlp_only_layers=[1]),
    "qwen3_moe_stacked": case(1, "Qwen3Moe", stack_experts, **BASE, **QWEN, head_dim=16, decoder_sparse_step=2,
                              dtype=torch.float32),
    "qwen2_moe_windows": case(107, "Qwen2Moe", None, lambda c: c.pop("layer_types"), **BASE, **QWEN,
                              shared_expert_intermediate_size=56, use_sliding_window=True, sliding_window=7,
                              max_window_layers=2),
    "mixtral": case(20, "Mixtral", **dict(BASE, num_hidden_layers=2), num_local_experts=8, num_experts_per_tok=3,
                    sliding_window=9),
    "qwen3_next": case(115, "Qwen3Next", **dict(HYBRID, num_hidden_layers=3), norm_topk_prob=True, mlp_only_layers=[1],
                       layer_types=["linear_attention", "linear_attention", "full_attention"]),
    "qwen3_next_plain": case(27, "Qwen3Next", **dict(SHORT, linear_num_value_heads=2), norm_topk_prob=False),
    "qwen35_moe_causal": case(2, "Qwen3_5Moe", **SHORT),
    "qwen35_moe_conditional": case(
        5, "Qwen3_5Moe", stack_experts, num_ids=44, text_config=SHORT, vision_config=tiny_hybrids.VISION, image_token_id=44,
        video_token_id=45, vision_start_token_id=46, vision_end_token_id=47),
    "glm4_moe_groups": case(41, "Glm4Moe", lambda folder: add_draft_layer(folder, 3), **BASE, **GLM, head_dim=16, n_group=4,
                            topk_group=2, routed_scaling_factor=1.7, use_qk_norm=True, attention_bias=True,
                            n_shared_experts=2),
    "glm4_moe_plain": case(96, "Glm4Moe", **BASE, **GLM, norm_topk_prob=False),
    "gpt_oss": case(21, "GptOss", **{**BASE, **GPT_OSS}),
    "gpt_oss_mxfp4": (35, make_gpt_oss_mxfp4, 48),
}
