// The one function of the library onednn_peer.so: it times oneDNN's gemm. The library lies beside
// quire-bench, so that no package has to bring oneDNN.
#pragma once

#include <cstdint>

// Microseconds of out[m, n] = x[m, k] * weight with the fastest of calls that go through
// `num_weights` weights in turn. *is_bfloat16 becomes false if oneDNN has no bfloat16 gemm on this
// machine; then the gemm is in float32.
extern "C" __attribute__((visibility("default"))) double quire_onednn_gemm_us(int64_t m, int64_t n,
                                                                              int64_t k,
                                                                              int num_weights,
                                                                              bool* is_bfloat16);
