"""tools/lint/check_layers.py finds what it is there for: each forbidden include and each file that is too
long, in a small repository, and nothing in the allowed ones."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

LINT = pathlib.Path(__file__).resolve().parents[2] / "tools/lint/check_layers.py"
FOLDERS = ["kernels", "kvcache", "scheduler", "engine", "server", "proto", "configs", "tools", "tests"]


def run_lint(files):
    """What the lint says of a repository with these files: {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        files = {**{f"{name}/README.md": "" for name in FOLDERS}, **files}
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        subprocess.run(["git", "init", "-q", root], check=True)
        result = subprocess.run([sys.executable, LINT, root], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout


class LintLayersTest(unittest.TestCase):
    def check_refused(self, path, line, reason):
        code, output = run_lint({path: line + "\n"})
        self.assertEqual(code, 1, f"{path} with {line} passed")
        self.assertIn(reason, output)

    def test_upward_includes(self):
        for path, header in [
            ("kernels/ops.h", "kvcache/kv_layout.h"),
            ("scheduler/scheduler.h", "engine/engine.h"),
            ("kernels/base/check.h", "kernels/ops.h"),
            ("kernels/device.h", "kernels/cpu/runtime/isa.h"),
            ("kernels/cpu/runtime/isa.cc", "kernels/cpu/gemm/gemm.h"),
            ("kernels/cuda/gemm/gemm.cc", "kernels/cuda/cuda_ops.h"),
            ("engine/checkpoint/checkpoint.cc", "engine/model/weights.h"),
            ("engine/model/decoder.cc", "engine/runner/batch.h"),
            ("engine/runner/batch.cc", "engine/engine.h"),
            ("server/request/output/output_pump.cc", "server/request/generate/generate_handler.h"),
            ("server/text/utf8.cc", "server/text/tokenizer/tokenizer.h"),
        ]:
            self.check_refused(path, f'#include "{header}"', "stands above")

    def test_what_belongs_to_others(self):
        self.check_refused("kernels/cpu/gemm/gemm.cc", '#include "kernels/cuda/gemm/gemm.h"', "the other backend")
        self.check_refused("kernels/cuda/cuda_ops.cc", '#include "kernels/cpu/cpu_ops.h"', "the other backend")
        self.check_refused("engine/engine.cc", '#include "tests/engine/tiny_engine.h"', "may not include")
        self.check_refused("engine/engine.cc", '#include "quire/v1/inference.pb.h"', "the wire contract")
        self.check_refused("engine/engine.cc", "#include <cuda_runtime.h>", "belongs under kernels/cuda/")
        self.check_refused("kernels/ops.h", '#include "hwy/highway.h"', "belongs under kernels/cpu/")

    def test_what_has_one_home(self):
        for path, line, reason in [
            ("server/request/output/output_pump.cc", "const absl::Time end = absl::Now() + limit;", "the wall steps"),
            ("engine/engine.cc", "mutex_.AwaitWithDeadline(absl::Condition(&is_idle), deadline);", "the wall steps"),
            ("engine/engine.cc", "mutex_.AwaitWithTimeout(condition, absl::Seconds(1));", "the wall steps"),
            ("server/request/generate/work_pool.h", "absl::CondVar news_;", "the wall steps"),
            ("tools/client/rpc.cc", "context->set_deadline(std::chrono::system_clock::now() + timeout);", "the wall steps"),
            ("server/call/grpc_call.cc", "StartTimer(WallNow() + timeout, work);", "for stamps"),
            ("server/surfaces/openai/json_tree.cc", "const auto tree = nlohmann::json::parse(body);", "ends at a NUL"),
            ("tools/bench/workload.cc", "const Json json = Json::parse(line, nullptr, false);", "ends at a NUL"),
            ("server/start/run_server.cc", 'std::fputs("stopped", stderr);', "the log's thread"),
            ("tools/client/health.cc", "#include <grpcpp/grpcpp.h>", "gRPC's library"),
            ("tools/client/health.cc", "#include <grpc/support/log.h>", "gRPC's library"),
            ("tools/bench/load/load.h", '#include "quire/v1/inference.grpc.pb.h"', "gRPC's library"),
            ("server/trace/otlp_client.cc", "#include <curl/curl.h>", "libcurl downloads models"),
        ]:
            self.check_refused(path, line, reason)
        code, output = run_lint({
            "kernels/base/clock.cc": "absl::Time WallNow() { return absl::Now(); }\n",
            "server/wire/http1/http1_answer.cc": "AppendAnswerHead(head, WallNow(), &answer);\n",
            "tools/client/grpc_log.cc": "#include <grpc/support/log.h>\n",
            "server/surfaces/grpc/health_service.cc": '#include "grpc/health/v1/health.pb.h"\n',
            "server/start/hub/http_client.cc": "#include <curl/curl.h>\n",
            "engine/json/parse_json.h": "return Json::parse(text.begin(), text.end());\n",
            "tests/server/observe/log/access_log_test.cc": "log.Add(entry, absl::Now());\n",
            "server/call/grpc_call.cc": "StartTimer(MonotonicNow() + timeout, work);  // not absl::Now()\n",
        })
        self.assertEqual(code, 0, output)

    def test_a_class_has_one_home(self):
        model = "namespace quire {\n\nclass Decoder final : public Block {\n  int layers_;\n};\n\n}  // namespace quire\n"
        token = "namespace quire {\n\nstruct Decoder {\n  int tokens;\n};\n\n}  // namespace quire\n"
        code, output = run_lint({"engine/model/decoder.h": model, "server/text/tokenizer/decoder.cc": token})
        self.assertEqual(code, 1, output)
        self.assertIn("server/text/tokenizer/decoder.cc:3: quire::Decoder is a class of engine/model/decoder.h, too", output)
        unnamed = token.replace("struct", "namespace {\n\nstruct").replace("};", "};\n\n}  // namespace")
        code, output = run_lint({
            "engine/model/decoder.h": model, "server/text/tokenizer/decoder.cc": unnamed,
            "server/text/decoder.h": "namespace quire {\n\nclass Decoder;\n\n}  // namespace quire\n",
            "tools/bench/decoder.h": token.replace("quire", "quire::bench")})
        self.assertEqual(code, 0, output)

    def test_sizes(self):
        code, output = run_lint({"engine/engine.h": "\n" * 201})
        self.assertEqual(code, 1)
        self.assertIn("201 lines, at most 200", output)

    def test_what_is_allowed(self):
        code, output = run_lint({
            "kernels/backend.cc": '#include "kernels/cpu/cpu_backend.h"\n#include "kernels/cuda/cuda_backend.h"\n',
            "kernels/cpu/cpu_ops.cc": '#include "kernels/cpu/gemm/gemm.h"\n#include "kernels/ops.h"\n',
            "engine/engine.cc": '#include "engine/runner/batch.h"\n#include "scheduler/scheduler.h"\n',
            "server/start/server.cc": '#include "quire/v1/inference.pb.h"\n#include "engine/engine.h"\n',
            "tests/engine/engine_test.cc": '#include "engine/engine.h"\n#include <cuda_runtime.h>\n',
        })
        self.assertEqual(code, 0, output)

    def test_the_readme_tells_the_order_of_folders(self):
        table = (pathlib.Path(LINT).parents[2] / "server/README.md").read_text()
        source = {"server/observe/kv_events/events.cc": '#include "server/observe/metrics/server_metrics.h"\n'}
        self.assertEqual(run_lint({"server/README.md": table, **source})[0], 0)
        lines = table.splitlines()
        metrics = next(i for i, line in enumerate(lines) if "`metrics/`" in line)
        lines[metrics], lines[metrics + 1] = lines[metrics + 1], lines[metrics]
        code, output = run_lint({"server/README.md": "\n".join(lines), **source})
        self.assertEqual(code, 1)
        self.assertIn("server/observe/metrics/server_metrics.h stands above server/observe/kv_events/", output)

    def test_a_folder_of_the_server_has_a_row(self):
        code, output = run_lint({"server/kitchen/sink.cc": '#include "engine/engine.h"\n'})
        self.assertEqual(code, 1)
        self.assertIn("server/kitchen/sink.cc: its folder has no row", output)


if __name__ == "__main__":
    unittest.main()
