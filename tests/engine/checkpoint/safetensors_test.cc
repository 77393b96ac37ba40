#include "engine/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kName[] = "model.safetensors";

absl::Status HeaderError(absl::string_view header, uint64_t data_bytes = 8) {
  return ParseSafetensorsHeader(header, data_bytes, kName).status();
}

absl::Status FileError(absl::string_view bytes) {
  const TempFolder folder;
  folder.Write(kName, bytes);
  return SafetensorsFile::Open(folder.path(), kName).status();
}

// One tensor "t" of 8 data bytes, unless the arguments say otherwise.
std::string OneTensor(absl::string_view dtype, absl::string_view shape,
                      absl::string_view offsets = "[0,8]") {
  return absl::StrCat(R"({"t":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)",
                      offsets, "}}");
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheData) {
  const TempFolder folder;
  folder.Write(kName, SafetensorsBytes(
                          R"({"__metadata__":{"format":"pt"},
                              "a":{"dtype":"BF16","shape":[1,2],"data_offsets":[6,10]},
                              "b":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},
                              "e":{"dtype":"F32","shape":[0,7],"data_offsets":[10,10]},
                              "s":{"dtype":"I64","shape":[],"data_offsets":[10,18]}}      )",
                          "0123456789abcdefgh"));
  const auto file = SafetensorsFile::Open(folder.path(), kName);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(file->tensors()[0].name, "b");
  EXPECT_EQ(file->tensors()[1].name, "a");
  const SafetensorsTensor* a = file->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_THAT(a->shape, ElementsAre(1, 2));
  EXPECT_EQ(a->dtype, DType::kBF16);
  EXPECT_EQ(file->Find("b")->dtype, DType::kF16);
  EXPECT_EQ(file->Find("e")->dtype, DType::kF32);
  EXPECT_EQ(file->Find("s")->dtype, std::nullopt);
  EXPECT_EQ(file->Find("s")->dtype_name, "I64");
  EXPECT_THAT(file->Find("s")->shape, IsEmpty());
  EXPECT_EQ(file->Find("absent"), nullptr);
  char bytes[3] = {};
  ASSERT_TRUE(file->Read(*a, 1, 2, bytes).ok());
  EXPECT_STREQ(bytes, "78");
}

TEST(Safetensors, AcceptsEveryDTypeOfTheFormat) {
  for (const char* dtype :
       {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    EXPECT_TRUE(HeaderError(OneTensor(dtype, "[2,4]")).ok()) << dtype;
  }
  for (const char* dtype : {"I16", "U16", "F16", "BF16"}) {
    EXPECT_TRUE(HeaderError(OneTensor(dtype, "[4]")).ok()) << dtype;
  }
  for (const char* dtype : {"I32", "U32", "F32"}) {
    EXPECT_TRUE(HeaderError(OneTensor(dtype, "[2]")).ok()) << dtype;
  }
  for (const char* dtype : {"C64", "F64", "I64", "U64"}) {
    EXPECT_TRUE(HeaderError(OneTensor(dtype, "[1]")).ok()) << dtype;
  }
  EXPECT_TRUE(HeaderError(OneTensor("F4", "[16]")).ok());
  EXPECT_TRUE(HeaderError(OneTensor("F6_E2M3", "[4]", "[0,3]"), 3).ok());
  EXPECT_TRUE(HeaderError(OneTensor("F6_E3M2", "[4]", "[0,3]"), 3).ok());
}

TEST(Safetensors, RefusesAbusedHeaders) {
  const std::string two = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":)"
                          R"({"dtype":"U8","shape":[4],"data_offsets":)";
  const std::pair<std::string, const char*> cases[] = {
      {"", "the header must begin with '{'"},
      {" {}", "the header must begin with '{'"},
      {"[]", "the header must begin with '{'"},
      {"{", "model.safetensors (header): not valid JSON"},
      {"{\"\xff\":{}}", "ill-formed UTF-8"},
      {"{\"t\":" + std::string(1'000'000, '['), "nested more than 64 deep"},
      {R"({"t":1})", "tensor \"t\": must be an object"},
      {R"({"t":{}})", "must have dtype, shape and data_offsets"},
      {R"({"t":{"dtype":"U8","shape":[8]}})", "must have dtype, shape and data_offsets"},
      {OneTensor("F31", "[2]"), "unknown dtype \"F31\""},
      {R"({"t":{"dtype":7,"shape":[8],"data_offsets":[0,8]}})", "unknown dtype 7"},
      {OneTensor("U8", "8"), "shape must be a list"},
      {OneTensor("U8", "[-8]"), "shape has -8, which is not a size"},
      {OneTensor("U8", "[-2,-4]"), "shape has -2"},
      {OneTensor("U8", "[8.0]"), "shape has 8.0"},
      {OneTensor("U8", "[1e300]"), "shape has 1e+300"},
      {OneTensor("U8", "[18446744073709551615]"), "shape has 18446744073709551615"},
      {OneTensor("U8", "[\"8\"]"), "shape has \"8\""},
      {OneTensor("U8", "[4294967296,4294967296]"), "size of its shape overflows"},
      {OneTensor("U8", "[4294967296,4294967296]", "[0,0]"), "size of its shape overflows"},
      {OneTensor("U8", "[4294967296,4294967296,0]", "[0,0]"), "size of its shape overflows"},
      {OneTensor("F32", "[2305843009213693952]", "[0,0]"), "size of its shape overflows"},
      {OneTensor("F4", "[15]"), "no whole number of bytes"},
      {OneTensor("U8", "[7]"), "its shape takes 7 bytes, but data_offsets cover 8"},
      {OneTensor("F32", "[8]"), "its shape takes 32 bytes, but data_offsets cover 8"},
      {OneTensor("U8", "[8]", "[8,0]"), "data_offsets must be [begin, end]"},
      {OneTensor("U8", "[8]", "[-8,0]"), "data_offsets must be [begin, end]"},
      {OneTensor("U8", "[8]", "[0]"), "data_offsets must be [begin, end]"},
      {OneTensor("U8", "[8]", "[0,8,9]"), "data_offsets must be [begin, end]"},
      {OneTensor("U8", "[8]", "8"), "data_offsets must be [begin, end]"},
      {OneTensor("U8", "[8]", "[0.0,8.0]"), "data_offsets must be [begin, end]"},
      {OneTensor("U8", "[7]", "[1,8]"), "begins at byte 1 and leaves a hole"},
      {two + "[3,7]}}",
       "tensor \"b\" begins at byte 3 and overlaps the one before it, which ends at 4"},
      {two + "[0,4]}}", "begins at byte 0 and overlaps"},
      {two + "[5,9]}}", "tensor \"b\" begins at byte 5 and leaves a hole"},
      {R"({"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"t":{}})",
       "key \"t\" appears twice"},
      {R"({"t":{"dtype":"U8","dtype":"I8","shape":[8],"data_offsets":[0,8]}})",
       "key \"dtype\" appears twice"},
      {R"({"__metadata__":{"a":1}})", "__metadata__ must map strings to strings"},
      {R"({"__metadata__":[]})", "__metadata__ must map strings to strings"},
  };
  for (const auto& [header, message] : cases) {
    const absl::Status status = HeaderError(header);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << header.substr(0, 200);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(kName), HasSubstr(message)));
  }
}

