// Whether this build holds machine code that the current device runs. Any thread.
#pragma once

namespace quire::cuda {

bool HasKernelsForCurrentDevice();

}  // namespace quire::cuda
