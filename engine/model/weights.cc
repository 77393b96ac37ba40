#include "engine/model/weights.h"

#include <openssl/evp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/checkpoint/text_part.h"
#include "engine/model/weights/device_format.h"
#include "engine/model/weights/memory_carver.h"
#include "engine/model/weights/tensor_check.h"
#include "engine/model/weights/weight_plan.h"
#include "engine/model/weights/weight_reader.h"
#include "kernels/base/random_weight.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/host_limits.h"

namespace quire {
namespace {

using WeightBytes = std::function<int64_t(const LinearWeight&)>;
using FormatFor = std::function<LinearFormat(const LinearFormat&, DType, bool has_experts)>;

// The bytes of a weight as it lies in memory. Each expert begins at a new cache line.
int64_t BytesOf(const LinearWeight& weight, const WeightBytes& weight_bytes) {
  constexpr int64_t kLine = 128;
  if (weight.num_experts == 1) return weight_bytes(weight);
  return weight.num_experts * RoundUp(weight_bytes(weight.Expert(0)), kLine);
}

void LogOtherParts(const Checkpoint& checkpoint) {
  const std::string parts = ListOtherParts(checkpoint);
  if (parts.empty()) return;
  spdlog::info("the text part of the model is served; tensors of other parts are left unread: {}",
               parts);
}

std::string Sha256Hex(absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CHECK_EQ(EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr), 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), size));
}

}  // namespace

// One load: plans, checks the checkpoint, allocates, fills.
class WeightsLoader {
 public:
  WeightsLoader(Backend& backend, const ModelConfig& config, const std::string& folder,
                const WeightsOptions& options)
      : backend_(backend), config_(config), folder_(folder), options_(options) {}

  static absl::StatusOr<Weights::Sizes> SizesFor(const DeviceFacts& device,
                                                 const ModelConfig& config, DType dtype,
                                                 const Checkpoint* checkpoint) {
    Weights weights;
    Weights::Sizes sizes;
    ASSIGN_OR_RETURN(const WeightPlan plan, Plan(config, dtype, checkpoint, &weights));
    RETURN_IF_ERROR(SetFormats(plan, config, checkpoint, device.format_for, &sizes));
    MemoryCarver measure(nullptr);
    Carve(plan, device.weight_bytes, &measure);
    sizes.bytes = measure.size_bytes();
    sizes.num_parameters = weights.num_parameters_;
    sizes.by_format = BytesByFormat(plan, device.weight_bytes, sizes.bytes);
    return sizes;
  }

  static std::vector<FormatBytes> BytesByFormat(const WeightPlan& plan,
                                                const WeightBytes& weight_bytes,
                                                int64_t total_bytes) {
    std::vector<FormatBytes> by_format;
    FormatBytes rest = {"norms, biases and padding", total_bytes};
    for (const MatrixPlan& matrix : plan.matrices) {
      const LinearWeight& weight = *matrix.weight;
      const std::string format =
          weight.format.quantized() ? Describe(weight.format) : DTypeName(weight.dtype);
      const auto is_it = [&](const FormatBytes& other) { return other.format == format; };
      auto it = std::find_if(by_format.begin(), by_format.end(), is_it);
      if (it == by_format.end()) it = by_format.insert(it, {format});
      it->bytes += BytesOf(weight, weight_bytes);
      rest.bytes -= BytesOf(weight, weight_bytes);
    }
    by_format.push_back(rest);
    return by_format;
  }

