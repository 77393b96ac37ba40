// GemmPeer: another library's gemm of the same shape, for comparison. On a CPU it is oneDNN's, if
// the build has it; on a GPU it is cuBLASLt's first answer. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/kernels/gemm_case.h"
#include "tools/bench/kernels/graph_timer.h"

namespace quire::bench {

class GemmPeer {
 public:
  // Null if there is no such library.
  static absl::StatusOr<std::unique_ptr<GemmPeer>> Create(GraphTimer& timer);
  virtual ~GemmPeer() = default;

  struct Result {
    std::string name;
    double us;
  };
  virtual absl::StatusOr<Result> Measure(const GemmCase& gemm, int64_t num_rows) = 0;
  // Every kernel of the backend that can compute the gemm; empty if there is only one way.
  virtual absl::StatusOr<std::vector<Result>> MeasureCandidates(const GemmCase&, int64_t) {
    return std::vector<Result>();
  }
};

}  // namespace quire::bench
