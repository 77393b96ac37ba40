// The weight files of a model folder: whatever the index and a whole safetensors file say, every
// tensor that the checkpoint shows can be read. Input: a byte, whose lowest bit tells whether the
// rest is model.safetensors or model.safetensors.index.json.
#include <filesystem>

#include "engine/checkpoint/checkpoint.h"
#include "kernels/base/check.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

constexpr char kHeader[] = R"({"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
constexpr char kData[] = "0123456789ab";

std::string OneFile() { return SafetensorsBytes(kHeader, kData); }

// A folder of two shards, made once, in which only the file under test changes.
const TempFolder& Folder() {
  static const TempFolder& folder = *[] {
    auto* made = new TempFolder;
    made->Write("model-1.safetensors", OneFile());
    made->Write(
        "model-2.safetensors",
        SafetensorsBytes(R"({"c":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", "cc"));
    return made;
  }();
  return folder;
}

void ReadEverything(const Checkpoint& checkpoint) {
  for (const auto& [name, entry] : checkpoint.entries()) {
    CHECK(checkpoint.Find(name) != nullptr);
    CHECK_EQ(entry.tensor->name, name);
    CHECK_LE(entry.tensor->end, entry.file->size_bytes());
    std::string bytes(entry.tensor->end - entry.tensor->begin, '\0');
    const absl::Status read = entry.file->Read(*entry.tensor, 0, bytes.size(), bytes.data());
    CHECK(read.ok()) << read;
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string file(1, '\1');
  const std::string index(1, '\0');
  return {
      file + OneFile(),
      file + SafetensorsBytes("{}", ""),
      index + R"({"metadata":{"total_size":14},"weight_map":{"a":"model-1.safetensors",)"
              R"("b":"model-1.safetensors","c":"model-2.safetensors"}})",
      index + R"({"weight_map":{"c":"model-2.safetensors"}})",
  };
}

std::vector<std::string> Dictionary() {
  return {"\"weight_map\"",
          "model-1.safetensors",
          "../",
          "/etc/passwd",
          ".safetensors",
          "\"data_offsets\"",
          "\\u0000",
          "model.safetensors",
          "\"c\":\"model-1.safetensors\"",
          "\"__metadata__\":{},"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  fuzz::InputReader input(data, size);
  const bool is_index = (input.TakeByte() & 1) == 0;
  const TempFolder& folder = fuzz::Folder();
  const std::string name = is_index ? "model.safetensors.index.json" : "model.safetensors";
  folder.Write(name, absl::string_view(input.rest().data(), input.rest().size()));
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder.path());
  if (checkpoint.ok()) {
    ++fuzz::num_accepted;
    fuzz::ReadEverything(*checkpoint);
  } else {
    CHECK(absl::IsInvalidArgument(checkpoint.status()) || absl::IsNotFound(checkpoint.status()))
        << checkpoint.status();
  }
  std::filesystem::remove(folder.path() + "/" + name);
  return 0;
}
