// Linear operations on a GPU: each shape of two models alone, and the gemms of a whole layer
// between its row-wise kernels, as tuned, against cuBLASLt's first answer and against a kernel that
// only reads the same bytes, turn by turn. Every figure is the median of replays of a graph that
// goes through more weights than L2 holds. Measures anew unless QUIRE_CACHE_DIR has a file.
// Usage: cuda_linear_bench [--candidates] [rows...]; with it, every way to compute each shape
// instead.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_weight_store.h"
#include "kernels/cuda/gemm/own_gemms.h"
#include "kernels/cuda/memory_probe.h"

namespace quire {
namespace {

constexpr int64_t kColdBytes = int64_t{800} << 20;  // what a round goes through at least

struct Model {
  const char* name;
  int num_layers;
  int64_t hidden, q, qkv, intermediate, vocab;
};
constexpr Model kModels[] = {{"8B", 32, 4096, 4096, 6144, 14336, 128256},
                             {"0.6B", 28, 1024, 2048, 4096, 3072, 151936}};

class Bench {
 public:
  Bench()
      : device_(cuda::CudaDevice::Open(0).value()),
        ops_(cuda::CudaOps::Create(*device_).value()),
        gemm_(cuda::Gemm::Create(*device_).value()),
        weight_store_(*device_, *gemm_),
        stream_(device_->CreateStream().value()),
        begin_(device_->CreateEvent(true).value()),
        end_(device_->CreateEvent(true).value()),
        sink_(device_->Allocate(4).value()) {}

  Ops& ops() { return *ops_; }
  cuda::CudaStream& stream() { return cuda::CudaStream::From(*stream_); }

  LinearWeight Random(int64_t out_features, int64_t in_features) {
    buffers_.push_back(device_->Allocate(out_features * in_features * 2).value());
    const LinearWeight weight = {.data = buffers_.back().data(),
                                 .dtype = DType::kBF16,
                                 .out_features = out_features,
                                 .in_features = in_features};
    weight_store_.Fill(*stream_, weight, {.seed = 1, .tensor_id = buffers_.size(), .stddev = 0.5f});
    return weight;
  }
  // [rows, size] of random values.
  Tensor Activations(int64_t rows, int64_t size, DType dtype = DType::kBF16) {
    return Tensor(Random(2 * rows, size).data, dtype, {rows, size});  // twice: room for float32
  }

  void Tune(const std::vector<LinearGroup>& groups) {
    CHECK(weight_store_.Tune(*stream_, groups, nullptr).ok());
  }
  void Tuned(const LinearArgs& args) { gemm_->Linear(args, stream()); }
  void Tuned(const GatedLinearArgs& args) { gemm_->GatedLinear(args, stream()); }
  // cuBLASLt's first answer.
  void Default(const LinearArgs& args) {
    const cuda::GemmKey key = cuda::Gemm::KeyOf(args);
    if (!defaults_.contains(key)) {
      const std::vector<cuda::GemmChoice> candidates = gemm_->Candidates(args).value();
      for (const cuda::GemmChoice& choice : candidates) {
        if (choice.kernel == cuda::GemmKernel::kCublasLt && !defaults_.contains(key))
          defaults_[key] = choice;
      }
    }
    CHECK(gemm_->Run(args, defaults_[key], stream()).ok());
  }
  void Default(const GatedLinearArgs& args) {
    Default(args.Linear());
    ops_->GatedActivation(*stream_, args.Activate());
  }
  // visit(name, choice) for each that can compute these.
  template <typename Visit>
  void ForEachCandidate(const LinearArgs& args, const Visit& visit) {
    int num_algorithms = 0;
    const std::vector<cuda::GemmChoice> candidates = gemm_->Candidates(args).value();
    for (const cuda::GemmChoice& choice : candidates) {
      if (!gemm_->Run(args, choice, stream()).ok()) continue;
      const cuda::OwnGemm* own = cuda::FindOwnGemm(choice.kernel);
      visit(own != nullptr ? absl::StrCat(own->name, " ", own->variant_name(choice.variant))
                           : absl::StrCat("cublaslt ", num_algorithms++),
            choice);
    }
  }
  void Compute(const LinearArgs& args, const cuda::GemmChoice& choice) {
    CHECK(gemm_->Run(args, choice, stream()).ok());
  }
  void Read(const LinearWeight& weight) {
    cuda::EnqueueRead(*stream_, weight.data, weight.out_features * weight.in_features * 2,
                      sink_.as<uint32_t>());
  }

