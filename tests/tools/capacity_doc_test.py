"""The table of docs/capacity.md is what quire-server --plan says of these models.

    capacity_doc_test.py --write      # writes it"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")) / "bin/quire-server"
DOCUMENT = ROOT / "docs/capacity.md"
BEGIN, END = "<!-- table of --plan -->\n", "<!-- end of the table of --plan -->\n"
NUM_TOKENS = 8192
# The memory to plan with on cards with 24 and 48 GB, an H100 and an H200.
MEMORY = ("22GiB", "44GiB", "79GiB", "139.8GiB")


def llama(**fields):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "num_attention_heads": 32,
            "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, **fields}


def qwen3(**fields):
    return {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16", "vocab_size": 151936,
            "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0, **fields}


MODELS = {
    "Qwen3-0.6B": qwen3(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
                        tie_word_embeddings=True),
    "Gemma-3-1B": {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "dtype": "bfloat16",
                   "vocab_size": 262144, "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
                   "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "max_position_embeddings": 32768,
                   "sliding_window": 512, "sliding_window_pattern": 6, "rms_norm_eps": 1e-6,
                   "query_pre_attn_scalar": 256, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0},
    "Llama-3.2-1B": llama(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, head_dim=64,
                          max_position_embeddings=8192, tie_word_embeddings=True),
    "Qwen3-4B": qwen3(hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32,
                      tie_word_embeddings=True),
    "Mistral-7B-v0.3": {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "dtype": "bfloat16",
                        "vocab_size": 32768, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                        "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0,
                        "sliding_window": None, "tie_word_embeddings": False},
    "Llama-3-8B": llama(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, head_dim=128,
                        max_position_embeddings=8192, tie_word_embeddings=False),
    "Qwen3-14B": qwen3(hidden_size=5120, intermediate_size=17408, num_hidden_layers=40, num_attention_heads=40,
                       tie_word_embeddings=False),
    "Qwen3.6-27B": {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "dtype": "bfloat16",
                    "vocab_size": 248320, "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64,
                    "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "linear_num_key_heads": 16,
                    "linear_num_value_heads": 48, "max_position_embeddings": 262144, "rms_norm_eps": 1e-6,
                    "tie_word_embeddings": False},
    "Qwen3-32B": qwen3(hidden_size=5120, intermediate_size=25600, num_hidden_layers=64, num_attention_heads=64,
                       tie_word_embeddings=False),
}


def plan(folder, memory, kv_cache_dtype="auto"):
    """None where it does not fit."""
    result = subprocess.run(
        [SERVER, "--plan-json", "--plan-memory", memory, "--device", "cuda", "--model", folder, "--load-format", "dummy",
         "--max-model-len", str(NUM_TOKENS), "--kv-cache-dtype", kv_cache_dtype],
        capture_output=True, text=True, timeout=30, check=False)
    if result.returncode == 69:
        return None
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout)


def streams(planned):
    return "-" if planned is None else f"{planned['streams'][-1]['num_streams']:,}"


def table():
    head = ["model", "parameters", "weights, GiB", "KV of a token, KiB: bfloat16, fp8", *MEMORY]
    lines = [head, ["---"] * len(head)]
    for name, config in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(json.dumps(config))
            plans = {(memory, dtype): plan(folder, memory, dtype) for memory in MEMORY for dtype in ("auto", "fp8")}
        largest = [plans[MEMORY[-1], dtype] for dtype in ("auto", "fp8")]
        weights = largest[0]["memory"]["entries"][0]["bytes"] / 2**30
        # What a long context grows by: that of the layers without a window.
        per_token = [sum(kv["bytes_per_token"] for kv in each["kv"] if kv["sliding_window"] == 0) / 1024 for each in largest]
        lines.append([name, f"{largest[0]['num_parameters'] / 1e9:.2f} B", f"{weights:.1f}",
                      ", ".join(f"{kib:g}" for kib in per_token),
                      *(", ".join(streams(plans[memory, dtype]) for dtype in ("auto", "fp8")) for memory in MEMORY)])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


class CapacityDocTest(unittest.TestCase):
    def test_the_table_is_what_plan_says(self):
        self.maxDiff = None
        text = DOCUMENT.read_text()
        self.assertEqual(text.split(BEGIN)[1].split(END)[0].strip(), table().strip(),
                         "tests/tools/capacity_doc_test.py --write writes it anew")


if __name__ == "__main__":
    if not SERVER.exists():
        print(f"skipped: {SERVER} is not built")
        sys.exit(77)
    if sys.argv[1:] == ["--write"]:
        before, rest = DOCUMENT.read_text().split(BEGIN)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}")
    else:
        unittest.main(verbosity=2)
