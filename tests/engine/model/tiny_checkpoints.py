"""Tiny random checkpoints of every supported family, made with transformers. Used by hf_parity_test.py and
tools/make_test_vectors.py. Needs torch and transformers."""

import copy
import dataclasses
import json
import pathlib

import torch
import transformers

BASE = dict(vocab_size=96, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
            pad_token_id=0)


@dataclasses.dataclass
class Case:
    name: str
    family: str  # as in the name of transformers' configuration class: "Llama", "Gemma3Text"
    config: dict = dataclasses.field(default_factory=dict)  # over BASE
    rope: dict | None = None  # rope_parameters
    # In a model of several parts, `config` and `rope` belong to the text part, and this stands beside text_config.
    beside_text: dict | None = None
    v4: bool = False  # config.json in the form of transformers v4
    dtype: torch.dtype = torch.bfloat16  # of the weights in the file
    max_shard_size: str = "1GB"


# The smallest parts for pictures. Ids of their tokens are none of a prompt's.
VISION = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8)
GEMMA3_PARTS = dict(vision_config=VISION, mm_tokens_per_image=4, image_token_index=1000, boi_token_index=1001,
                    eoi_token_index=1002)
MISTRAL3_PARTS = dict(vision_config=dict(VISION, model_type="pixtral", head_dim=4), image_token_index=1000)
QWEN_VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, patch_size=2, out_hidden_size=8)
QWEN_TOKENS = dict(image_token_id=1000, video_token_id=1001, vision_start_token_id=1002, vision_end_token_id=1003)
QWEN_PARTS = dict(QWEN_TOKENS, vision_config=dict(QWEN_VISION, window_size=8, fullatt_block_indexes=[0]))
QWEN3_PARTS = dict(QWEN_TOKENS, vision_config=dict(QWEN_VISION, num_position_embeddings=4, deepstack_visual_indexes=[0]))