  // Microseconds of one call of each, when enqueue(i) has been captured for i in [0, num_calls).
  std::vector<double> MedianUs(int num_calls, std::vector<std::function<void(int)>> contenders) {
    std::vector<std::unique_ptr<ExecGraph>> graphs;
    for (const auto& enqueue : contenders) {
      enqueue(0);  // what is decided or loaded on the first call
      stream_->BeginCapture();
      for (int i = 0; i < num_calls; ++i) enqueue(i);
      graphs.push_back(stream_->EndCapture().value());
    }
    std::vector<std::vector<double>> times(graphs.size());
    constexpr int kReplays = 7;
    for (int replay = -1; replay < kReplays; ++replay) {
      for (size_t i = 0; i < graphs.size(); ++i) {
        stream_->Record(*begin_);
        stream_->Launch(*graphs[i]);
        stream_->Record(*end_);
        const absl::Status status = stream_->Synchronize();
        CHECK(status.ok()) << status;
        if (replay >= 0) times[i].push_back(end_->MicrosecondsSince(*begin_) / num_calls);
      }
    }
    std::vector<double> medians;
    for (auto& list : times) {
      std::sort(list.begin(), list.end());
      medians.push_back(list[list.size() / 2]);
    }
    return medians;
  }

 private:
  std::unique_ptr<cuda::CudaDevice> device_;
  std::unique_ptr<cuda::CudaOps> ops_;
  std::unique_ptr<cuda::Gemm> gemm_;
  cuda::CudaWeightStore weight_store_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_, end_;
  DeviceBuffer sink_;
  std::vector<DeviceBuffer> buffers_;
  cuda::GemmChoices defaults_;
};

// The weights of all layers, and of an LM head.
struct Weights {
  std::map<std::string, std::vector<LinearWeight>> by_name;

  Weights(Bench& bench, const Model& m) {
    for (int i = 0; i < m.num_layers; ++i) {
      by_name["qkv"].push_back(bench.Random(m.qkv, m.hidden));
      by_name["o"].push_back(bench.Random(m.hidden, m.q));
      by_name["gate_up"].push_back(bench.Random(2 * m.intermediate, m.hidden));
      by_name["down"].push_back(bench.Random(m.hidden, m.intermediate));
    }
    for (int i = 0; i < 2; ++i) by_name["lm_head"].push_back(bench.Random(m.vocab, m.hidden));
  }

  std::vector<LinearGroup> Groups(int64_t max_num_rows) const {
    std::vector<LinearGroup> groups;
    for (const auto& [name, weights] : by_name) {
      LinearGroup group = {.max_num_rows = max_num_rows};
      if (name == "lm_head") group.out_dtype = DType::kF32;
      group.gated = name == "gate_up";
      for (const LinearWeight& weight : weights) group.weights.push_back(&weight);
      groups.push_back(group);
    }
    return groups;
  }
};

// The calls of one shape: x and its result stay, the weights take turns.
struct ShapeCalls {
  const std::vector<LinearWeight>* weights;
  Tensor x, out;
  int64_t bytes;  // of a weight
  int num_calls;

  ShapeCalls(Bench& bench, const std::string& name, const std::vector<LinearWeight>& list,
             int64_t rows)
      : weights(&list),
        x(bench.Activations(rows, list[0].in_features)),
        out(bench.Activations(rows, list[0].out_features,
                              name == "lm_head" ? DType::kF32 : DType::kBF16)),
        bytes(list[0].out_features * list[0].in_features * 2),
        num_calls(std::max(
            4, std::min(static_cast<int>(list.size()), static_cast<int>(kColdBytes / bytes) + 1))) {
  }

