// The hub's list of files: whatever it says, only names that we know are taken, commit and etags
// are digests, and an index leads to files beside it. Input: the answer; after a zero byte, an
// index.
#include "absl/strings/match.h"
#include "kernels/base/check.h"
#include "server/start/hub/hub_name.h"
#include "server/start/hub/repo_info.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";

std::string Seed(const std::string& files, const std::string& index) {
  return std::string(R"({"sha":")") + kCommit + R"(","siblings":[)" + files +
         R"({"rfilename":"config.json","size":9},{"rfilename":"tokenizer.json"}]})" + '\0' + index;
}

void CheckFile(const RepoFile& file) {
  CHECK(file.etag.empty() || IsCommit(file.etag) || IsSha256(file.etag)) << file.etag;
  CHECK_GE(file.size, -1);
  CHECK(!file.name.empty() && file.name[0] != '/' && file.name[0] != '.') << file.name;
  CHECK(!absl::StrContains(file.name, "../")) << file.name;
  CHECK_EQ(file.name.find('\0'), std::string::npos);
}

}  // namespace

std::vector<std::string> Seeds() {
  return {Seed(R"({"rfilename":"model.safetensors","size":1,"blobId":")" + std::string(kCommit) +
                   R"("},)",
               ""),
          Seed(R"({"rfilename":"model.safetensors.index.json","size":30},)"
               R"({"rfilename":"a.safetensors","lfs":{"sha256":")" +
                   std::string(64, 'a') + R"(","size":70}},)",
               R"({"weight_map":{"x":"a.safetensors"}})"),
          Seed(R"({"rfilename":"additional_chat_templates/tool_use.jinja","size":5},)"
               R"({"rfilename":"model.safetensors"},)",
               "{}")};
}

std::vector<std::string> Dictionary() {
  return {"\"rfilename\"", "\"siblings\"",      "\"sha\"",       "\"blobId\"",
          "\"lfs\"",       "\"sha256\"",        "../",           "additional_chat_templates/",
          ".safetensors",  "model.safetensors", "\"weight_map\""};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  fuzz::InputReader input(data, size);
  const std::string_view answer = input.TakeUntil('\0');
  const absl::StatusOr<RepoInfo> info = ParseRepoInfo({answer.data(), answer.size()});
  if (!info.ok()) {
    CHECK(absl::IsInvalidArgument(info.status())) << info.status();
    return 0;
  }
  CHECK(IsCommit(info->commit)) << info->commit;
  const auto small = SelectSmallFiles("org/name", *info, {});
  if (!small.ok()) return 0;
  ++fuzz::num_accepted;
  for (const RepoFile& file : *small) fuzz::CheckFile(file);
  const auto weights = SelectWeights("org/name", *info, {input.rest().data(), input.rest().size()});
  if (!weights.ok()) return 0;
  for (const RepoFile& file : *weights) {
    fuzz::CheckFile(file);
    CHECK(!absl::StrContains(file.name, "/")) << file.name;
  }
  return 0;
}