TEST(Safetensors, TheDataMustBeThereExactly) {
  const std::string header = OneTensor("U8", "[12000]", "[0,12000]");
  EXPECT_TRUE(HeaderError(header, 12000).ok());
  EXPECT_THAT(
      HeaderError(header, 11000).message(),
      HasSubstr("model.safetensors is truncated: header says 12,000 bytes of data, file has "
                "11,000; copy or download it again"));
  EXPECT_THAT(HeaderError(header, 12001).message(), HasSubstr("has trailing bytes"));
  EXPECT_TRUE(HeaderError("{}", 0).ok());
  EXPECT_THAT(HeaderError("{}", 1).message(), HasSubstr("has trailing bytes"));
}

TEST(Safetensors, RefusesAbusedFiles) {
  EXPECT_THAT(FileError("").message(), HasSubstr("model.safetensors has 0 bytes, too few"));
  EXPECT_THAT(FileError("1234567").message(), HasSubstr("has 7 bytes, too few"));
  EXPECT_THAT(FileError(SafetensorsBytes(1ULL << 63, "{}", "")).message(),
              HasSubstr("is not a safetensors file: header length 9,223,372,036,854,775,808"));
  EXPECT_THAT(FileError(SafetensorsBytes(UINT64_MAX, "{}", "")).message(),
              HasSubstr("is not a safetensors file"));
  EXPECT_THAT(FileError(SafetensorsBytes((16 << 20) + 1, "{}", "")).message(),
              HasSubstr("above the limit of 16,777,216"));
  EXPECT_THAT(FileError(SafetensorsBytes(3, "{}", "")).message(),
              HasSubstr("is truncated: header length is 3, file has 10 bytes"));
  EXPECT_THAT(FileError("version https://git-lfs.github.com/spec/v1\n").message(),
              HasSubstr("run `git lfs pull`"));
  EXPECT_THAT(FileError(SafetensorsBytes(OneTensor("U8", "[8]"), "1234567")).message(),
              HasSubstr("header says 8 bytes of data, file has 7"));
  EXPECT_TRUE(FileError(SafetensorsBytes(OneTensor("U8", "[8]"), "12345678")).ok());
}

TEST(Safetensors, RefusesWhatIsNotAFile) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() + "/" + kName);
  EXPECT_THAT(SafetensorsFile::Open(folder.path(), kName).status().message(),
              HasSubstr("is a folder, not a file"));
  EXPECT_TRUE(absl::IsNotFound(SafetensorsFile::Open(folder.path(), "absent").status()));
}

TEST(Safetensors, AFileThatShrinksIsAnErrorNotACrash) {
  const TempFolder folder;
  folder.Write(kName, SafetensorsBytes(OneTensor("U8", "[8]"), "12345678"));
  const auto file = SafetensorsFile::Open(folder.path(), kName);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(folder.path() + "/" + kName, file->size_bytes() - 1);
  char bytes[8];
  EXPECT_THAT(file->Read(*file->Find("t"), 0, 8, bytes).message(),
              HasSubstr("tensor \"t\": the file became shorter while it was read"));
}

}  // namespace
}  // namespace quire
