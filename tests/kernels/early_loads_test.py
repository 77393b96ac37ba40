"""What the machine code of kernels does before they wait for their predecessor. The loads of constants there are what
dependent launches gain most by, and ptxas moves them behind the wait where nothing but instructions without effect
lies between (a gemv without them is right, and 20 % of a step slower). Needs nvcc, but no GPU."""

import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
# Of sm_90: the lowest 12 bits of an instruction, of 16 bytes each.
LOAD_GLOBAL, WAIT_FOR_PREDECESSOR = 0x981, 0x82E


def functions(cubin):
    """The instructions' opcodes of each kernel of an ELF file of 64 bits, by the kernel's name."""
    data = cubin.read_bytes()
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    names_at = sections[names_index][4]
    result = {}
    for name, _, _, _, begin, length in sections:
        text = data[names_at + name:data.index(b"\0", names_at + name)].decode()
        if text.startswith(".text."):
            result[text[len(".text."):]] = [struct.unpack_from("<H", data, begin + i)[0] & 0xFFF
                                            for i in range(0, length, 16)]
    return result


def early_loads(source):
    """How many loads from global memory each kernel of the file begins with, up to its wait."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernels.cubin"
        subprocess.run([NVCC, "-cubin", "-o", cubin, "-O3", "-DNDEBUG", "-std=c++20", "--expt-relaxed-constexpr", "-w",
                        "--generate-code=arch=compute_90a,code=[sm_90a]", "-I", ROOT, ROOT / source], check=True)
        codes = functions(cubin)
    return {name: code[:code.index(WAIT_FOR_PREDECESSOR)].count(LOAD_GLOBAL) for name, code in codes.items()}


class EarlyLoadsTest(unittest.TestCase):
    def test_a_gemv_loads_its_first_weights_before_it_waits(self):
        loads = early_loads("kernels/cuda/gemm/gemv.cu")
        kernels = [(name, re.search(r"GemvKernelI.*Li(\d+)ELi(\d+)ELi(\d+)ELb", name)) for name in loads]
        self.assertGreaterEqual(len(kernels), 4)
        for name, arguments in kernels:
            self.assertIsNotNone(arguments, name)
            self.assertEqual(loads[name], int(arguments[3]), f"{name}: tiles, warps and loads are {arguments.groups()}")

    def test_a_norm_loads_its_weight_before_it_waits(self):
        loads = early_loads("kernels/cuda/elementwise/norm.cu")
        self.assertGreaterEqual(len(loads), 4)
        for name, count in loads.items():
            self.assertGreaterEqual(count, 1, name)


if __name__ == "__main__":
    if not pathlib.Path(NVCC).exists():
        print("skipped: no nvcc")
        sys.exit(77)
    unittest.main()
