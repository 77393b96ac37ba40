"""docs/model-folder.md has every key: those that the code reads are "used" or "refused" there and the others are not, those
that it warns of have "no effect", and each that transformers writes for a supported family is told about
(transformers_keys.json; where transformers is installed, what it writes now, too).

usage: model_folder_doc_test.py [--write]    adds to transformers_keys.json what the installed transformers writes"""

import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/model-folder.md"
KEYS = pathlib.Path(__file__).with_name("transformers_keys.json")
CONFIGS = ("LlamaConfig", "MistralConfig", "Qwen2Config", "Qwen3Config", "Gemma2Config", "Gemma3TextConfig", "Phi3Config",
           "SmolLM3Config", "Gemma3Config", "Mistral3Config", "Qwen2_5_VLConfig", "Qwen3VLConfig", "Qwen2MoeConfig",
           "Qwen3MoeConfig", "MixtralConfig", "Glm4MoeConfig", "GptOssConfig", "Qwen3NextConfig", "Qwen3_5MoeTextConfig")
READERS = {"config.json": ("engine/model/config/model_config.cc", "engine/model/config/layer_configs.cc",
                           "engine/model/config/gemma4_layers.cc", "engine/model/config/rope_config.cc",
                           "engine/model/config/routed_mlp_config.cc",
                           "engine/model/quantization/quantization_config.cc"),
           "generation_config.json": ("engine/checkpoint/generation_config.cc",),
           "tokenizer_config.json": ("server/text/tokenizer/stages/token_settings.cc", "server/text/chat/template_loader.cc")}
A_LOOK_UP = re.compile(r'\b(?:Int|Double|Bool|String|StringList|IntOrIntList|Object|Find|Has|ReadSoftCap|ReadFactors)'
                       r'\((?:\w+, )?"(\w+)"')
NO_KEYS = {"bos_token_id", "quant_method", "config_groups", "full_attention", "sliding_attention"}  # checked, in an error, of the rope
A_KEY = re.compile(r"`([a-z_0-9]+)`")


def rows():
    """(file, keys, what they do) of each row of the tables of keys."""
    file = None
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            file = line[3:].split(",")[0]
        elif file and line.startswith("| `"):
            keys, what = re.split(r"(?<!\\) \| ", line[2:], maxsplit=1)
            yield file, set(A_KEY.findall(keys)), what


def keys_that_are(file, *states):
    found = set()
    for name, keys, what in rows():
        if name == file and what.startswith(states):
            found |= keys
            if "in the forms of" in what:
                found |= set(A_KEY.findall(what))
    return found


def keys_that_transformers_writes():
    import transformers
    config = set().union(*(getattr(transformers, name)().to_dict() for name in CONFIGS))
    return {"config.json": config, "generation_config.json": set(transformers.GenerationConfig().to_dict())}


class ModelFolderDocTest(unittest.TestCase):
    def check_all_are_told(self, written):
        for file, keys in written.items():
            told = set().union(*(keys | set(A_KEY.findall(what)) for name, keys, what in rows() if name == file))
            # The settings of generation that old versions wrote into config.json are told once.
            told |= set().union(*(keys for name, keys, _ in rows() if name == "generation_config.json"))
            self.assertEqual(sorted(set(keys) - told), [], f"docs/model-folder.md does not tell of these keys of {file}")

    def test_each_key_that_transformers_writes_is_told(self):
        self.check_all_are_told(json.loads(KEYS.read_text(encoding="utf-8"))["keys"])

    def test_and_each_that_it_writes_now(self):
        try:
            written = keys_that_transformers_writes()
        except ImportError:
            self.skipTest("transformers is not installed: tools/make_hf_venv.sh")
        self.check_all_are_told(written)

    def test_what_is_read_is_used_or_refused_and_nothing_else(self):
        for file in ("config.json", "generation_config.json"):
            text = "".join((ROOT / source).read_text(encoding="utf-8") for source in READERS[file])
            counts = keys_that_are(file, "used", "refused")
            self.assertEqual(sorted(set(A_LOOK_UP.findall(text)) - counts - NO_KEYS), [])
            self.assertEqual([key for key in sorted(counts) if f'"{key}"' not in text], [])
        text = "".join((ROOT / source).read_text(encoding="utf-8") for source in READERS["tokenizer_config.json"])
        self.assertEqual([key for key in keys_that_are("tokenizer_config.json", "used", "`true` is refused")
                          if key not in text and not key.endswith("_token")], [])

    def test_what_a_line_of_the_log_names_has_no_effect(self):
        text = (ROOT / READERS["generation_config.json"][0]).read_text(encoding="utf-8")
        named = set(re.findall(r'\{"(\w+)", -?\d+\}', text))
        self.assertGreater(len(named), 10)
        self.assertEqual(named, keys_that_are("generation_config.json", "no effect"))


def write():
    import transformers
    golden = json.loads(KEYS.read_text(encoding="utf-8")) if KEYS.exists() else {"versions": [], "keys": {}}
    golden["versions"] = sorted({*golden["versions"], transformers.__version__})
    for file, keys in keys_that_transformers_writes().items():
        golden["keys"][file] = sorted({*golden["keys"].get(file, ()), *keys})
    KEYS.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main(verbosity=2)
