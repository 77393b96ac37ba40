#include "kernels/cuda/gemm/tuning_cache.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/gemm/own_gemms.h"

namespace quire::cuda {

namespace {

constexpr absl::string_view kFormat = "quire gemms 3";
constexpr int64_t kMaxFileBytes = int64_t{4} << 20;

// FNV-1a.
uint64_t Checksum(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

std::string ChecksumLine(absl::string_view text) {
  return absl::StrFormat("checksum %016x\n", Checksum(text));
}

// A dtype, and behind it the format of a quantized weight and whether x is Float8Rows: "bfloat16",
// "bfloat16/3.0.128.1.0.0.0".
std::string FormatType(const GemmKey& key) {
  std::string text(DTypeName(key.dtype));
  const WeightFormat& f = key.format;
  if (!f.quantized()) return text;
  return absl::StrCat(text, "/", static_cast<int>(f.value), ".", static_cast<int>(f.scale), ".",
                      f.group_columns, ".", f.zero_points ? 1 : 0, ".", f.ordered ? 1 : 0, ".",
                      static_cast<int>(key.activations.value), ".",
                      key.x_dtype == DType::kF8E4M3 ? 1 : 0);
}

bool ParseType(absl::string_view text, GemmKey* key) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
  const auto dtype = ParseDType(std::string(parts[0]));
  if (!dtype.has_value()) return false;
  key->dtype = key->x_dtype = *dtype;
  if (parts.size() == 1) return true;
  const std::vector<absl::string_view> words = absl::StrSplit(parts[1], '.');
  std::array<int, 7> numbers{};
  if (words.size() != numbers.size()) return false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!absl::SimpleAtoi(words[i], &numbers[i]) || numbers[i] < 0) return false;
  }
  key->format = {.value = static_cast<WeightValue>(numbers[0]),
                 .scale = static_cast<ScaleValue>(numbers[1]),
                 .group_columns = numbers[2],
                 .zero_points = numbers[3] != 0,
                 .ordered = numbers[4] != 0};
  key->activations.value = static_cast<ActivationValue>(numbers[5]);
  if (numbers[6] != 0) key->x_dtype = DType::kF8E4M3;
  return true;
}

std::string FormatGemm(const GemmKey& key, const GemmChoice& choice) {
  std::string line =
      absl::StrCat(key.num_rows, " ", key.out_features, " ", key.in_features, " ", FormatType(key),
                   " ", DTypeName(key.out_dtype), " ", key.fused_bias ? 1 : 0, " ", key.x_alignment,
                   " ", key.weight_alignment, " ", key.out_alignment);
  if (const OwnGemm* gemm = FindOwnGemm(choice.kernel); gemm != nullptr) {
    return absl::StrCat(line, " ", gemm->name, " ", gemm->variant_name(choice.variant), "\n");
  }
  absl::StrAppend(&line, " cublaslt");
  for (const uint64_t word : choice.algorithm) absl::StrAppendFormat(&line, " %016x", word);
  return line + "\n";
}

bool ParseChoice(const std::vector<absl::string_view>& words, GemmChoice* choice) {
  for (const OwnGemm& gemm : OwnGemms()) {
    if (words.size() != 2 || words[0] != gemm.name) continue;
    choice->kernel = gemm.kernel;
    choice->variant = gemm.find_variant(words[1]);
    return choice->variant >= 0;
  }
  if (words.size() != 1 + choice->algorithm.size() || words[0] != "cublaslt") return false;
  return std::equal(
      words.begin() + 1, words.end(), choice->algorithm.begin(),
      [](absl::string_view word, uint64_t& value) { return absl::SimpleHexAtoi(word, &value); });
}

