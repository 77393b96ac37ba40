#include "engine/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr char kIndex[] = "model.safetensors.index.json";

// A file whose one tensor has a single byte.
std::string FileWith(absl::string_view tensor) {
  return SafetensorsBytes(
      absl::StrCat("{\"", tensor, "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"),
      "x");
}

absl::Status IndexError(absl::string_view index) {
  const TempFolder folder;
  folder.Write(kIndex, index);
  return Checkpoint::Open(folder.path()).status();
}

TEST(Checkpoint, OneFile) {
  const TempFolder folder;
  folder.Write("model.safetensors", FileWith("a"));
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_NE(checkpoint->Find("a"), nullptr);
  EXPECT_EQ(checkpoint->Find("a")->file->name(), "model.safetensors");
  EXPECT_EQ(checkpoint->Find("b"), nullptr);
  EXPECT_EQ(checkpoint->entries().size(), 1u);
}

std::string TwoTensors(absl::string_view dtype_of_a, absl::string_view dtype_of_z) {
  return SafetensorsBytes(
      absl::StrCat("{\"z\":{\"dtype\":\"", dtype_of_z,
                   "\",\"shape\":[4],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"", dtype_of_a,
                   "\",\"shape\":[4],\"data_offsets\":[8,16]}}"),
      std::string(16, '\0'));
}

// As transformers' dtype="auto": the order of safe_open(...).keys() is that of the names.
TEST(DTypeOfWeights, IsThatOfTheFirstFloatingTensorByName) {
  const TempFolder folder;
  EXPECT_EQ(DTypeOfWeights(folder.path()), std::nullopt);
  folder.Write("model.safetensors", TwoTensors("BF16", "F16"));
  EXPECT_EQ(DTypeOfWeights(folder.path()), DType::kBF16);
  folder.Write("model.safetensors", TwoTensors("I16", "F16"));
  EXPECT_EQ(DTypeOfWeights(folder.path()), DType::kF16);
  folder.Write("model.safetensors", TwoTensors("I16", "U16"));
  EXPECT_EQ(DTypeOfWeights(folder.path()), std::nullopt);
  folder.Write("model.safetensors", "damaged");
  EXPECT_EQ(DTypeOfWeights(folder.path()), std::nullopt);
}

TEST(DTypeOfWeights, IsThatOfTheFirstShard) {
  const TempFolder folder;
  folder.Write("x-1.safetensors", TwoTensors("BF16", "BF16"));
  folder.Write("x-2.safetensors", TwoTensors("F16", "F16"));
  folder.Write(kIndex, R"({"weight_map":{"a":"x-2.safetensors","b":"x-1.safetensors"}})");
  EXPECT_EQ(DTypeOfWeights(folder.path()), DType::kBF16);
}

TEST(Checkpoint, NoFileLeadsOutOfTheFolder) {
  const TempFolder folder, elsewhere;
  elsewhere.Write("model.safetensors", FileWith("a"));
  const std::string link = folder.path() + "/model.safetensors";
  std::filesystem::create_symlink(elsewhere.path() + "/model.safetensors", link);
  EXPECT_THAT(Checkpoint::Open(folder.path()).status().message(),
              HasSubstr("outside the model's folder"));
  std::filesystem::rename(link, folder.path() + "/x.safetensors");
  folder.Write(kIndex, R"({"weight_map":{"a":"x.safetensors"}})");
  EXPECT_THAT(Checkpoint::Open(folder.path()).status().message(),
              HasSubstr("outside the model's folder"));
}

TEST(Checkpoint, Shards) {
  const TempFolder folder;
  folder.Write("x-1.safetensors", FileWith("a"));
  folder.Write("x-2.safetensors", FileWith("b"));
  folder.Write(kIndex, R"({"metadata":{"total_size":2},
      "weight_map":{"a":"x-1.safetensors","b":"x-2.safetensors"}})");
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->files().size(), 2u);
  ASSERT_NE(checkpoint->Find("b"), nullptr);
  EXPECT_EQ(checkpoint->Find("b")->file->name(), "x-2.safetensors");
  char byte = 0;
  EXPECT_TRUE(checkpoint->Find("b")->file->Read(*checkpoint->Find("b")->tensor, 0, 1, &byte).ok());
  EXPECT_EQ(byte, 'x');
}

TEST(Checkpoint, HasWhatTheIndexLeavesOut) {
  const TempFolder folder;
  folder.Write("x-1.safetensors", FileWith("a"));
  folder.Write("x-2.safetensors", FileWith("surplus"));
  folder.Write(kIndex, R"({"weight_map":{"a":"x-1.safetensors","surplus":"x-2.safetensors"}})");
  EXPECT_EQ(Checkpoint::Open(folder.path())->entries().size(), 2u);
  folder.Write("x-1.safetensors",
               SafetensorsBytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("surplus":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                                R"("more":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                                "xyz"));
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_NE(checkpoint->Find("more"), nullptr);
  EXPECT_EQ(checkpoint->Find("surplus")->file->name(), "x-2.safetensors");
}

TEST(Checkpoint, TheIndexMustStayInItsFolder) {
  for (const char* name : {"../x.safetensors", "/etc/x.safetensors", "a/x.safetensors",
                           "..\\\\x.safetensors", ".x.safetensors", "..safetensors",
                           "x.safetensors\\u0000.safetensors", "", "x.bin", "x.safetensors/"}) {
    const absl::Status status = IndexError(absl::StrCat(R"({"weight_map":{"a":")", name, "\"}}"));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("not the name of a .safetensors file"));
  }
}

TEST(Checkpoint, AbusedIndexes) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "weight_map must map tensor names to file names"},
      {R"({"weight_map":{}})", "weight_map must map"},
      {R"({"weight_map":["a"]})", "weight_map must map"},
      {R"({"weight_map":{"a":1}})", "not the name of a .safetensors file"},
      {R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})", "key \"a\" appears twice"},
      {"{", "model.safetensors.index.json: not valid JSON"},
  };
  for (const auto& [index, message] : cases) {
    EXPECT_THAT(IndexError(index).message(), HasSubstr(message)) << index;
  }
}

TEST(Checkpoint, ShardsThatAreMissingOrIncomplete) {
  const TempFolder folder;
  folder.Write(kIndex, R"({"weight_map":{"a":"x.safetensors"}})");
  const absl::Status missing = Checkpoint::Open(folder.path()).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(missing.message(),
              HasSubstr("x.safetensors, which model.safetensors.index.json names, "
                        "is missing"));
  folder.Write("x.safetensors", FileWith("b"));
  EXPECT_THAT(Checkpoint::Open(folder.path()).status().message(),
              HasSubstr("x.safetensors has no tensor \"a\""));
}

TEST(Checkpoint, AFolderWithoutWeights) {
  const TempFolder folder;
  const absl::Status status = Checkpoint::Open(folder.path()).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("has neither model.safetensors nor"));
}

}  // namespace
}  // namespace quire
