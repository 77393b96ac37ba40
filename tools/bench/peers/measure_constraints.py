#!/usr/bin/env python3
"""What engines for structured output do with real JSON schemas, and how fast: llguidance and xgrammar beside Quire.
  tools/bench/peers/measure_constraints.py SAMPLE.jsonl --engine llguidance|xgrammar|xgrammar-dynamic|quire
      --tokenizer TOKENIZER_JSON [--eos TOKEN] [--limit 15] [--walk-limit 120] [--repeats 3] [--only N]
      [--memory-gb 12] [--json FILE] [--program build/cpu/bin/quire-bench]
A line of SAMPLE.jsonl has a schema ("id", "source", "schema") and its "valid" and "invalid" instances. The engine
compiles the schema. Then each instance's text (", " and ": " between members) is walked token by token: the engine
fills the mask, the script looks for the token in it, and the matcher takes the token. At the end the mask must have
the end of sequence. One thread does all this. An engine fails for a schema if it needs more than --limit seconds to
compile it, or more than --walk-limit seconds for all its instances and repeats.

A schema passes if it compiles, the engine takes its valid instances, and refuses its invalid ones. The script counts
invalid instances apart if jsonschema calls them valid (draft of $schema, else 2020-12; formats checked).

Times are of all masks of the valid instances, and of the invalid ones until the refusal, with the mask after the last
token. Each of --repeats runs compiles the schema (once, if that takes more than 0.2 s) and walks its instances in the
same order. A mask's time is the least of the runs. "first" is the first run by itself and "CPU" the thread's time in
it. "again" is one more walk with a grammar that has seen all instances. "mask + advance" is of the tokens that were
taken, and "new matcher" the time to begin with a compiled schema. The times have the call from Python in them, which
the last line shows.
--engine quire runs `quire-bench constraints` (--program), which measures the same without Python and without limits of
time; its times have no call from Python in them, and there is none of the CPU.
--json writes a line for each schema, with its masks in us, and at the end one with the summary.
It needs numpy, tokenizers, jsonschema[format-nongpl], and the engine's package. make_tokenizer_json.py makes
TOKENIZER_JSON of other vocabularies.

exit codes: 0; 1 for a file that cannot be read or an engine that does not start; 64 for bad usage"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import argparse
import collections
import json
import multiprocessing
import os
import re
import resource
import subprocess
import tempfile
import time

import jsonschema
import numpy
import tokenizers
from jsonschema.validators import validator_for

from constraint_engines import ENGINES, Refused

END_NAMES = ("</s>", "<|im_end|>", "<|return|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>")
TIMES_OF_TOKENS = ("mask", "once", "cpu", "again", "advance", "step")
QUANTILES = (0.5, 0.9, 0.99, 0.999)


def instance_text(value):
    return json.dumps(value, ensure_ascii=False)


class CapturedErrors:
    """What C or C++ code writes to standard error while this is open."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile()
        self.saved = os.dup(2)
        os.dup2(self.file.fileno(), 2)
        return self

    def __exit__(self, *_):
        os.dup2(self.saved, 2)
        os.close(self.saved)
        self.file.seek(0)
        self.text = self.file.read(100_000).decode(errors="replace")
        self.file.close()


def compile_schema(engine, text, repeats):
    """A grammar for each repeat (one if that is slow); of these runs the least time, the first, and the least CPU time,
    in us; the engine's notes."""
    grammars, times, cpu_times = [], [], []
    with CapturedErrors() as captured:
        while len(times) < repeats and max(times, default=0) < 200_000:
            began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
            grammars.append(engine.compile(text))
            times.append((time.perf_counter_ns() - began) / 1e3)
            cpu_times.append((time.thread_time_ns() - began_cpu) / 1e3)
    notes = [*engine.notes(grammars[0]), *dict.fromkeys(line for line in captured.text.splitlines() if line)]
    return grammars, min(times), times[0], min(cpu_times), notes


def walk(engine, matcher, tokens, end):
    """Whether the engine takes the tokens and then the end; at how many tokens it stopped; times in ns."""
    fill, advance, mask = matcher.fill, matcher.advance, engine.mask
    wall, cpu, steps = [], [], []
    for position, token in enumerate([*tokens, end]):
        began_cpu = time.thread_time_ns()
        began = time.perf_counter_ns()
        fill()
        wall.append(time.perf_counter_ns() - began)
        cpu.append(time.thread_time_ns() - began_cpu)
        if not mask[token >> 5] >> (token & 31) & 1:
            return False, position, wall, cpu, steps
        if position == len(tokens):
            break
        began = time.perf_counter_ns()
        advanced = advance(token)
        steps.append(time.perf_counter_ns() - began)
        if not advanced:
            return False, position, wall, cpu, steps
    return True, len(tokens), wall, cpu, steps


