#!/usr/bin/env python3
"""Words that docs/words.md has replaced do not come back. Prints each use; exits 1 if there is one.

    check_words.py [FOLDER]      # the repository of another folder, for tests"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from repository_files import repository_files
from script_help import answer_help

answer_help(__doc__)

import re

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
CODE = (".h", ".cc", ".cu", ".cuh")
DOCUMENTS = (".md", ".py", ".sh")
# (what may not be there, what to say instead, where: folders, and kinds of file)
RULES = [
    # oneDNN's and cuBLASLt's names stay theirs.
    (r"(?<!dnnl::)\b(?!cublasLt|CUBLASLT)\w*[Mm]at[Mm]ul\w*", "gemm", ("",), CODE),
    (r"\b\w*Product\w*\b|\b\w+_products?\b|\bproducts?_\w+", "gemm, or Linear", ("kernels/", "engine/", "tools/bench/"), CODE),
    (r"\b[Cc]ompan(y|ies)\b|\bin_company\b|Company", "batch (invariance)", ("",), CODE + DOCUMENTS),
    (r"\bcontext_lens?\b|\bkv_lens\b", "seq_lens", ("kernels/", "engine/", "kvcache/", "scheduler/"), CODE),
    (r"\bq_indptr\b", "cu_seqlens_q", ("",), CODE),
    (r"\bpage_size\b|\bpage_table\b", "block_size, block_tables", ("kvcache/", "scheduler/", "engine/"), CODE),
    (r"\b[Ff]inali[sz]e\w*Weights?\b", "Seal", ("",), CODE),
    (r"\bslots?\b|\bslots?_|\bslot_capacity\b|\bfirst_slot\b", "partial, or stage", ("kernels/cuda/attention/",), CODE),
    (r"(?i)chunk", "split (of keys), segment (of a row), or piece", ("kernels/cuda/",), CODE),
    (r"\bweights?\b", "probs", ("kernels/cuda/attention/",), CODE),
    (r"\bbounce buffer", "staging", ("",), CODE + DOCUMENTS),
    (r"\bcopy engine\b", "TMA", ("kernels/cuda/", "docs/"), CODE + DOCUMENTS),
    (r"\bthread blocks?\b", "CTA", ("kernels/cuda/",), CODE),
    (r"\bmax_waiting_(requests|tokens)\b|\bkv_cache_bytes\b|\btune_products\b", "the setting's name", ("",), CODE),
]
EXEMPT = {"tools/lint/check_words.py", "tests/tools/lint_words_test.py", "docs/words.md"}


def main():
    problems = []
    rules = [(re.compile(pattern), instead, folders, kinds) for pattern, instead, folders, kinds in RULES]
    for name in repository_files(ROOT):
        if name in EXEMPT:
            continue
        applying = [(pattern, instead) for pattern, instead, folders, kinds in rules
                    if name.endswith(kinds) and name.startswith(folders)]
        if not applying:
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            for pattern, instead in applying:
                if found := pattern.search(line):
                    problems.append(f"{name}:{number}: \"{found[0]}\": the word is {instead} (docs/words.md)")
    print("\n".join(problems) if problems else "words are those of docs/words.md")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
