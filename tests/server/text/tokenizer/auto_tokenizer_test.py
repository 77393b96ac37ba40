#!/usr/bin/env python3
"""The files beside tokenizer.json say what they say to transformers: ids, decoded text and the named tokens of every
folder of model_folders.py are those of AutoTokenizer.from_pretrained, as golden/auto_tokenizer.json has them
(make_auto_tokenizer_golden.py writes it). Where transformers is installed, what it answers now must be the same.

usage: auto_tokenizer_test.py TOKENIZER_TOOL"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import model_folders

GOLDEN = json.loads(pathlib.Path(__file__).parent.joinpath("golden/auto_tokenizer.json").read_text(encoding="utf-8"))


def ask_quire(path):
    """What tokenizer_tool makes of a folder, in the form of model_folders.ask_transformers."""
    def ask(requests):
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        result = subprocess.run([TOOL, path], input=lines, capture_output=True, encoding="utf-8", check=False)
        if result.returncode != 0:
            return [result.stderr] * len(requests)
        return [json.loads(line) for line in result.stdout.splitlines()]
    named, *ids = ask([{"named": True}, *model_folders.TEXTS])
    if isinstance(named, str):
        return {"error": named}
    return {**named, "ids": ids, "texts": ask([{"skip": one} for one in ids])}


class AutoTokenizerTest(unittest.TestCase):
    def compare(self, ask):
        """Each folder's answer with the golden one; all that differ are told."""
        self.assertEqual(GOLDEN["texts"], model_folders.TEXTS)
        names = [name for name, _ in model_folders.cases()]
        self.assertEqual(list(GOLDEN["folders"]), names, "run make_auto_tokenizer_golden.py")
        for name, files in model_folders.cases():
            with self.subTest(name), tempfile.TemporaryDirectory() as path:
                model_folders.write(files, path)
                self.assertEqual(ask(path), GOLDEN["folders"][name])

    def test_every_folder_says_what_it_says_to_transformers(self):
        self.compare(ask_quire)

    def test_transformers_still_says_it(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed: tools/make_hf_venv.sh")
        if int(transformers.__version__.partition(".")[0]) < 5:
            self.skipTest("transformers before 5 has rules of its own for each class")
        self.compare(model_folders.ask_transformers)

    def test_the_end_that_is_nowhere_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as path:
            model_folders.write(model_folders.folder(special_map={"eos_token": "<none>"}), path)
            self.assertIn('special_tokens_map.json: "eos_token" is "<none>", which tokenizer.json does not have',
                          ask_quire(path)["error"])

    def test_what_would_encode_otherwise_is_refused(self):
        with tempfile.TemporaryDirectory() as path:
            model_folders.write(model_folders.folder({"split_special_tokens": True}), path)
            self.assertIn("split_special_tokens", ask_quire(path)["error"])


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    unittest.main(verbosity=2)