bool ParseGemm(absl::string_view line, GemmKey* key, GemmChoice* choice) {
  constexpr size_t kKeyWords = 9;
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() < kKeyWords) return false;
  const auto out_dtype = ParseDType(std::string(words[4]));
  int fused_bias = 0;
  if (!ParseType(words[3], key) || !out_dtype.has_value() ||
      !absl::SimpleAtoi(words[0], &key->num_rows) ||
      !absl::SimpleAtoi(words[1], &key->out_features) ||
      !absl::SimpleAtoi(words[2], &key->in_features) || !absl::SimpleAtoi(words[5], &fused_bias) ||
      !absl::SimpleAtoi(words[6], &key->x_alignment) ||
      !absl::SimpleAtoi(words[7], &key->weight_alignment) ||
      !absl::SimpleAtoi(words[8], &key->out_alignment)) {
    return false;
  }
  key->out_dtype = *out_dtype;
  key->fused_bias = fused_bias != 0;
  return ParseChoice({words.begin() + kKeyWords, words.end()}, choice);
}

const char* NonEmpty(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

std::string MachineName(absl::string_view device, int driver_version, size_t cublaslt_version) {
  return absl::StrCat(device, ", driver ", driver_version, ", cuBLASLt ", cublaslt_version);
}

std::string DefaultCacheFolder() {
  if (const char* folder = std::getenv("QUIRE_CACHE_DIR")) return folder;
  if (const char* cache = NonEmpty("XDG_CACHE_HOME")) return absl::StrCat(cache, "/quire");
  if (const char* home = NonEmpty("HOME")) return absl::StrCat(home, "/.cache/quire");
  return "";
}

std::string TuningCachePath(const std::string& folder, const std::string& machine) {
  std::string name = machine;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  }
  return absl::StrCat(folder, "/gemms-", name, ".txt");
}

std::string FormatChoices(const std::string& machine, const GemmChoices& choices) {
  std::vector<std::string> lines;
  for (const auto& [key, choice] : choices) lines.push_back(FormatGemm(key, choice));
  std::sort(lines.begin(), lines.end());
  std::string text = absl::StrCat(kFormat, "\n", machine, "\n");
  for (const std::string& line : lines) text += line;
  return text + ChecksumLine(text);
}

absl::StatusOr<GemmChoices> ParseChoices(absl::string_view text, const std::string& machine) {
  const std::string expected = absl::StrCat(kFormat, "\n", machine, "\n");
  if (!absl::StartsWith(text, absl::StrCat(kFormat, "\n"))) {
    return absl::DataLossError(absl::StrCat("does not begin with \"", kFormat, "\""));
  }
  if (!absl::StartsWith(text, expected)) {
    return absl::FailedPreconditionError(absl::StrCat("was not measured on ", machine));
  }
  const size_t end = text.rfind("checksum ");
  if (end == absl::string_view::npos || text.substr(end) != ChecksumLine(text.substr(0, end))) {
    return absl::DataLossError("its checksum does not match its contents");
  }
  GemmChoices choices;
  const absl::string_view gemms = text.substr(expected.size(), end - expected.size());
  for (const absl::string_view line : absl::StrSplit(gemms, '\n', absl::SkipEmpty())) {
    GemmKey key{};
    GemmChoice choice;
    // A variant that this build does not have: measured again.
    if (ParseGemm(line, &key, &choice)) choices.emplace(key, choice);
  }
  return choices;
}

absl::StatusOr<GemmChoices> ReadChoices(const std::string& path, const std::string& machine) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) return absl::NotFoundError(path);
  if (error) return absl::UnavailableError(error.message());
  if (size > kMaxFileBytes) return absl::DataLossError(absl::StrCat("has ", size, " bytes"));
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return absl::UnavailableError("cannot be read");
  return ParseChoices(text.str(), machine);
}

absl::Status WriteChoices(const std::string& path, const std::string& machine,
                          const GemmChoices& choices) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return absl::UnavailableError(error.message());
  const std::string unfinished = absl::StrCat(path, ".", getpid());
  {
    std::ofstream file(unfinished, std::ios::binary);
    file << FormatChoices(machine, choices);
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(unfinished, path, error);
  if (!error) return absl::OkStatus();
  std::error_code ignored;
  std::filesystem::remove(unfinished, ignored);
  return absl::UnavailableError(error.message());
}

}  // namespace quire::cuda