def walk_instances(engine, grammars, instances, end, repeats):
    """Walks all instances with each repeat's grammar, in the same order, and once more with the last grammar."""
    results = []
    for repeat in range(repeats + 1):
        grammar = grammars[min(repeat, len(grammars) - 1)]
        for index, tokens in enumerate(instances):
            began = time.perf_counter_ns()
            matcher = engine.start(grammar)
            started = time.perf_counter_ns() - began
            taken, position, wall, cpu, advance = walk(engine, matcher, tokens, end)
            if repeat == 0:
                results.append({"taken": taken, "stopped_at": position, "error": matcher.error(), "start": started,
                                "cpu": cpu, "once": wall, "mask": wall, "advance": advance})
            elif repeat < repeats:
                results[index] |= {"mask": numpy.minimum(results[index]["mask"], wall).tolist(),
                                   "advance": numpy.minimum(results[index]["advance"], advance).tolist()}
            else:
                results[index]["again"] = wall
    return results


def call_cost(engine, grammar):
    """Median time of a call that does nothing, measured as masks are, in us by the wall and the CPU."""
    trivial = engine.start(grammar).trivial
    wall, cpu = [], []
    for _ in range(20_000):
        began_cpu = time.thread_time_ns()
        began = time.perf_counter_ns()
        trivial()
        wall.append(time.perf_counter_ns() - began)
        cpu.append(time.thread_time_ns() - began_cpu)
    return float(numpy.median(wall)) / 1e3, float(numpy.median(cpu)) / 1e3


def serve_engine(pipe, arguments, end):
    """The process of the engine. It takes (schema, tokens of instances), and answers ("refused", reason) or
    ("compiled", ...) and ("walked", results)."""
    resource.setrlimit(resource.RLIMIT_AS, (arguments.memory_gb << 30, arguments.memory_gb << 30))
    engine = ENGINES[arguments.engine](arguments.tokenizer, end)
    simple = engine.compile('{"type": "object", "properties": {"a": {"type": "string"}}}')
    pipe.send(("ready", engine.version, call_cost(engine, simple)))
    while True:
        schema, instances = pipe.recv()
        try:
            grammars, *compiled = compile_schema(engine, json.dumps(schema, ensure_ascii=False), arguments.repeats)
        except Refused as reason:
            pipe.send(("refused", str(reason)))
            continue
        pipe.send(("compiled", *compiled))
        pipe.send(("walked", walk_instances(engine, grammars, instances, end, arguments.repeats)))


class EngineProcess:
    """The engine in a process of its own, which is ended and started again when it is too slow or dies."""

    def __init__(self, arguments, end):
        self.arguments, self.end, self.process = arguments, end, None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve_engine, args=(other, self.arguments, self.end), daemon=True)
        self.process.start()
        other.close()
        answer = self.receive(300)
        if answer[0] != "ready":
            sys.exit(f"{self.arguments.engine} does not start")
        _, self.version, self.call_us = answer

    def receive(self, seconds):
        """The next answer; after an end or too long a time ("died",) or ("too slow",), and the process is gone."""
        try:
            if self.pipe.poll(seconds):
                return self.pipe.recv()
            answer = ("too slow",)
        except EOFError:
            answer = ("died",)
        self.stop()
        return answer

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.join()
            self.process = None

    def run(self, schema, instances):
        if not self.process:
            self.start()
        self.pipe.send((schema, instances))
        compiled = self.receive(self.arguments.limit)
        return compiled, self.receive(self.arguments.walk_limit) if compiled[0] == "compiled" else None


def is_valid(schema, instances):
    """What jsonschema says of each instance: valid (True) or not, or None if it fails."""
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    verdicts = []
    for instance in instances:
        try:
            verdicts.append(validator.is_valid(instance))
        except Exception:
            verdicts.append(None)
    return verdicts


def where_stopped(tokenizer, tokens, walked):
    position = walked["stopped_at"]
    before = tokenizer.decode(tokens[:position], skip_special_tokens=False)
    return [before[-120:], tokenizer.decode(tokens[position:position + 1]) if position < len(tokens) else "END"]


