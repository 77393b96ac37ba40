// OneDnnGemm: oneDNN's gemm of the same shapes as ours, for benchmarks. Weights are in the
// layout that oneDNN likes best, in as many copies as are asked for, used in turn.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "dnnl.hpp"
#include "kernels/base/tensor.h"

namespace quire {

class OneDnnGemm {
 public:
  // `dtype` if oneDNN has gemms of it here, otherwise float32.
  static DType Closest(DType dtype) {
    try {
      [[maybe_unused]] const OneDnnGemm probe(dtype, 16, 16, 16, 1);
      return dtype;
    } catch (const dnnl::error&) {
      return DType::kF32;
    }
  }

  // out[m, n] = x[m, k] * weight. Throws dnnl::error where oneDNN has no such gemm, as for
  // bfloat16 below AVX-512.
  OneDnnGemm(DType dtype, int64_t m, int64_t n, int64_t k, int num_weights)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Tag = dnnl::memory::format_tag;
    const auto type =
        dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
    const dnnl::memory::desc x_desc({m, k}, type, Tag::ab), out_desc({m, n}, type, Tag::ab);
    const dnnl::memory::desc any_weight({k, n}, type, Tag::any);
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(x_desc, any_weight, out_desc),
                                            engine_);
    gemm_ = dnnl::matmul(desc);
    x_ = Zeros(x_desc);
    out_ = Zeros(out_desc);
    for (int i = 0; i < num_weights; ++i) weights_.push_back(Zeros(desc.weights_desc()));
  }

  void Run() {
    next_ = (next_ + 1) % weights_.size();
    gemm_.execute(stream_,
                  {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, weights_[next_]}, {DNNL_ARG_DST, out_}});
    stream_.wait();
  }

 private:
  dnnl::memory Zeros(const dnnl::memory::desc& desc) const {
    dnnl::memory memory(desc, engine_);
    std::memset(memory.get_data_handle(), 0, desc.get_size());
    return memory;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul gemm_;
  dnnl::memory x_, out_;
  std::vector<dnnl::memory> weights_;
  size_t next_ = 0;
};

}  // namespace quire
