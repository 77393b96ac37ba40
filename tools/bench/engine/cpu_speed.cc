// Speed of the engine on the CPU beside what bounds it, measured in turns in the same run: single
// decode against the memory's read bandwidth, a prompt of 512 against oneDNN's gemms of the same
// matrices, 16 sequences against one and against the rate of those gemms, and, if its command is
// given, all against another program.
//   cpu_speed [--rounds 7] [--peer "llama-bench -m MODEL.gguf"] [quire-server's flags, as
//   --num-threads]
// For a processor with less: --cpu-isa avx2, and ONEDNN_MAX_CPU_ISA=AVX2 in the environment.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "kernels/memory_probe.h"
#include "nlohmann/json.hpp"
#include "tools/bench/engine/engine_run.h"
#include "tools/bench/onednn_gemm.h"
#include "tools/bench/statistics.h"

namespace quire::bench {
namespace {

constexpr int64_t kPromptLen = 512;
constexpr int64_t kBatch = 16;
constexpr int64_t kDecodePromptLen = 16;
constexpr int64_t kDecodeLen = 33;
constexpr int kNumWarmUps = 2;
constexpr int kNumDecodeComparisons = 3;  // per round

double SecondsOf(const std::function<void()>& work) {
  const absl::Time start = MonotonicNow();
  work();
  return absl::ToDoubleSeconds(MonotonicNow() - start);
}

// Reads a gigabyte, with one thread and with all.
class ReadProbe {
 public:
  static absl::StatusOr<ReadProbe> Make(BackendOptions options) {
    ReadProbe probe;
    for (int num_threads : {1, options.num_threads}) {
      options.num_threads = num_threads;
      Reader& reader = probe.readers_.emplace_back();
      ASSIGN_OR_RETURN(reader.backend, OpenBackend(options));
      ASSIGN_OR_RETURN(reader.stream, reader.backend->device().CreateStream());
      ASSIGN_OR_RETURN(reader.data, reader.backend->device().Allocate(kBytes + 64));
      std::fill_n(reader.data.as<char>(), kBytes, 1);
    }
    return probe;
  }

  // The better of the two, bytes per second. Memory that was not read for some seconds is read at
  // half its rate once, on a virtual machine at least.
  double BytesPerSecond() {
    double best = 0;
    for (Reader& reader : readers_) {
      const auto read = [&] {
        EnqueueRead(*reader.backend, *reader.stream, reader.data.data(), kBytes,
                    reinterpret_cast<uint32_t*>(reader.data.as<char>() + kBytes));
        CHECK(reader.stream->Synchronize().ok());
      };
      read();
      best = std::max(best, static_cast<double>(kBytes) / SecondsOf(read));
    }
    return best;
  }

 private:
  static constexpr int64_t kBytes = int64_t{1} << 30;
  struct Reader {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Stream> stream;
    DeviceBuffer data;
  };
  std::vector<Reader> readers_;
};

// The gemms of a prompt's matrices by oneDNN: every layer's, and the last row's logits.
class PromptGemms {
 public:
  PromptGemms(const ModelConfig& model, DType dtype) {
    const LayerConfig& layer = model.layers.front();  // models to compare have them all alike
    const int64_t q = int64_t{layer.gqa.num_q_heads} * layer.gqa.head_dim;
    const int64_t kv = int64_t{layer.gqa.num_kv_heads} * layer.gqa.head_dim;
    const int64_t hidden = model.hidden_size, mlp = layer.intermediate_size;
    num_layers_ = static_cast<int>(model.layers.size());
    for (const auto& [n, k] :
         {std::array{q + 2 * kv, hidden}, {hidden, q}, {2 * mlp, hidden}, {hidden, mlp}}) {
      layer_.emplace_back(dtype, kPromptLen, n, k, num_layers_);
      num_layer_weights_ += n * k;
    }
    head_ = std::make_unique<OneDnnGemm>(dtype, 1, model.vocab_size, hidden, 1);
  }

  // Multiply-adds of all layers for a prompt, against those of a decode step with its logits.
  double PromptsPerStep(const ModelConfig& model, int64_t num_seqs) const {
    const int64_t layers = num_layers_ * num_layer_weights_;
    const int64_t head = int64_t{model.vocab_size} * model.hidden_size;
    return static_cast<double>(num_seqs * (layers + head)) /
           static_cast<double>(kPromptLen * layers);
  }