def examine(row, process, tokenizer):
    """One schema: the line for --json, and its times."""
    instances = [*row["valid"], *row["invalid"]]
    tokens = [tokenizer.encode(instance_text(instance), add_special_tokens=False).ids for instance in instances]
    compiled, walked = process.run(row["schema"], tokens)
    num_valid = len(row["valid"])
    line = {"id": row["id"], "source": row["source"], "num_valid": num_valid, "num_invalid": len(row["invalid"])}
    if compiled[0] != "compiled":
        return line | {"status": f"compile: {compiled[0]}", "reason": compiled[1] if len(compiled) > 1 else ""}
    line |= dict(zip(("compile_us", "first_compile_us", "compile_cpu_us", "notes"), compiled[1:]))
    if walked[0] != "walked":
        return line | {"status": f"masks: {walked[0]}"}
    results = walked[1]
    valid, invalid = results[:num_valid], results[num_valid:]
    verdicts = is_valid(row["schema"], row["invalid"])
    line["valid_refused"] = {index: where_stopped(tokenizer, tokens[index], result) + [result["error"][:300]]
                             for index, result in enumerate(valid) if not result["taken"]}
    line["invalid_taken"] = [index for index, result in enumerate(invalid)
                             if result["taken"] and verdicts[index] is False]
    line["disputed_taken"] = [index for index, result in enumerate(invalid)
                              if result["taken"] and verdicts[index] is not False]
    line["invalid_refused_at"] = {index: where_stopped(tokenizer, tokens[num_valid + index], result)
                                  for index, result in enumerate(invalid) if not result["taken"]}
    line["errors"] = sorted({result["error"][:300] for result in results if result["error"]})
    line["status"] = "wrong" if line["valid_refused"] or line["invalid_taken"] else "passes"
    for result in results:
        result["step"] = numpy.add(result["mask"][:len(result["advance"])], result["advance"]).tolist()
    for name in TIMES_OF_TOKENS:
        line[f"{name}_us"] = [round(ns / 1e3, 2) for result in results for ns in result[name]]
    line["start_us"] = [round(result["start"] / 1e3, 2) for result in results]
    slowest = sorted(((ns, index, position) for index, result in enumerate(results)
                      for position, ns in enumerate(result["mask"])), reverse=True)[:3]
    line["slowest"] = [[round(ns / 1e3, 2), tokenizer.decode(tokens[index][:position])[-60:]]
                       for ns, index, position in slowest]
    return line


def spread(values):
    """Mean, quantiles and most."""
    if not values:
        return None
    array = numpy.array(values)
    quantiles = dict(zip(("p50", "p90", "p99", "p99.9"), numpy.quantile(array, QUANTILES).tolist()))
    return {"count": len(values), "mean": float(array.mean())} | quantiles | {"max": float(array.max())}


def short_reason(line):
    """A reason without what differs from schema to schema."""
    reason = re.sub(r"\s+", " ", line["reason"] or line["status"])
    reason = re.sub(r'"(?:[^"\\]|\\.)*"', '"…"', reason) if "Unimplemented keys" not in reason else reason
    return re.sub(r"\d+", "N", reason)[:110]


def summarize(lines, process):
    statuses = collections.Counter(line["status"] for line in lines)
    compiled = [line for line in lines if "compile_us" in line]
    walked = [line for line in lines if "mask_us" in line]

    with_instances = [line for line in lines if line["num_valid"] + line["num_invalid"]]
    refused = collections.Counter(short_reason(line) for line in lines if "compile_us" not in line)
    notes = collections.Counter(note[-110:] for line in lines for note in line.get("notes", ()))

    def all_of(key):
        return [value for line in walked for value in line[key]]

    return {
        "engine": process.arguments.engine, "version": process.version,
        "tokenizer": Path(process.arguments.tokenizer).name,
        "schemas": len(lines), "statuses": dict(statuses.most_common()),
        "passes_with_instances": sum(line["status"] == "passes" for line in with_instances),
        "with_instances": len(with_instances),
        "schemas_with_valid_refused": sum(bool(line.get("valid_refused")) for line in lines),
        "schemas_with_invalid_taken": sum(bool(line.get("invalid_taken")) for line in lines),
        "valid_refused": sum(len(line.get("valid_refused", ())) for line in lines),
        "invalid_taken": sum(len(line.get("invalid_taken", ())) for line in lines),
        "disputed_taken": sum(len(line.get("disputed_taken", ())) for line in lines),
        "valid_walked": sum(line["num_valid"] for line in walked),
        "invalid_walked": sum(line["num_invalid"] for line in walked),
        "call_us": process.call_us,
        "times_us": {
            "compile": spread([line["compile_us"] for line in compiled]),
            "compile, first": spread([line["first_compile_us"] for line in compiled]),
            "compile, CPU": spread([line["compile_cpu_us"] for line in compiled]),
            "new matcher": spread(all_of("start_us")),
            "mask": spread(all_of("mask_us")), "mask, first": spread(all_of("once_us")),
            "mask, CPU": spread(all_of("cpu_us")), "mask, again": spread(all_of("again_us")),
            "advance": spread(all_of("advance_us")), "mask + advance": spread(all_of("step_us"))},
        "refused": dict(refused.most_common()), "notes": dict(notes.most_common(40))}