CASES = [
    Case("llama", "Llama"),
    Case("llama_v4_tied", "Llama", dict(tie_word_embeddings=True), v4=True),
    Case("llama3_rope", "Llama", dict(num_key_value_heads=1),
         dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)),
    Case("llama3_rope_v4", "Llama", {},
         dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=8.0,
              original_max_position_embeddings=32), v4=True),
    Case("llama_linear_rope", "Llama", {}, dict(rope_type="linear", rope_theta=10000.0, factor=2.5)),
    Case("llama_yarn", "Llama", {},
         dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)),
    Case("llama_yarn_options", "Llama", {},
         dict(rope_type="yarn", rope_theta=5000.0, factor=8.0, original_max_position_embeddings=16, beta_fast=20,
              beta_slow=2, mscale=1.0, mscale_all_dim=0.5, truncate=False)),
    Case("llama_yarn_attention_factor_v4", "Llama", {},
         dict(rope_type="yarn", rope_theta=10000.0, factor=2.0, original_max_position_embeddings=64,
              attention_factor=1.3), v4=True),
    Case("llama_biases", "Llama", dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    Case("llama_head_dim", "Llama", dict(head_dim=40, num_key_value_heads=4)),
    Case("llama_f16", "Llama", dtype=torch.float16),
    Case("llama_f32_sharded", "Llama", dtype=torch.float32, max_shard_size="100KB"),
    Case("mistral_window", "Mistral", dict(sliding_window=10)),
    Case("mistral_head_dim_v4", "Mistral", dict(sliding_window=None, head_dim=24), v4=True),
    Case("qwen2", "Qwen2", dict(tie_word_embeddings=True)),
    Case("qwen2_window", "Qwen2", dict(num_hidden_layers=4, use_sliding_window=True, sliding_window=7,
                                       max_window_layers=2)),
    Case("qwen2_window_v4", "Qwen2", dict(use_sliding_window=True, sliding_window=9, max_window_layers=1), v4=True),
    Case("qwen3", "Qwen3", dict(head_dim=32)),
    Case("qwen3_bias_sharded", "Qwen3", dict(head_dim=16, attention_bias=True), max_shard_size="60KB"),
    Case("qwen3_window_yarn_v4", "Qwen3",
         dict(head_dim=48, use_sliding_window=True, sliding_window=12, max_window_layers=2),
         dict(rope_type="yarn", rope_theta=100000.0, factor=2.0, original_max_position_embeddings=32), v4=True),
    Case("qwen3_layer_types", "Qwen3",
         dict(head_dim=32, use_sliding_window=True, sliding_window=5,
              layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    # Dynamic rope within the trained length; beyond it transformers' frequencies change with every token.
    Case("llama_dynamic_rope", "Llama", {}, dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0)),
    Case("gemma2", "Gemma2", dict(num_hidden_layers=4, head_dim=32, sliding_window=9, query_pre_attn_scalar=48,
                                  attn_logit_softcapping=20.0, final_logit_softcapping=10.0)),
    Case("gemma2_bf16_untied_v4", "Gemma2", dict(num_hidden_layers=3, head_dim=24, sliding_window=5, hidden_size=72,
                                                 attn_logit_softcapping=None, tie_word_embeddings=False), v4=True),
    Case("gemma3", "Gemma3Text", dict(num_hidden_layers=7, head_dim=32, sliding_window=6)),
    Case("gemma3_linear_v5", "Gemma3Text", dict(num_hidden_layers=3, head_dim=16, sliding_window=8,
              layer_types=["sliding_attention", "full_attention", "full_attention"],
              rope_parameters={"full_attention": dict(rope_type="linear", rope_theta=200000.0, factor=8.0),
                               "sliding_attention": dict(rope_type="default", rope_theta=5000.0)})),
    Case("gemma3_v4", "Gemma3Text", dict(num_hidden_layers=6, head_dim=16, sliding_window=7), v4=True),
    Case("smollm3", "SmolLM3", dict(num_hidden_layers=4, no_rope_layer_interval=2, attention_bias=True)),
    Case("smollm3_windows_v4", "SmolLM3", dict(num_hidden_layers=4, no_rope_layers=[0, 1, 1, 0], use_sliding_window=True,
                                               sliding_window=9, tie_word_embeddings=False), v4=True),
    Case("phi3", "Phi3", dict(num_key_value_heads=4)),
    Case("phi3_window_partial", "Phi3", dict(head_dim=32, num_attention_heads=2, sliding_window=11),
         dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
    # A prompt longer than the original length has the long factors, a shorter one the short ones.
    Case("phi3_longrope_long", "Phi3", dict(original_max_position_embeddings=32, partial_rotary_factor=0.75),
         dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=32, partial_rotary_factor=0.75,
              short_factor=[1.0 + 0.1 * i for i in range(6)], long_factor=[1.5 + i for i in range(6)])),
    Case("phi3_longrope_short", "Phi3", dict(original_max_position_embeddings=200),
         dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=200,
              short_factor=[1.0 + 0.1 * i for i in range(8)], long_factor=[1.5 + i for i in range(8)])),
    Case("gemma3_parts", "Gemma3", dict(num_hidden_layers=6, head_dim=16, sliding_window=7), beside_text=GEMMA3_PARTS),
    Case("mistral3_parts_tied", "Mistral3", dict(head_dim=24, sliding_window=None), beside_text=MISTRAL3_PARTS),
    Case("qwen2_5_vl_parts", "Qwen2_5_VL", {}, dict(rope_type="default", rope_theta=10000.0, mrope_section=[4, 2, 2]),
         beside_text={**QWEN_PARTS, "tie_word_embeddings": True}),
    Case("qwen2_5_vl_v4_window", "Qwen2_5_VL", dict(use_sliding_window=True, sliding_window=9, max_window_layers=1),
         dict(rope_type="default", rope_theta=10000.0, mrope_section=[4, 2, 2]), beside_text=QWEN_PARTS, v4=True),
    Case("qwen3_vl_parts_sharded", "Qwen3VL", dict(head_dim=32),
         dict(rope_type="default", rope_theta=10000.0, mrope_section=[6, 5, 5], mrope_interleaved=True),
         beside_text=QWEN3_PARTS, max_shard_size="60KB"),
    Case("ministral3", "Ministral3", dict(head_dim=24),
         dict(rope_type="yarn", rope_theta=100000.0, factor=4.0, original_max_position_embeddings=16, mscale=1.0,
              mscale_all_dim=1.0, llama_4_scaling_beta=0.3)),
    Case("cohere2_biases", "Cohere2", dict(num_hidden_layers=5, sliding_window=9, attention_bias=True,
                                           tie_word_embeddings=False)),
    Case("cohere2_v4", "Cohere2", dict(num_hidden_layers=6, sliding_window=12), v4=True),
    Case("glm4_yarn", "Glm4", dict(head_dim=32, num_key_value_heads=1, attention_bias=False),
         dict(rope_type="yarn", rope_theta=10000.0, factor=2.0, original_max_position_embeddings=64,
              partial_rotary_factor=0.5)),
]