  double Seconds() {
    const double seconds = SecondsOf([&] {
      for (int i = 0; i < num_layers_; ++i) {
        for (OneDnnGemm& gemm : layer_) gemm.Run();
      }
      head_->Run();
    });
    // oneDNN's threads spin for a while before they sleep; what is measured next is not to feel it.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return seconds;
  }

 private:
  int num_layers_;
  int64_t num_layer_weights_ = 0;
  std::vector<OneDnnGemm> layer_;
  std::unique_ptr<OneDnnGemm> head_;
};

// Runs the other program once, for a prompt or for decoding; llama-bench's options and JSON.
// Returns tokens per second.
absl::StatusOr<double> RunPeer(const std::string& command, int num_threads, int64_t input_len,
                               int64_t output_len) {
  const std::string line = absl::StrCat(command, " -t ", num_threads, " -p ", input_len, " -n ",
                                        output_len, " -r 2 -o json 2>/dev/null");
  FILE* pipe = popen(line.c_str(), "r");  // NOLINT(bugprone-command-processor): what the user typed
  if (pipe == nullptr) return absl::UnavailableError(absl::StrCat("cannot run ", line));
  std::string text;
  std::array<char, 4096> piece;
  for (size_t size; (size = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;) {
    text.append(piece.data(), size);
  }
  const int code = pclose(pipe);
  const auto json = ParseJson(text);
  if (code != 0 || !json.is_array() || json.size() != 1) {
    return absl::UnavailableError(absl::StrCat(line, " failed"));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // until its memory is given back
  return json[0].value("avg_ts", 0.0);
}

class Measurement {
 public:
  Measurement(Engine& engine, ReadProbe probe, int num_threads, std::string peer)
      : engine_(engine),
        probe_(std::move(probe)),
        num_threads_(num_threads),
        peer_(std::move(peer)),
        onednn_dtype_(OneDnnGemm::Closest(DType::kBF16)),
        gemms_(engine.model_info().config, onednn_dtype_) {}

  absl::Status Round() {
    const double bytes_per_s = probe_.BytesPerSecond();
    ASSIGN_OR_RETURN(const double decode, DecodeRate(1));
    const double gemms_s = gemms_.Seconds();
    ASSIGN_OR_RETURN(const double prefill, PrefillRate());
    ASSIGN_OR_RETURN(const double batch, DecodeRate(kBatch));
    const double decode_limit =
        bytes_per_s / static_cast<double>(engine_.model_info().matrix_bytes);
    const double prefill_limit = kPromptLen / gemms_s;
    Add("decode, 1 sequence, tokens/s", decode);
    Add("  share of DRAM read", decode / decode_limit);
    Add("  DRAM read, GB/s", bytes_per_s * 1e-9);
    Add("  weights, GB", static_cast<double>(engine_.model_info().matrix_bytes) * 1e-9);
    Add("decode, 16 sequences, tokens/s", batch);
    Add("  times 1 sequence", batch / decode);
    const ModelConfig& model = engine_.model_info().config;
    Add(absl::StrCat("  share of oneDNN ", DTypeName(onednn_dtype_), "'s rate"),
        batch * gemms_.PromptsPerStep(model, kBatch) * gemms_s / kBatch);
    Add("prefill of 512, tokens/s", prefill);
    Add(absl::StrCat("  share of oneDNN ", DTypeName(onednn_dtype_)), prefill / prefill_limit);
    return peer_.empty() ? absl::OkStatus() : ComparePeer(prefill);
  }

  void Forget() { rows_.clear(); }

  void Print() const {
    std::printf("%-34s %9s %9s %9s\n", "", "median", "least", "most");
    for (const auto& [name, values] : rows_) {
      const Summary summary = Summarize(values);
      std::printf("%-34s %9.2f %9.2f %9.2f\n", name.c_str(), summary.p50, summary.min, summary.max);
    }
  }

 private:
  absl::Status ComparePeer(double prefill) {
    ASSIGN_OR_RETURN(const double peer_prefill, RunPeer(peer_, num_threads_, kPromptLen, 0));
    Add("peer: prefill, tokens/s", peer_prefill);
    Add("  prefill, times the peer", prefill / peer_prefill);
    // Decode before and after the peer's, several times: what the memory gives changes within
    // seconds where others use it too.
    for (int i = 0; i < kNumDecodeComparisons; ++i) {
      ASSIGN_OR_RETURN(const double before, DecodeRate(1));
      ASSIGN_OR_RETURN(const double peer_decode, RunPeer(peer_, num_threads_, 0, kDecodeLen - 1));
      ASSIGN_OR_RETURN(const double after, DecodeRate(1));
      Add("peer: decode, tokens/s", peer_decode);
      Add("  decode, times the peer", (before + after) / 2 / peer_decode);
    }
    return absl::OkStatus();
  }

  void Add(const std::string& name, double value) {
    const auto found = std::find_if(rows_.begin(), rows_.end(),
                                    [&](const auto& row) { return row.first == name; });
    if (found != rows_.end()) {
      found->second.push_back(value);
    } else {
      rows_.push_back({name, {value}});
    }
  }

  // Prompts differ from call to call, so that none is found in the prefix cache.
  absl::StatusOr<std::vector<EngineRequestTimes>> Run(int64_t num_prompts, int64_t input_len,
                                                      int64_t output_len) {
    const ModelInfo& model = engine_.model_info();
    ASSIGN_OR_RETURN(const std::vector<WorkItem> items,
                     MakeWorkload({.num_prompts = num_prompts,
                                   .input_len = input_len,
                                   .output_len = output_len,
                                   .shared_prefix_len = 0,
                                   .file = "",
                                   .seed = ++num_runs_},
                                  model.config.vocab_size, model.max_model_len));
    return RunItems(engine_, items);
  }

  absl::StatusOr<double> DecodeRate(int64_t num_seqs) {
    ASSIGN_OR_RETURN(const auto times, Run(num_seqs, kDecodePromptLen, kDecodeLen));
    return 1e3 * static_cast<double>(num_seqs) / Summarize(times[0].itl_ms).p50;
  }

  absl::StatusOr<double> PrefillRate() {
    ASSIGN_OR_RETURN(const auto times, Run(1, kPromptLen, 1));
    return 1e3 * kPromptLen / times[0].first_token_ms;
  }

  Engine& engine_;
  ReadProbe probe_;
  const int num_threads_;
  const std::string peer_;
  const DType onednn_dtype_;
  PromptGemms gemms_;
  uint64_t num_runs_ = 0;
  std::vector<std::pair<std::string, std::vector<double>>> rows_;
};

absl::Status Measure(const EngineFlags& flags, int num_rounds, const std::string& peer) {
  ASSIGN_OR_RETURN(BenchEngineConfig bench, MakeEngineConfig(flags, nullptr));
  bench.config.device = DeviceKind::kCpu;
  bench.config.max_model_len = 1024;
  // A cache that is soon used everywhere, as a server's is after a while: memory that the system
  // has to hand out first is slow once.
  bench.config.kv_cache_memory_bytes = int64_t{192} << 20;
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Open(bench.config));
  for (const LayerConfig& layer : engine->model_info().config.layers) {
    if (layer.mlp == MlpKind::kGated && layer.attention == AttentionKind::kGqa) continue;
    return absl::InvalidArgumentError(
        "oneDNN has no gemms of experts or recurrent layers to compare with: name another model");
  }
  BackendOptions options = bench.config.backend_options();
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, OpenBackend(options));
  options.num_threads = backend->device().info().num_threads;
  ASSIGN_OR_RETURN(ReadProbe probe, ReadProbe::Make(options));
  Measurement measurement(*engine, std::move(probe), options.num_threads, peer);
  for (int i = -kNumWarmUps; i < num_rounds; ++i) {
    if (i == 0) measurement.Forget();
    RETURN_IF_ERROR(measurement.Round());
  }
  std::printf("%s, %d threads, %s, %d rounds\n", engine->model_info().device_name.c_str(),
              options.num_threads, flags.shape.c_str(), num_rounds);
  measurement.Print();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("The engine on the CPU beside what bounds it; further flags are quire-server's.");
  EngineFlags flags = {.shape = "qwen3-0.6b", .weights_seed = std::nullopt, .command = nullptr};
  int num_rounds = 7;
  std::string peer;
  app.add_option("--rounds", num_rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--peer", peer, "llama-bench with its -m; further options are added");
  AddEngineFlags(app, &flags);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Measure(flags, num_rounds, peer);
  if (status.ok()) return 0;
  std::fprintf(stderr, "cpu_speed: %s\n", std::string(status.message()).c_str());
  return 69;
}

}  // namespace
}  // namespace quire::bench

int main(int argc, char** argv) { return quire::bench::Main(argc, argv); }
