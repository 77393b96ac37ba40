// quire-bench make-checkpoint: a folder like one from Hugging Face, of a well-known model's shape
// and with random weights, to measure loading with.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/base/version.h"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine/checkpoint_tensors.h"
#include "tools/bench/engine/checkpoint_writer.h"
#include "tools/bench/engine/model_shapes.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/shown_progress.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

struct MakeCheckpointFlags {
  std::string shape;
  std::string config_file;  // in place of a shape
  std::string format;       // empty: bfloat16
  std::string folder;
  CheckpointOptions options;
};

constexpr char kGenerationConfig[] = "{\"do_sample\": false}\n";

namespace fs = std::filesystem;

absl::Status CannotWrite(const std::string& path, const std::string& why) {
  return WithExitCode(kUnavailable,
                      absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", why)));
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (file.flush()) return absl::OkStatus();
  return CannotWrite(path, std::strerror(errno));
}

absl::StatusOr<std::string> ConfigJson(const MakeCheckpointFlags& flags) {
  if (!flags.shape.empty()) return FindModelShape(flags.shape);
  std::ifstream file(flags.config_file);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty()) {
    return UsageError(
        absl::StrCat("--config: cannot read ", flags.config_file, ", or it is empty"));
  }
  return text;
}

// With the quantization_config of --format.
absl::StatusOr<std::string> WithFormat(const std::string& config_json,
                                       const MakeCheckpointFlags& flags) {
  if (flags.format.empty()) return config_json;
  auto config = ParseJson<nlohmann::ordered_json>(config_json);
  if (!config.is_object()) {
    return UsageError(absl::StrCat("--config: ", flags.config_file, " is not a JSON object"));
  }
  config.erase("quantization_config");
  const absl::StatusOr<ModelConfig> model = ParseModelConfig(config.dump());
  if (!model.ok()) return WithExitCode(kNoInput, model.status());
  config["quantization_config"] = QuantizationConfigOf(flags.format, *model);
  return config.dump(2) + "\n";
}

// "config.json, model.safetensors and 3 more".
std::string ListContents(const std::string& folder) {
  constexpr size_t kShown = 3;
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const size_t num_more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - num_more);
  return absl::StrCat(absl::StrJoin(names, ", "),
                      num_more > 0 ? absl::StrCat(" and ", num_more, " more") : "");
}

absl::Status CheckFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::OkStatus();
  if (!fs::is_directory(folder, error)) {
    return UsageError(absl::StrCat(folder, " is a file; give an empty folder or a new one"));
  }
  const std::string contents = ListContents(folder);
  if (contents.empty()) return absl::OkStatus();
  return UsageError(absl::StrCat(folder, " is not an empty folder (it has ", contents,
                                 "); give an empty folder or a new one"));
}

// Makes the folder of a checkpoint; the cleanup removes it, with the folders above it that were
// made for it. An empty folder that was there is left empty.
absl::StatusOr<std::unique_ptr<ExitCleanup>> MakeFolder(const std::string& path) {
  fs::path first_made;  // empty: the folder was there
  std::error_code error;
  for (fs::path part = fs::absolute(path, error).lexically_normal(); !fs::exists(part, error);
       part = part.parent_path()) {
    first_made = part;
  }
  auto cleanup = std::make_unique<ExitCleanup>([path, first_made] {
    std::error_code ignored;
    if (!first_made.empty()) {
      fs::remove_all(first_made, ignored);
      return;
    }
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
      fs::remove_all(entry.path(), ignored);
    }
  });
  fs::create_directories(path, error);
  if (error) return CannotWrite(path, error.message());
  return cleanup;
}

absl::Status CheckSpace(const std::string& folder, int64_t needed_bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || static_cast<int64_t>(space.available) >= needed_bytes) return absl::OkStatus();
  return CannotWrite(folder, absl::StrFormat("the model has %.2f GB, and %.2f GB are free there",
                                             static_cast<double>(needed_bytes) / 1e9,
                                             static_cast<double>(space.available) / 1e9));
}

absl::Status MakeCheckpoint(const MakeCheckpointFlags& flags) {
  ASSIGN_OR_RETURN(const std::string plain_json, ConfigJson(flags));
  ASSIGN_OR_RETURN(const std::string config_json, WithFormat(plain_json, flags));
  RETURN_IF_ERROR(CheckFolder(flags.folder));
  ASSIGN_OR_RETURN(const std::unique_ptr<ExitCleanup> removal, MakeFolder(flags.folder));
  RETURN_IF_ERROR(WriteText(flags.folder + "/config.json", config_json));
  RETURN_IF_ERROR(WriteText(flags.folder + "/generation_config.json", kGenerationConfig));
  const absl::StatusOr<int64_t> bytes = CheckpointBytes(flags.folder);
  if (!bytes.ok()) return WithExitCode(kNoInput, bytes.status());
  RETURN_IF_ERROR(CheckSpace(flags.folder, *bytes));
  std::printf("quire-bench make-checkpoint %s: %s, %.2f GB of random weights, seed %llu, to %s\n",
              kVersion, flags.shape.empty() ? flags.config_file.c_str() : flags.shape.c_str(),
              static_cast<double>(*bytes) / 1e9,
              static_cast<unsigned long long>(flags.options.seed), flags.folder.c_str());
  const auto start = std::chrono::steady_clock::now();
  CheckpointSize size;
  {
    ShownProgress progress;
    CheckpointOptions options = flags.options;
    options.progress = progress.get();
    const auto written = WriteRandomCheckpoint(flags.folder, options);
    if (!written.ok()) return WithExitCode(kUnavailable, written.status());
    size = *written;
  }
  removal->Keep();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s: %s, %s, %.2f GB, written in %.1f s\n", flags.folder.c_str(),
              Counted(size.num_tensors, "tensor").c_str(), Counted(size.num_files, "file").c_str(),
              static_cast<double>(size.size_bytes) / 1e9, seconds);
  return absl::OkStatus();
}

}  // namespace

Command AddMakeCheckpoint(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "make-checkpoint",
      "Write a model of random weights in Hugging Face's format, without a tokenizer");
  command->footer(
      "Examples:\n"
      "  quire-bench make-checkpoint --shape qwen3-0.6b FOLDER\n"
      "  quire-bench make-checkpoint --shape llama-3-8b --format awq FOLDER\n"
      "  quire-server --model FOLDER --skip-tokenizer-init");
  const auto flags = std::make_shared<MakeCheckpointFlags>();
  FlagGroup source(*command->add_option_group("source")->require_option(1));
  source.OneOf("--shape", &flags->shape, ModelShapeNames(), "Which well-known model's shape");
  source.Text("--config", &flags->config_file, "FILE", "config.json of any model")
      ->check(CLI::ExistingFile);
  FlagGroup add(*command);
  add.OneOf("--format", &flags->format, CheckpointFormatNames(),
            "Quantized, as that package writes it; default: bfloat16, or what --config says");
  add.Text("folder", &flags->folder, "FOLDER", "Empty or new folder to write to")->required();
  add.Seed("--seed", &flags->options.seed,
           "Of the weights; quire-server's --seed with --load-format dummy")
      ->capture_default_str();
  add.Count("--max-shard-bytes", &flags->options.max_shard_bytes, 1, int64_t{1} << 50,
            "Maximum of one file's data")
      ->capture_default_str();
  add.Count("--num-threads", &flags->options.num_threads, 0, 1 << 16, "0: one per core")
      ->capture_default_str();
  return [flags] { return Finish(MakeCheckpoint(*flags)); };
}

}  // namespace quire::bench
