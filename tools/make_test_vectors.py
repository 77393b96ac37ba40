#!/usr/bin/env python3
"""Makes tests/engine/model/golden: checkpoints of a few dozen KB and what transformers computes with them in float32.

    tools/make_hf_venv.sh && build/venv-hf/bin/python tools/make_test_vectors.py [CASE...]

All of them, or those that are named; the others stay as they are.

Each folder has config.json, the weights, and expected.json: the prompt, for each of its tokens the natural-log
probabilities of the whole vocabulary for the next one, and how far transformers itself is from them in bfloat16.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[0] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import json
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/engine/model"))

import torch
import tiny_checkpoints
import tiny_gemma4
import tiny_hybrids
import tiny_moe
import tiny_variants
import transformers
from tiny_checkpoints import Case

SMALL = dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2)
PROMPT_TOKENS = 40
MIXED_CACHE = "llama_mixed_cache"

CASES = [
    Case("llama3_rope_biases_tied", "Llama",
         dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
         dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)),
    Case("llama_linear_rope_f16_sharded", "Llama", {}, dict(rope_type="linear", rope_theta=10000.0, factor=2.0),
         dtype=torch.float16, max_shard_size="20KB"),
    Case("mistral_window_head_dim_v4", "Mistral", dict(sliding_window=8, head_dim=16), v4=True),
    Case("qwen2_window_tied", "Qwen2",
         dict(use_sliding_window=True, sliding_window=6, max_window_layers=1, tie_word_embeddings=True)),
    Case("qwen3_yarn", "Qwen3", dict(head_dim=16),
         dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)),
    Case("gemma2_caps_windows", "Gemma2", dict(head_dim=16, sliding_window=7, query_pre_attn_scalar=24,
                                               attn_logit_softcapping=10.0, final_logit_softcapping=5.0)),
    Case("gemma3_two_ropes", "Gemma3Text", dict(head_dim=16, sliding_window=6, num_hidden_layers=3,
         layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    Case("phi3_longrope", "Phi3", dict(original_max_position_embeddings=32, num_key_value_heads=2, tie_word_embeddings=True),
         dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=32, partial_rotary_factor=0.75,
              short_factor=[1.0, 1.2, 1.5], long_factor=[2.0, 3.0, 5.0])),
    # Head sizes of published models.
    Case("llama_head_dim_128", "Llama", dict(head_dim=128, num_attention_heads=4, num_key_value_heads=2),
         dtype=torch.bfloat16),
    Case("qwen3_head_dim_64_two_groups", "Qwen3",
         dict(head_dim=64, num_attention_heads=4, num_key_value_heads=2, use_sliding_window=True, sliding_window=20,
              max_window_layers=1), dtype=torch.bfloat16),
    Case("phi3_head_dim_96", "Phi3", dict(hidden_size=96, num_attention_heads=1, num_key_value_heads=1),
         dtype=torch.bfloat16),
    Case("smollm3_no_rope", "SmolLM3", dict(no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=8,
                                            mlp_bias=True)),
    # Models of several parts, of which the text part is read: its keys and its tensors stand elsewhere in each.
    Case("gemma3_text_part", "Gemma3", dict(head_dim=16, sliding_window=6,
         layer_types=["sliding_attention", "full_attention"]), beside_text=tiny_checkpoints.GEMMA3_PARTS),
    Case("mistral3_text_part", "Mistral3", dict(head_dim=16, sliding_window=None),
         beside_text={**tiny_checkpoints.MISTRAL3_PARTS, "tie_word_embeddings": False}),
    Case("qwen2_5_vl_text_part_v4", "Qwen2_5_VL", {},
         dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 1, 1]),
         beside_text=tiny_checkpoints.QWEN_PARTS, v4=True),
    Case("qwen3_vl_text_part_tied", "Qwen3VL", dict(head_dim=16),
         dict(rope_type="default", rope_theta=10000.0, mrope_section=[4, 2, 2], mrope_interleaved=True),
         beside_text={**tiny_checkpoints.QWEN3_PARTS, "tie_word_embeddings": True}),
    Case("olmo3_row_norms_yarn", "Olmo3", dict(num_hidden_layers=4, sliding_window=6, attention_bias=True, rope_parameters={
         "full_attention": dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32),
         "sliding_attention": dict(rope_type="default", rope_theta=10000.0)})),
    Case("exaone4_ropes_in_windows", "Exaone4", dict(num_hidden_layers=4, sliding_window=7, sliding_window_pattern=2)),
    Case("seed_oss_biases", "SeedOss", dict(head_dim=16)),
    Case("granite_multipliers", "Granite", dict(embedding_multiplier=6.0, residual_multiplier=0.6, attention_multiplier=0.2,
                                                logits_scaling=3.0, tie_word_embeddings=True)),
    Case("granite4_shared_mlp", "GraniteMoeHybrid",
         dict(layer_types=["full_attention"] * 2, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40,
              intermediate_size=24, position_embedding_type="rope", mamba_n_heads=4, residual_multiplier=0.7,
              logits_scaling=2.0, attention_multiplier=0.3)),
    Case("glm4_pairs_of_neighbours", "Glm4", dict(head_dim=16)),
    Case("ministral3_query_scales", "Mistral3", dict(model_type="ministral3", head_dim=16),
         dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=8, beta_fast=32.0,
              beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4),
         beside_text={**tiny_checkpoints.MISTRAL3_PARTS, "tie_word_embeddings": True}),
    Case("cohere2_parallel_blocks", "Cohere2", dict(num_hidden_layers=4, sliding_window=7, layer_norm_eps=0.01, logit_scale=0.4,
         layer_types=["sliding_attention", "full_attention"] * 2)),
]


def write_mixed_cache(folder, seed):
    """With an 8-bit cache in all layers but the first; exact/ has the same without."""
    case = Case(MIXED_CACHE, "Llama", {**SMALL, "num_hidden_layers": 3})
    model = tiny_checkpoints.make(case, folder, seed)
    (folder / "generation_config.json").unlink()
    tokens = tiny_checkpoints.prompt(SMALL["vocab_size"], PROMPT_TOKENS, seed)
    write(folder, tokens, tiny_checkpoints.logprobs_with_float8_cache(model, tokens, torch.float8_e4m3fn, {0}))
    (folder / "exact").mkdir()
    write(folder / "exact", tokens, tiny_checkpoints.logprobs(model, tokens))


def write_expected(folder, tokens, model, in_bfloat16):
    expected = tiny_checkpoints.logprobs(model, tokens)
    error = (tiny_checkpoints.logprobs(in_bfloat16, tokens) - expected).abs()
    write(folder, tokens, expected, bfloat16_error={"max": error.max().item(), "mean": error.mean().item()})


def write(folder, tokens, expected, **more):
    rows = [[round(x, 5) for x in row] for row in expected.tolist()]
    (folder / "expected.json").write_text(json.dumps({"tokens": tokens, **more, "logprobs": rows},
                                                     separators=(",", ":")))


def main():
    transformers.utils.logging.disable_progress_bar()
    golden = ROOT / "tests/engine/model/golden"
    wanted = sys.argv[1:] or [case.name for case in CASES] + [*tiny_variants.VARIANTS, *tiny_hybrids.CASES,
                                                              *tiny_gemma4.CASES, *tiny_moe.CASES, MIXED_CACHE]
    for name in wanted:
        shutil.rmtree(golden / name, ignore_errors=True)
    for seed, case in enumerate(CASES):
        if case.name not in wanted:
            continue
        case.config = {**SMALL, **case.config}
        folder = golden / case.name
        model = tiny_checkpoints.make(case, folder, seed)
        (folder / "generation_config.json").unlink()
        tokens = tiny_checkpoints.prompt(case.config["vocab_size"], PROMPT_TOKENS, seed)
        write_expected(folder, tokens, model, tiny_checkpoints.load(folder, torch.bfloat16, attention=None))
    for seed, name in enumerate(tiny_variants.VARIANTS):
        if name not in wanted:
            continue
        models = tiny_variants.make(name, golden / name, seed)
        tokens = tiny_checkpoints.prompt(tiny_variants.BASE["vocab_size"], PROMPT_TOKENS, seed)
        write_expected(golden / name, tokens, *models)
    for module in (tiny_hybrids, tiny_gemma4, tiny_moe):
        for name, (seed, make, num_ids) in module.CASES.items():
            if name not in wanted:
                continue
            models = make(golden / name, seed)
            (golden / name / "generation_config.json").unlink(missing_ok=True)
            write_expected(golden / name, tiny_checkpoints.prompt(num_ids, module.PROMPT_TOKENS, seed), *models)
    if MIXED_CACHE in wanted:
        write_mixed_cache(golden / MIXED_CACHE, seed=0)
    for path in golden.rglob("*.safetensors"):
        path.chmod(0o644)
    print(sum(path.stat().st_size for path in golden.rglob("*") if path.is_file()), "bytes in", golden)


if __name__ == "__main__":
    main()
