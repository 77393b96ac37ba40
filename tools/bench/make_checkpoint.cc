// quire-bench make-checkpoint: a folder like one from Hugging Face, of a well-known model's shape
// and with random weights, to measure loading with.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "tools/bench/checkpoint_writer.h"
#include "tools/bench/commands.h"
#include "tools/bench/model_shapes.h"

namespace quire::bench {

namespace {

struct MakeCheckpointFlags {
  std::string shape;
  std::string config_file;  // in place of a shape
  std::string folder;
  CheckpointOptions options;
};

constexpr char kGenerationConfig[] = "{\"do_sample\": false}\n";

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (file.flush()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
}

absl::StatusOr<std::string> ConfigJson(const MakeCheckpointFlags& flags) {
  if (!flags.shape.empty()) {
    ASSIGN_OR_RETURN(const ModelShape shape, FindModelShape(flags.shape));
    return shape.config_json;
  }
  std::ifstream file(flags.config_file);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty()) return absl::NotFoundError(absl::StrCat("cannot read ", flags.config_file));
  return text;
}

// The folder with everything but the weights.
absl::Status PrepareFolder(const MakeCheckpointFlags& flags) {
  namespace fs = std::filesystem;
  ASSIGN_OR_RETURN(const std::string config_json, ConfigJson(flags));
  std::error_code error;
  fs::create_directories(flags.folder, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(flags.folder, ": ", error.message()));
  }
  if (!fs::is_empty(flags.folder, error) || error) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.folder, " is not an empty folder; give one that is, or a new one"));
  }
  RETURN_IF_ERROR(WriteText(flags.folder + "/config.json", config_json));
  return WriteText(flags.folder + "/generation_config.json", kGenerationConfig);
}

int MakeCheckpoint(const MakeCheckpointFlags& flags) {
  if (const absl::Status status = PrepareFolder(flags); !status.ok()) {
    return Fail(std::string(status.message()));
  }
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<CheckpointSize> size = WriteRandomCheckpoint(flags.folder, flags.options);
  if (!size.ok()) return Fail(std::string(size.status().message()));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s: %lld tensors, %lld files, %.2f GB, written in %.1f s\n", flags.folder.c_str(),
              static_cast<long long>(size->num_tensors), static_cast<long long>(size->num_files),
              static_cast<double>(size->size_bytes) / 1e9, seconds);
  return 0;
}

}  // namespace

Command AddMakeCheckpoint(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "make-checkpoint",
      "Write a model of random weights in Hugging Face's format, without a tokenizer");
  const auto flags = std::make_shared<MakeCheckpointFlags>();
  auto* source = command->add_option_group("source")->require_option(1);
  source->add_option("--shape", flags->shape, "Which well-known model's shape")
      ->check(CLI::IsMember(ModelShapeNames()));
  source->add_option("--config", flags->config_file, "config.json of any model")
      ->check(CLI::ExistingFile);
  command->add_option("folder", flags->folder, "Empty or new folder to write to")->required();
  command->add_option("--seed", flags->options.seed)->capture_default_str();
  command->add_option("--max-shard-bytes", flags->options.max_shard_bytes, "Most data of one file")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--num-threads", flags->options.num_threads, "0: one per core")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  return [flags] { return MakeCheckpoint(*flags); };
}

}  // namespace quire::bench
