// The launches of the CUDA kernels behind CudaOps, one function per operation of kernels/ops.h. The
// arguments have been checked; a launch that fails is left for cudaGetLastError. An operation on no
// rows launches nothing. Used by the engine's thread.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/op_args.h"
#include "kernels/weight_store.h"

namespace quire::cuda {

// Whether this build holds machine code that the current device runs.
bool HasKernelsForCurrentDevice();

void LaunchFill(const LinearWeight& weight, const FillWeightArgs& args, cudaStream_t stream);
void LaunchEmbedding(const EmbeddingArgs& args, cudaStream_t stream);
void LaunchGatherRows(const GatherRowsArgs& args, cudaStream_t stream);
void LaunchUpdateBlockTables(const UpdateBlockTablesArgs& args, cudaStream_t stream);
void LaunchRmsNorm(const RmsNormArgs& args, cudaStream_t stream);
void LaunchGatedActivation(const GatedActivationArgs& args, cudaStream_t stream);
void LaunchScale(const ScaleArgs& args, cudaStream_t stream);
void LaunchSoftCap(const SoftCapArgs& args, cudaStream_t stream);
void LaunchRopeAndStoreKv(const RopeAndStoreKvArgs& args, cudaStream_t stream);

// out[row] += bias, for [num_rows, size].
void LaunchAddBias(const Tensor& bias, const Tensor& out, cudaStream_t stream);

}  // namespace quire::cuda
