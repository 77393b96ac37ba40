// Lets a program run AMX's instructions on a processor that has none.
#pragma once

namespace quire {

// Where AVX2 is there and AMX is not, from now on AMX's tile and bfloat16 instructions, and of int8
// TDPBUSD, do what Intel's SDM says of them, in all threads of this process: a handler of SIGILL
// carries them out. The kernels around them may need more than AVX2.
// What the processor would refuse (registers without a configuration, numbers of rows that do not
// match) ends the program. It takes some microseconds an instruction. Returns whether it is so.
bool EmulateAmxWhereMissing();

}  // namespace quire
