#include "tools/bench/kernels/gemm_peer.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "tools/bench/kernels/onednn_peer.h"
#ifdef QUIRE_CUDA
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/own_gemms.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#endif

namespace quire::bench {

namespace {

// In a library beside the program, which finds it or does not: no package has to bring oneDNN.
class OneDnnPeer : public GemmPeer {
 public:
  static std::unique_ptr<GemmPeer> Open() {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    void* library = dlopen((program.parent_path() / "onednn_peer.so").c_str(), RTLD_NOW);
    void* measure = library == nullptr ? nullptr : dlsym(library, "quire_onednn_gemm_us");
    if (measure == nullptr) return nullptr;
    return std::unique_ptr<GemmPeer>(new OneDnnPeer(reinterpret_cast<Function*>(measure)));
  }

  absl::StatusOr<Result> Measure(const GemmCase& gemm, int64_t num_rows) override {
    bool is_bfloat16 = gemm.dtype() == DType::kBF16;
    const GemmShape& shape = gemm.shape();
    const double us =
        measure_(num_rows, shape.out_features, shape.in_features, gemm.num_weights(), &is_bfloat16);
    return Result{is_bfloat16 ? "oneDNN bfloat16" : "oneDNN float32", us};
  }

 private:
  using Function = decltype(quire_onednn_gemm_us);

  explicit OneDnnPeer(Function* measure) : measure_(measure) {}

  Function* const measure_;
};

#ifdef QUIRE_CUDA
class CublasPeer : public GemmPeer {
 public:
  static absl::StatusOr<std::unique_ptr<GemmPeer>> Open(GraphTimer& timer) {
    ASSIGN_OR_RETURN(auto gemm, cuda::Gemm::Create(timer.backend().device()));
    return std::unique_ptr<GemmPeer>(new CublasPeer(timer, std::move(gemm)));
  }

  absl::StatusOr<Result> Measure(const GemmCase& gemm, int64_t num_rows) override {
    ASSIGN_OR_RETURN(const auto candidates, gemm_->Candidates(gemm.Args(0, num_rows)));
    for (const cuda::GemmChoice& choice : candidates) {
      if (choice.kernel != cuda::GemmKernel::kCublasLt) continue;
      ASSIGN_OR_RETURN(const double us, UsOf(gemm, num_rows, choice));
      return Result{"cuBLASLt", us};
    }
    return absl::NotFoundError("cuBLASLt has no such gemm");
  }
  absl::StatusOr<std::vector<Result>> MeasureCandidates(const GemmCase& gemm,
                                                        int64_t num_rows) override {
    ASSIGN_OR_RETURN(const auto candidates, gemm_->Candidates(gemm.Args(0, num_rows)));
    std::vector<Result> results;
    int num_algorithms = 0;
    for (const cuda::GemmChoice& choice : candidates) {
      auto& stream = cuda::CudaStream::From(timer_.stream());
      if (!gemm_->Run(gemm.Args(0, num_rows), choice, stream).ok()) continue;
      const cuda::OwnGemm* own = cuda::FindOwnGemm(choice.kernel);
      ASSIGN_OR_RETURN(const double us, UsOf(gemm, num_rows, choice));
      results.push_back({own == nullptr
                             ? absl::StrCat("cublaslt ", num_algorithms++)
                             : absl::StrCat(own->name, " ", own->variant_name(choice.variant)),
                         us});
    }
    return results;
  }

 private:
  CublasPeer(GraphTimer& timer, std::unique_ptr<cuda::Gemm> gemm)
      : timer_(timer), gemm_(std::move(gemm)) {}

  absl::StatusOr<double> UsOf(const GemmCase& gemm, int64_t num_rows,
                              const cuda::GemmChoice& choice) {
    absl::Status status;
    auto& stream = cuda::CudaStream::From(timer_.stream());
    const auto us = timer_.MedianColdUs(gemm.weight_bytes(), gemm.num_weights(), [&](int i) {
      status.Update(gemm_->Run(gemm.Args(i, num_rows), choice, stream));
    });
    RETURN_IF_ERROR(status);
    return us;
  }

  GraphTimer& timer_;
  const std::unique_ptr<cuda::Gemm> gemm_;
};
#endif

}  // namespace

absl::StatusOr<std::unique_ptr<GemmPeer>> GemmPeer::Create([[maybe_unused]] GraphTimer& timer) {
#ifdef QUIRE_CUDA
  if (timer.device_kind() == DeviceKind::kCuda) return CublasPeer::Open(timer);
#endif
  return OneDnnPeer::Open();
}

}  // namespace quire::bench
