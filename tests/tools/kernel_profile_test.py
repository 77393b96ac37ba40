"""kernel_profile.py on traces made up here: which steps count, what a kernel adds to one, and what is no trace."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/gpu_check/kernel_profile.py"
HEADER = "start_ns,end_ns,grid_x,grid_y,grid_z,threads,name"

# As nvcc makes them: quire::cuda::trtllm::(anonymous namespace)::PlanDecode(...) and so on.
PLAN = "_ZN5quire4cuda6trtllm47_GLOBAL__N__cae2fe1b_14_decode_plan_cu_15e13d4210PlanDecodeENS1_16DecodePlanParamsE"
NATIVE_PLAN = "_ZN5quire4cuda48_GLOBAL__N__ecb80080_15_plan_kernels_cu_b46da69213PlanSequencesENS0_10PlanParamsE"
GEMV = ("_ZN5quire4cuda39_GLOBAL__N__24189ede_7_gemv_cu_ab0f33a110GemvKernelI13__nv_bfloat16Li2ELb0EEEvNS1_"
        "10GemvParamsE")
GEMM = "nvjet_sm90_tst_128x48_64x9_2x1_v_bz_TNT"

WAITING = [(0, 10, 1, PLAN), (10, 30, 64, GEMV), (20, 60, 64, GEMV), (75, 95, 132, GEMM)]  # microseconds


class KernelProfileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = self.folder / "trace.csv"

    def run_script(self, *flags, **environment):
        return subprocess.run([sys.executable, SCRIPT, *flags], env=dict(os.environ, **environment), text=True,
                              capture_output=True, timeout=60, check=False)

    def write(self, *steps, gap=5):
        """Writes steps of (start, end, grid, name), each `gap` after what came before it."""
        lines, begin = [], 0
        for step in steps:
            for start, end, grid, name in step:
                lines.append(f"{1000 * (begin + start)},{1000 * (begin + end)},{grid},1,2,128,{name}\n")
            begin += max(end for _, end, _, _ in step) + gap
        # Not in order: CUPTI gives kernels of one stream after those of another.
        self.trace.write_text(HEADER + "\n" + "".join(reversed(lines)))

    def profile(self, *flags, **environment):
        """The text and the JSON."""
        out = self.folder / "profile.json"
        result = self.run_script(self.trace, *flags, "--json", out, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout, json.loads(out.read_text())

    def row(self, profile, name):
        rows = [row for row in profile["kernels"] if row["name"].startswith(name)]
        self.assertEqual(len(rows), 1, profile)
        return rows[0]

    def test_a_kernel_adds_what_comes_after_the_end_of_all_before_it(self):
        # The second of the two kernels that overlap ends 30 us after the first.
        self.write(WAITING, WAITING, WAITING)
        text, profile = self.profile()
        self.assertEqual(profile["num_steps"], 2, "the last may have been cut off")
        self.assertEqual(profile["kernels_per_step"], 4)
        # The first step begins with the trace, the second 5 us after it: the median lies between.
        self.assertEqual(profile["step_us"], (95 + 100) / 2)
        self.assertEqual(profile["gaps_us_per_step"], (15 + 20) / 2)
        self.assertEqual([row["name"].split("<")[0] for row in profile["kernels"]], ["GemvKernel", GEMM, "PlanDecode"])
        gemv = self.row(profile, "GemvKernel")
        self.assertEqual((gemv["calls_per_step"], gemv["mean_us"], gemv["added_us_per_step"]), (2, 30, 50))
        self.assertEqual((gemv["grid"], gemv["threads"]), ([64, 1, 2], 128))
        self.assertEqual(gemv["share_of_step"], round(50 / 97.5, 4))
        self.assertEqual(self.row(profile, "nvjet")["added_us_per_step"], 20)
        self.assertEqual(self.row(profile, "PlanDecode")["added_us_per_step"], 10)
        self.assertIn("a step of 97.5 us and 4 kernels (median of 2 steps), of it 17.5 us in which none runs", text)
        self.assertRegex(text, r"(?m)^ +50\.0 +51\.3% +2 +30\.00 +64x1x2 +128  GemvKernel")

    def test_what_ends_within_another_adds_nothing(self):
        step = [(0, 10, 1, PLAN), (5, 50, 64, GEMV), (20, 40, 132, GEMM)]
        self.write(step, step, step, gap=0)
        _, profile = self.profile()
        self.assertEqual(profile["step_us"], 50)
        self.assertEqual(profile["gaps_us_per_step"], 0)
        self.assertEqual(self.row(profile, "GemvKernel")["added_us_per_step"], 40)
        self.assertEqual(self.row(profile, "nvjet")["added_us_per_step"], 0)

    def test_steps_of_other_kernels_do_not_count(self):
        prompts = WAITING + [(100, 5000, 7, GEMM)]
        other = WAITING[:3] + [(75, 90, 64, GEMV)]  # as many kernels
        slow = WAITING[:3] + [(75, 195, 132, GEMM)]
        self.write(prompts, WAITING, prompts, slow, WAITING, other, other, WAITING)
        _, profile = self.profile()
        self.assertEqual((profile["num_steps"], profile["kernels_per_step"]), (3, 4))
        self.assertEqual(profile["step_us"], 100, "the median, not the mean")

    def test_of_all_steps_there_are_means_and_a_row_for_each_kernel(self):
        prompts = [(0, 10, 1, PLAN), (10, 110, 7, GEMM), (120, 320, 9, GEMM)]
        self.write(WAITING, prompts, WAITING, gap=0)
        text, profile = self.profile("--all-steps")
        self.assertEqual((profile["num_steps"], profile["kernels_per_step"]), (2, 3.5))
        self.assertEqual(profile["step_us"], (95 + 320) / 2)
        self.assertEqual(profile["gaps_us_per_step"], (15 + 10) / 2)
        gemm = self.row(profile, "nvjet")
        self.assertEqual((gemm["calls_per_step"], gemm["added_us_per_step"]), (1.5, 160))
        self.assertEqual(gemm["mean_us"], round((20 + 100 + 200) / 3, 3))
        self.assertEqual(gemm["share_of_step"], round(160 / 207.5, 4))
        self.assertEqual([row["name"].split("<")[0] for row in profile["kernels"]], [GEMM, "GemvKernel", "PlanDecode"])
        self.assertIn("a step of 207.5 us and 3.5 kernels (mean of 2 steps), of it 12.5 us in which none runs", text)
        self.assertRegex(text, r"(?m)^ +160\.0 +77\.1% +1\.5 +106\.67 +any +any  nvjet")

    def test_a_pause_is_in_no_step(self):
        pause = [(12_000, 12_020, 1, GEMM)]  # of 12 ms, before what the next run begins with
        self.write(WAITING, WAITING, pause, WAITING, WAITING, gap=0)
        for flags in ([], ["--all-steps"]):
            _, profile = self.profile(*flags)
            self.assertEqual((profile["num_steps"], profile["step_us"]), (2, 95), flags)
            self.assertEqual(profile["gaps_us_per_step"], 15, flags)
        self.write(WAITING, WAITING, gap=12_000)
        _, profile = self.profile()
        self.assertEqual((profile["num_steps"], profile["step_us"]), (1, 95))
        self.write(WAITING, pause, WAITING)
        result = self.run_script(self.trace)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no whole step without a pause", result.stderr)

    def test_one_kernel_with_two_grids_has_two_rows(self):
        step = [(0, 10, 1, PLAN), (10, 40, 64, GEMV), (40, 50, 128, GEMV)]
        self.write(step, step, step)
        _, profile = self.profile()
        self.assertEqual([(row["grid"][0], row["added_us_per_step"]) for row in profile["kernels"]],
                         [(64, 30), (128, 10), (1, 10)])

    def test_a_grid_that_changes_from_step_to_step_stays_one_row(self):
        self.write(*([(0, 10, 1, PLAN), (10, 40, grid, GEMV)] for grid in (5, 6, 7, 7, 8, 9)))
        _, profile = self.profile()
        gemv = self.row(profile, "GemvKernel")
        self.assertEqual((gemv["grid"], gemv["calls_per_step"], gemv["added_us_per_step"]), ([7, 1, 2], 1, 30))

    def test_the_native_plan_begins_steps_where_there_is_no_other(self):
        native = [(0, 10, 1, NATIVE_PLAN), (10, 40, 64, GEMV)]
        self.write(native, native, native)
        self.assertEqual(self.profile()[1]["kernels_per_step"], 2)
        # Prompts that the native path reads between decode steps of the other.
        both = WAITING + [(100, 110, 1, NATIVE_PLAN), (110, 140, 64, GEMV)]
        self.write(both, WAITING, WAITING, WAITING)
        self.assertEqual(self.profile()[1]["kernels_per_step"], 4)

    def test_names_without_a_demangler_are_the_functions_own(self):
        self.write(WAITING, WAITING, WAITING)
        _, profile = self.profile(PATH=str(self.folder))
        self.assertEqual([row["name"] for row in profile["kernels"]], ["GemvKernel", GEMM, "PlanDecode"])

    def test_names_are_short_with_a_demangler(self):
        demangler = self.folder / "c++filt"
        full = "void quire::cuda::(anonymous namespace)::GemvKernel<quire::Silu, 2>(quire::cuda::GemvParams)"
        demangler.write_text(f"#!/bin/sh\nwhile read -r name; do case $name in *Gemv*) echo '{full}';; "
                             "*) echo \"$name\";; esac; done\n")
        demangler.chmod(0o755)
        self.write(WAITING, WAITING, WAITING)
        _, profile = self.profile(PATH=str(self.folder))
        self.assertEqual(profile["kernels"][0]["name"], "GemvKernel<Silu, 2>")

    def test_what_is_no_trace_is_named(self):
        line = f"0,10,1,1,1,128,{PLAN}\n"
        for text, message in (("", "first line is not start_ns"), ("a,b\n" + line, "first line is not start_ns"),
                              (HEADER + "\n" + line + "1,x,1,1,1,1,a\n", "line 3: not six numbers and a name: 1,x,1"),
                              (HEADER + "\n0,10,1\n", "line 2: not six numbers and a name: 0,10,1"),
                              (HEADER + "\n" + line, "no whole step: none of PlanDecode, PlanSequences ran twice")):
            with self.subTest(message):
                self.trace.write_text(text)
                result = self.run_script(self.trace, "--json", self.folder / "none.json")
                self.assertEqual(result.returncode, 1)
                self.assertIn(message, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1)
                self.assertFalse((self.folder / "none.json").exists())
        result = self.run_script(self.folder / "absent.csv")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "^kernel_profile: .*absent.csv")


if __name__ == "__main__":
    unittest.main()