  static absl::StatusOr<int64_t> CheckFiles(const ModelConfig& config, const std::string& folder) {
    Weights weights;
    ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(folder));
    ASSIGN_OR_RETURN(const WeightPlan plan, Plan(config, config.dtype, &checkpoint, &weights));
    RETURN_IF_ERROR(CheckTensors(plan, checkpoint));
    int64_t bytes = 0;
    for (const SafetensorsFile& file : checkpoint.files()) bytes += file.size_bytes();
    return bytes;
  }

  absl::StatusOr<Weights> Load() {
    if (options_.format == LoadFormat::kAuto) {
      ASSIGN_OR_RETURN(checkpoint_, Checkpoint::Open(folder_));
    }
    const Checkpoint* const checkpoint = checkpoint_ ? &*checkpoint_ : nullptr;
    ASSIGN_OR_RETURN(plan_, Plan(config_, options_.dtype, checkpoint, &weights_));
    RETURN_IF_ERROR(CheckRouterSkew());
    if (checkpoint != nullptr) {
      RETURN_IF_ERROR(CheckTensors(plan_, *checkpoint));
      LogOtherParts(*checkpoint);
    }
    const auto format_for = [&store = backend_.weight_store()](
                                const LinearFormat& format, DType activations, bool has_experts) {
      return store.FormatFor(format, activations, has_experts);
    };
    RETURN_IF_ERROR(SetFormats(plan_, config_, checkpoint, format_for, nullptr));
    RETURN_IF_ERROR(Allocate());
    ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend_.device().CreateStream());
    RETURN_IF_ERROR(FillVectors(*stream));
    RETURN_IF_ERROR(FillMatrices(*stream));
    RETURN_IF_ERROR(SealMatrices(*stream));
    RETURN_IF_ERROR(SetFingerprint());
    return std::move(weights_);
  }

 private:
  // Plans the weights of the checkpoint's tensors. Without a checkpoint (null), plans those of the
  // tensors that checkpoints of the family have.
  static absl::StatusOr<WeightPlan> Plan(const ModelConfig& config, DType dtype,
                                         const Checkpoint* checkpoint, Weights* weights) {
    TextPart part;
    if (checkpoint != nullptr) {
      ASSIGN_OR_RETURN(part, FindTextPart(*checkpoint));
    }
    WeightPlan plan = PlanWeights(config, part, weights->model_.get());
    if (checkpoint != nullptr) ChooseParts(*checkpoint, &plan);
    RETURN_IF_ERROR(SetSchemes(config.quantization, &plan));
    for (MatrixPlan& matrix : plan.matrices) {
      matrix.weight->dtype = dtype;
      weights->num_parameters_ +=
          matrix.weight->num_experts * matrix.weight->out_features * matrix.weight->in_features;
    }
    for (const VectorPlan& vector : plan.vectors) weights->num_parameters_ += vector.size;
    return plan;
  }

  // How the device keeps each matrix; adds those that it expands to `sizes`, which may be null.
  static absl::Status SetFormats(const WeightPlan& plan, const ModelConfig& config,
                                 const Checkpoint* checkpoint, const FormatFor& format_for,
                                 Weights::Sizes* sizes) {
    for (const MatrixPlan& matrix : plan.matrices) {
      const WeightScheme& scheme = matrix.scheme;
      LinearFormat format = DeviceFormatOf(matrix, config.load_quantization);
      ColumnOrder order;
      if (scheme.quantized() && checkpoint != nullptr) {
        ASSIGN_OR_RETURN(order, ReadOrder(matrix, *checkpoint));
        format.weight.ordered = !order.columns.empty();
      }
      const bool has_experts = matrix.weight->num_experts > 1;
      const LinearFormat kept =
          order.even ? format_for(format, matrix.weight->dtype, has_experts) : LinearFormat();
      matrix.weight->format = kept.weight;
      matrix.weight->activations = kept.activations;
      if (sizes == nullptr || !scheme.quantized() || kept.weight.quantized()) continue;
      (order.even ? sizes->expanded_for_gemms : sizes->expanded_for_order)
          .push_back(ModuleOf(matrix.parts[0]));
    }
    return absl::OkStatus();
  }

  // Vectors come first, so that one copy brings them all; returns their bytes.
  static int64_t Carve(const WeightPlan& plan, const WeightBytes& weight_bytes,
                       MemoryCarver* carver) {
    for (const VectorPlan& vector : plan.vectors) {
      *vector.tensor = carver->TakeTensor(DType::kF32, {vector.size});
    }
    for (const ScalesPlan& scales : plan.scales) {
      *scales.tensor = carver->TakeTensor(DType::kF32, {scales.size});
    }
    const int64_t vector_bytes = carver->size_bytes();
    for (const MatrixPlan& matrix : plan.matrices) {
      LinearWeight& weight = *matrix.weight;
      const int64_t bytes = BytesOf(weight, weight_bytes);
      weight.data = carver->Take(bytes);
      weight.expert_bytes = weight.num_experts > 1 ? bytes / weight.num_experts : 0;
    }
    return vector_bytes;
  }

  absl::Status Allocate() {
    const auto weight_bytes = [&store = backend_.weight_store()](const LinearWeight& weight) {
      return store.BytesOf(weight);
    };
    MemoryCarver measure(nullptr);
    Carve(plan_, weight_bytes, &measure);
    ASSIGN_OR_RETURN(weights_.memory_, backend_.device().Allocate(measure.size_bytes()));
    MemoryCarver carver(weights_.memory_.data());
    vector_bytes_ = Carve(plan_, weight_bytes, &carver);
    return absl::OkStatus();
  }

  absl::Status FillVectors(Stream& stream) {
    ASSIGN_OR_RETURN(const DeviceBuffer staging, backend_.device().AllocatePinned(vector_bytes_));
    MemoryCarver carver(staging.data());
    for (const VectorPlan& vector : plan_.vectors) {
      float* staged = carver.TakeTensor(DType::kF32, {vector.size}).as<float>();
      if (checkpoint_) {
        RETURN_IF_ERROR(ReadVector(vector, *checkpoint_, staged));
      } else {
        std::fill_n(staged, vector.size, vector.dummy_value);
      }
    }
    for (const ScalesPlan& scales : plan_.scales) {
      float* staged = carver.TakeTensor(DType::kF32, {scales.size}).as<float>();
      std::fill_n(staged, scales.size, 1.0f);
      if (checkpoint_) RETURN_IF_ERROR(ReadScales(scales, *checkpoint_, staged));
      absl::StrAppend(&scales_, "scales ", absl::StrJoin(staged, staged + scales.size, " "), "\n");
    }
    stream.CopyToDevice(weights_.memory_.data(), staging.data(), vector_bytes_);
    return stream.Synchronize();
  }

  absl::Status FillMatrices(Stream& stream) {
    if (checkpoint_) {
      const int num_threads = options_.num_threads > 0 ? options_.num_threads : NumUsableCpus();
      return ReadMatrices(plan_, *checkpoint_, num_threads, backend_.weight_store(),
                          options_.progress);
    }
    ProgressStage stage(options_.progress, "making random weights", weights_.size_bytes(),
                        ProgressUnit::kBytes);
    // Keeps the size of activations the same from layer to layer.
    for (size_t i = 0; i < plan_.matrices.size(); ++i) {
      const LinearWeight& weight = *plan_.matrices[i].weight;
      if (plan_.matrices[i].routes && options_.router_skew > 0) {
        RETURN_IF_ERROR(FillRouter(weight, i));
        stage.Add(weight.size_bytes());
        continue;
      }
      for (int64_t expert = 0; expert < weight.num_experts; ++expert) {
        backend_.weight_store().Fill(
            stream, weight.Expert(expert),
            {.seed = options_.seed,
             .tensor_id = DummyTensorId(i, expert),
             .stddev = 1.0f / std::sqrt(static_cast<float>(weight.in_features))});
      }
      RETURN_IF_ERROR(stream.Synchronize());  // so that progress is what has been made
      stage.Add(weight.size_bytes());
    }
    return absl::OkStatus();
  }

  absl::Status CheckRouterSkew() const {
    const auto& matrices = plan_.matrices;
    const bool has_router = std::any_of(matrices.begin(), matrices.end(),
                                        [](const MatrixPlan& matrix) { return matrix.routes; });
    if (options_.router_skew == 0 || (has_router && !checkpoint_)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--dummy-router-skew: has an effect on ",
                     has_router ? "random weights only (--load-format dummy)"
                                : "mixtures of experts only, and this model is none",
                     "; leave it out"));
  }

  // Rows as Fill makes them, times 1 to 1 + router_skew: an expert with a long row has scores far
  // from 0, so it is among the best of more tokens.
  absl::Status FillRouter(const LinearWeight& weight, int64_t matrix) {
    const int64_t columns = weight.in_features;
    ASSIGN_OR_RETURN(const std::unique_ptr<RowLoader> loader,
                     backend_.weight_store().CreateLoader(columns * sizeof(float)));
    const float scale = RandomWeightScale(1.0f / std::sqrt(static_cast<float>(columns)));
    for (int64_t row = 0; row < weight.out_features; ++row) {
      ASSIGN_OR_RETURN(void* const staging, loader->Staging());
      auto* const values = static_cast<float*>(staging);
      const uint64_t key = RandomRowKey(options_.seed, DummyTensorId(matrix, 0), row);
      const double share = static_cast<double>(Mix64(~key) >> 11) * 0x1p-53;  // of [0, 1)
      const auto length = static_cast<float>(1 + options_.router_skew * share);
      for (int64_t i = 0; i < columns; ++i) {
        values[i] = length * scale * static_cast<float>(RandomByteSum(key, i));
      }
      RETURN_IF_ERROR(loader->Load(weight, row, Tensor(values, DType::kF32, {1, columns})));
    }
    return loader->Finish();
  }

  absl::Status SealMatrices(Stream& stream) {
    std::vector<LinearWeight*> weights;
    weights.reserve(plan_.matrices.size());
    for (const MatrixPlan& matrix : plan_.matrices) weights.push_back(matrix.weight);
    backend_.weight_store().Seal(stream, weights, &weights_.memory_, options_.progress);
    RETURN_IF_ERROR(stream.Synchronize());
    ModelWeights& model = *weights_.model_;
    for (const MatrixPlan& matrix : plan_.matrices) {
      // A step reads only some rows of an embedding that is not the head.
      const bool is_head = matrix.weight == &model.embedding ? config_.tie_word_embeddings
                                                             : matrix.role == MatrixRole::kHead;
      if (matrix.role == MatrixRole::kEmbedding && !is_head) continue;
      const LinearWeight& weight = *matrix.weight;
      if (matrix.top_k > 0) {
        weights_.matrix_bytes_ += weight.size_bytes() / weight.num_experts * matrix.top_k;
        continue;
      }
      weights_.matrix_bytes_ += weight.size_bytes();
      if (is_head) continue;
      weights_.linears_.push_back({&weight, matrix.bias != nullptr ? *matrix.bias : Tensor(),
                                   matrix.gated, matrix.normed,
                                   matrix.float32_out ? DType::kF32 : weight.dtype});
    }
    if (config_.tie_word_embeddings) model.lm_head = model.embedding;
    return absl::OkStatus();
  }

  absl::Status SetFingerprint() {
    ASSIGN_OR_RETURN(const QuantizationTexts texts, ReadQuantizationTexts(folder_));
    std::string text = absl::StrCat("config ", texts.config, "\n");
    for (const std::string* more :
         {&texts.hf_quant_config, &texts.quantize_config, &texts.quant_config}) {
      if (!more->empty()) absl::StrAppend(&text, "quantization ", Sha256Hex(*more), "\n");
    }
    if (!checkpoint_) {
      absl::StrAppend(&text, "dummy ", options_.seed, " ", options_.router_skew);
    } else {
      for (const SafetensorsFile& file : checkpoint_->files()) {
        absl::StrAppend(&text, file.name(), " ", file.size_bytes(), "\n");
      }
    }
    for (const MatrixPlan& matrix : plan_.matrices) {
      if (!matrix.weight->format.quantized()) continue;
      absl::StrAppend(&text, matrix.parts[0].name, " ", Describe(matrix.weight->format), " ",
                      static_cast<int>(matrix.weight->activations.value), "\n");
    }
    weights_.fingerprint_ = Sha256Hex(text + scales_);
    return absl::OkStatus();
  }

  Backend& backend_;
  const ModelConfig& config_;
  const std::string& folder_;
  const WeightsOptions& options_;
  Weights weights_;
  WeightPlan plan_;  // points into weights_
  std::optional<Checkpoint> checkpoint_;
  int64_t vector_bytes_ = 0;
  std::string scales_;  // of the KV cache, as text
};

absl::StatusOr<Weights> Weights::Load(Backend& backend, const ModelConfig& config,
                                      const std::string& folder, const WeightsOptions& options) {
  return WeightsLoader(backend, config, folder, options).Load();
}

absl::StatusOr<Weights::Sizes> Weights::SizesFor(const DeviceFacts& device,
                                                 const ModelConfig& config, DType dtype,
                                                 const Checkpoint* checkpoint) {
  return WeightsLoader::SizesFor(device, config, dtype, checkpoint);
}

absl::StatusOr<int64_t> Weights::CheckFiles(const ModelConfig& config, const std::string& folder) {
  return WeightsLoader::CheckFiles(config, folder);
}

}  // namespace quire
