#include "tools/bench/kernels/onednn_peer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "dnnl.hpp"

namespace {

// Weights are in the layout that oneDNN likes best.
class OneDnnGemm {
 public:
  // Throws dnnl::error where oneDNN has no such gemm, as for bfloat16 below AVX-512.
  OneDnnGemm(bool is_bfloat16, int64_t m, int64_t n, int64_t k, int num_weights)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Tag = dnnl::memory::format_tag;
    const auto type = is_bfloat16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
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

bool HasBFloat16() {
  try {
    [[maybe_unused]] const OneDnnGemm probe(true, 16, 16, 16, 1);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace

double quire_onednn_gemm_us(int64_t m, int64_t n, int64_t k, int num_weights, bool* is_bfloat16) {
  using Clock = std::chrono::steady_clock;
  *is_bfloat16 = *is_bfloat16 && HasBFloat16();
  OneDnnGemm gemm(*is_bfloat16, m, n, k, num_weights);
  double best_us = 1e30;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(200);
  do {
    const Clock::time_point start = Clock::now();
    gemm.Run();
    const std::chrono::duration<double, std::micro> us = Clock::now() - start;
    best_us = std::min(best_us, us.count());
  } while (Clock::now() < end);
  // oneDNN's threads spin for a while before they sleep: what is measured next is not to feel it.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return best_us;
}