def measure_quire(arguments, rows):
    """Lines and summary of quire-bench, and what jsonschema says of the invalid instances that it takes."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "quire.json"
        command = [arguments.program, "constraints", "--schemas", str(arguments.sample), "--tokenizer", arguments.tokenizer,
                   "--repeats", str(arguments.repeats), "--limit", str(len(rows)), "--json", str(output)]
        command += ["--eos", arguments.eos] if arguments.eos else []
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"{arguments.program} fails")
        measured = json.loads(output.read_text())
    lines, summary = measured["schemas"], measured["summary"]
    summary["disputed_taken"] = 0
    for row, line in zip(rows, lines):
        taken = line.get("invalid_taken", [])
        verdicts = is_valid(row["schema"], [row["invalid"][index] for index in taken])
        disputed = [index for index, verdict in zip(taken, verdicts) if verdict is not False]
        line["disputed_taken"] = disputed
        line["invalid_taken"] = [index for index in taken if index not in disputed]
        if disputed and not line["invalid_taken"] and not line["valid_refused"]:
            line["status"] = "passes"
        summary["disputed_taken"] += len(disputed)
    with_instances = [line for line in lines if line["num_valid"] + line["num_invalid"]]
    return lines, summary | {
        "engine": "quire", "version": measured["version"], "tokenizer": Path(arguments.tokenizer).name,
        "statuses": dict(collections.Counter(line["status"] for line in lines).most_common()),
        "passes_with_instances": sum(line["status"] == "passes" for line in with_instances),
        "invalid_taken": sum(len(line.get("invalid_taken", ())) for line in lines),
        "schemas_with_invalid_taken": sum(bool(line.get("invalid_taken")) for line in lines),
        "call_us": [0, 0], "notes": {}}


def print_summary(summary):
    print(f"{summary['engine']} {summary['version']}, {summary['tokenizer']}, {summary['schemas']} schemas, one thread")
    for status, count in summary["statuses"].items():
        print(f"  {count:6} {status}")
    print(f"  {summary['passes_with_instances']:6} pass of the {summary['with_instances']} schemas that have instances")
    print(f"  {summary['valid_refused']:6} of {summary['valid_walked']} valid instances refused, in "
          f"{summary['schemas_with_valid_refused']} schemas")
    print(f"  {summary['invalid_taken']:6} of {summary['invalid_walked']} invalid instances taken, in "
          f"{summary['schemas_with_invalid_taken']} schemas; {summary['disputed_taken']} more that are not invalid for "
          "jsonschema")
    print(f"us {'':16}" + "".join(f"{name:>11}" for name in ("count", "mean", "p50", "p90", "p99", "p99.9", "max")))
    for name, values in summary["times_us"].items():
        if values:
            cells = [f"{value:11}" if key == "count" else f"{value:11.1f}" for key, value in values.items()]
            print(f"   {name:16}" + "".join(cells))
    print(f"   a call that does nothing: {summary['call_us'][0]:.2f} us, {summary['call_us'][1]:.2f} us of the CPU")
    for title in ("refused", "notes"):
        if summary[title]:
            print(title)
            for reason, count in list(summary[title].items())[:30]:
                print(f"  {count:6} {reason}")


def parse_arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.error = lambda message: (print(f"{message}; see --help", file=sys.stderr), sys.exit(64))
    parser.add_argument("sample", type=Path)
    parser.add_argument("--engine", choices=sorted([*ENGINES, "quire"]), required=True)
    parser.add_argument("--program", default="build/cpu/bin/quire-bench")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--eos")
    parser.add_argument("--limit", type=float, default=15)
    parser.add_argument("--walk-limit", type=float, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", type=int)
    parser.add_argument("--memory-gb", type=int, default=12)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def finish(arguments, lines, summary):
    print_summary(summary)
    if arguments.json:
        texts = [json.dumps(line, ensure_ascii=False) for line in [*lines, {"summary": summary}]]
        arguments.json.write_text("\n".join(texts) + "\n")


def main():
    arguments = parse_arguments()
    try:
        rows = [json.loads(line) for line in arguments.sample.read_text().splitlines()][:arguments.only]
        tokenizer = tokenizers.Tokenizer.from_file(arguments.tokenizer)
    except Exception as error:
        sys.exit(f"{error}")
    if arguments.engine == "quire":
        return finish(arguments, *measure_quire(arguments, rows))
    names = [arguments.eos] if arguments.eos else END_NAMES
    end = next((found for found in map(tokenizer.token_to_id, names) if found is not None), None)
    if end is None:
        sys.exit("the tokenizer has no end of sequence of these names: " + " ".join(names))
    process = EngineProcess(arguments, end)
    process.start()
    lines = []
    for index, row in enumerate(rows):
        lines.append(examine(row, process, tokenizer))
        if sys.stderr.isatty():
            print(f"\r{index + 1}/{len(rows)}", end="", file=sys.stderr)
    process.stop()
    finish(arguments, lines, summarize(lines, process))


if __name__ == "__main__":
    main()