def randomise(model, generator):
    """Weights with which every part of the model shows in the logits."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                p.copy_(1 + 0.3 * noise)
            elif p.ndim == 1:
                p.copy_(0.3 * noise)
            elif "embed" in name:
                p.copy_(0.4 * noise)
            else:
                p.copy_(noise * 1.5 / p.shape[1] ** 0.5)


def to_v4(config):
    """config.json as transformers v4 wrote it: of models of several parts, with the text part's keys among the others."""
    config = dict(config)
    text = config.pop("text_config", {})
    config = {**config, **text, "model_type": config["model_type"]}
    rope = dict(config.pop("rope_parameters"))
    if "sliding_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = dict(rope["full_attention"])
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    kind = "mrope" if "mrope_section" in rope else kind
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    return config


def make(case, folder, seed=0):
    """Writes the checkpoint to `folder`; returns the model in float32, with the weights as in the file."""
    generator = torch.Generator().manual_seed(seed)
    settings = {**BASE, **case.config}
    if case.rope:
        settings["rope_parameters"] = dict(case.rope)
    if case.beside_text is not None:
        settings = {"text_config": settings, **copy.deepcopy(case.beside_text)}
    config = getattr(transformers, f"{case.family}Config")(**settings)
    config._attn_implementation = "eager"  # some versions' SDPA leaves soft caps out
    kind = "ForCausalLM" if case.beside_text is None else "ForConditionalGeneration"
    model = getattr(transformers, case.family.removesuffix("Text") + kind)(config)
    randomise(model, generator)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(case.dtype))
    folder = pathlib.Path(folder)
    # A copy, because a model that was once in bfloat16 keeps rounded rotary frequencies.
    copy.deepcopy(model).to(case.dtype).save_pretrained(folder, max_shard_size=case.max_shard_size)
    if case.v4:
        path = folder / "config.json"
        path.write_text(json.dumps(to_v4(json.loads(path.read_text())), indent=2))
    return model.eval()


def load(folder, dtype=torch.float32, attention="eager", device="cpu"):
    """The model of a folder, computed in this dtype."""
    name = json.loads((pathlib.Path(folder) / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, name).from_pretrained(folder, dtype=dtype, attn_implementation=attention)
    return model.to(device).eval()


@torch.no_grad()
def logprobs(model, tokens):
    """Natural-log probabilities [len(tokens), vocab_size] of the token after each, without a cache."""
    return torch.log_softmax(model(torch.tensor([tokens], device=model.device), use_cache=False).logits[0].double(), -1)


class Float8Cache(transformers.DynamicCache):
    """Keys and values as an 8-bit cache with scales of 1 keeps them, but in the layers that are skipped."""

    def __init__(self, model, dtype, skipped=()):
        super().__init__(config=model.config)
        self._dtype, self._skipped = dtype, skipped

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        if layer_idx in self._skipped:
            return super().update(key_states, value_states, layer_idx, *args, **kwargs)
        most = torch.finfo(self._dtype).max
        rounded = [x.clamp(-most, most).to(self._dtype).to(x.dtype) for x in (key_states, value_states)]
        return super().update(*rounded, layer_idx, *args, **kwargs)


@torch.no_grad()
def logprobs_with_float8_cache(model, tokens, dtype, skipped=()):
    """The same as logprobs() with a cache of this dtype, in one step."""
    ids = torch.tensor([tokens], device=model.device)
    logits = model(ids, use_cache=True, past_key_values=Float8Cache(model, dtype, skipped)).logits[0]
    return torch.log_softmax(logits.double(), -1)


def greedy(model, tokens, count):
    tokens, out = list(tokens), []
    for _ in range(count):
        out.append(int(logprobs(model, tokens)[-1].argmax()))
        tokens.append(out[-1])
    return out


def prompt(vocab_size, length, seed):
    return torch.randint(vocab_size, (length,), generator=torch.Generator().manual_seed(seed)).tolist()
