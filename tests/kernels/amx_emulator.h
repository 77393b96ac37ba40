// Lets a program run AMX's instructions on a processor that has none.
#pragma once

namespace quire {

// Where AVX2 is there and AMX is not, AMX's tile and bfloat16 instructions and TDPBUSD (of the int8
// ones) do from now on what Intel's SDM says of them, in all threads of this process: a handler of
// SIGILL carries them out. The kernels around them may need more than AVX2.
// An instruction that the processor would refuse (registers without a configuration, numbers of
// rows that do not match) ends the program. An instruction takes some microseconds. Returns whether
// the instructions are emulated.
bool EmulateAmxWhereMissing();

}  // namespace quire