  const LinearWeight& Weight(int i) const { return (*weights)[i % weights->size()]; }
  LinearArgs Args(int i) const { return {.x = x, .weight = &Weight(i), .out = out}; }
};

void BenchShapes(Bench& bench, const Model& model, const Weights& weights, int64_t rows) {
  for (const auto& [name, list] : weights.by_name) {
    const ShapeCalls calls(bench, name, list, rows);
    const std::vector<double> us =
        bench.MedianUs(calls.num_calls, {[&](int i) { bench.Read(calls.Weight(i)); },
                                         [&](int i) { bench.Default(calls.Args(i)); },
                                         [&](int i) { bench.Tuned(calls.Args(i)); }});
    std::printf("%-5s %-8s %4lld rows %9.2f us %6.3f TB/s %7.1f TFLOP/s  read %.3f  default %.3f\n",
                model.name, name.c_str(), static_cast<long long>(rows), us[2],
                calls.bytes / us[2] / 1e6, 1e-6 * calls.bytes * rows / us[2], us[0] / us[2],
                us[1] / us[2]);
  }
}

// Every candidate of each shape.
void BenchCandidates(Bench& bench, const Model& model, const Weights& weights, int64_t rows) {
  for (const auto& [name, list] : weights.by_name) {
    const ShapeCalls calls(bench, name, list, rows);
    bench.ForEachCandidate(
        calls.Args(0), [&](const std::string& candidate, const cuda::GemmChoice& choice) {
          const std::vector<double> us = bench.MedianUs(
              calls.num_calls, {[&](int i) { bench.Read(calls.Weight(i)); },
                                [&](int i) { bench.Compute(calls.Args(i), choice); }});
          std::printf("%-5s %-8s %4lld rows %-14s %9.2f us  read %.3f\n", model.name, name.c_str(),
                      static_cast<long long>(rows), candidate.c_str(), us[1], us[0] / us[1]);
        });
  }
}

// All layers of a step but rope and attention: norm, qkv, o, norm, gate and up with SiLU, down.
void BenchLayers(Bench& bench, const Model& m, const Weights& weights, int64_t rows) {
  const Tensor hidden = bench.Activations(rows, m.hidden);
  const Tensor residual = bench.Activations(rows, m.hidden);
  const Tensor qkv = bench.Activations(rows, m.qkv);
  const Tensor gate_up = bench.Activations(rows, 2 * m.intermediate);
  const Tensor mlp = bench.Activations(rows, m.intermediate);
  const Tensor norm(bench.Random(1, m.hidden).data, DType::kBF16, {m.hidden});
  const Tensor q = Tensor(qkv.data(), DType::kBF16, {rows, m.q}).WithRowStride(m.qkv);
  const auto layer = [&](int i, const auto& compute) {
    const auto group = [&](const char* name, const Tensor& x, const Tensor& out) {
      compute(LinearArgs{.x = x, .weight = &weights.by_name.at(name)[i], .out = out});
    };
    const auto normalize = [&] {
      bench.ops().RmsNorm(
          bench.stream(),
          {.x = hidden, .residual = residual, .weight = norm, .eps = 1e-6f, .out = hidden});
    };
    normalize();
    group("qkv", hidden, qkv);
    group("o", q, hidden);
    normalize();
    compute(GatedLinearArgs{
        .x = hidden, .weight = &weights.by_name.at("gate_up")[i], .gate_up = gate_up, .out = mlp});
    group("down", mlp, hidden);
  };
  const auto read = [&](int i) {
    for (const char* name : {"qkv", "o", "gate_up", "down"}) {
      bench.Read(weights.by_name.at(name)[i]);
    }
  };
  const auto us = bench.MedianUs(
      m.num_layers, {read, [&](int i) { layer(i, [&](const auto& args) { bench.Default(args); }); },
                     [&](int i) { layer(i, [&](const auto& args) { bench.Tuned(args); }); }});
  std::printf("%-5s layer    %4lld rows %9.2f us  read %.3f  default %.3f\n", m.name,
              static_cast<long long>(rows), us[2], us[0] / us[2], us[1] / us[2]);
}

double CeilingTBs(Bench& bench) {
  const LinearWeight large = bench.Random(1 << 16, 1 << 14);  // 2 GiB
  return 2.147483648e3 / bench.MedianUs(2, {[&](int) { bench.Read(large); }})[0];
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (!quire::CudaAvailable()) {
    std::puts("no CUDA device");
    return 77;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  setenv("QUIRE_CACHE_DIR", "", /*overwrite=*/0);
  std::vector<int64_t> rows;
  const bool candidates = argc > 1 && std::string(argv[1]) == "--candidates";
  for (int i = candidates ? 2 : 1; i < argc; ++i) rows.push_back(std::atoll(argv[i]));
  if (rows.empty()) rows = {1, 2, 4, 8, 16, 64, 256};
  std::puts("read: time of a kernel that reads the weights / time; default: cuBLASLt's / time");
  for (const quire::Model& model : quire::kModels) {
    quire::Bench bench;
    std::printf("read ceiling, 2 GiB: %.3f TB/s\n", quire::CeilingTBs(bench));
    const quire::Weights weights(bench, model);
    if (candidates) {
      for (const int64_t num_rows : rows) quire::BenchCandidates(bench, model, weights, num_rows);
      continue;
    }
    bench.Tune(weights.Groups(*std::max_element(rows.begin(), rows.end())));
    for (const int64_t num_rows : rows) {
      quire::BenchShapes(bench, model, weights, num_rows);
      quire::BenchLayers(bench, model, weights, num_rows);
    }
  }
  return 0;
}
