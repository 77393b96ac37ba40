#!/usr/bin/env python3
"""Writes golden/auto_tokenizer.json: what transformers' AutoTokenizer makes of each folder of model_folders.py. Run it
with a Python that has transformers (tools/make_hf_venv.sh makes one).

usage: make_auto_tokenizer_golden.py"""

import json
import pathlib
import tempfile

import transformers

import model_folders


def main():
    golden = {"transformers": transformers.__version__, "texts": model_folders.TEXTS, "folders": {}}
    for name, files in model_folders.cases():
        with tempfile.TemporaryDirectory() as path:
            model_folders.write(files, path)
            golden["folders"][name] = model_folders.ask_transformers(path)
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in golden.pop("folders").items()]
    text = json.dumps(golden)[:-1] + ', "folders": {\n' + ",\n".join(lines) + "\n}}\n"
    pathlib.Path(__file__).parent.joinpath("golden/auto_tokenizer.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
