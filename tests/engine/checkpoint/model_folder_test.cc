#include "engine/checkpoint/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

using testing::HasSubstr;

TEST(ResolveModelFolder, AModelFolderIsItself) {
  const TempFolder folder;
  folder.Write("config.json", "{}");
  EXPECT_EQ(*ResolveModelFolder(folder.path()), folder.path());
}

TEST(ResolveModelFolder, TheCacheFolderIsItsMainSnapshot) {
  const TempFolder folder;
  folder.Write("blobs/1234", "{}");
  folder.Write("refs/main", "bbbb\n");
  for (const char* snapshot : {"aaaa", "bbbb"}) {
    const std::string path = folder.path() + "/snapshots/" + snapshot;
    std::filesystem::create_directories(path);
    std::filesystem::create_symlink("../../blobs/1234", path + "/config.json");
  }
  EXPECT_EQ(*ResolveModelFolder(folder.path()), folder.path() + "/snapshots/bbbb");
  folder.Write("refs/main", "../../elsewhere");
  const absl::Status status = ResolveModelFolder(folder.path()).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("has 2 snapshots and refs/main names none of them"));
}

TEST(ResolveModelFolder, TheOnlySnapshotNeedsNoRef) {
  const TempFolder folder;
  folder.Write("snapshots/aaaa/config.json", "{}");
  folder.Write("snapshots/partial/model.safetensors", "");
  EXPECT_EQ(*ResolveModelFolder(folder.path()), folder.path() + "/snapshots/aaaa");
}

// The sentence about a folder with these files.
std::string Explained(const std::vector<std::string>& files) {
  const TempFolder folder;
  for (const std::string& file : files) folder.Write(file, "{}");
  const absl::Status status = ResolveModelFolder(folder.path()).status();
  EXPECT_TRUE(absl::IsNotFound(status) || absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(folder.path()));
  return std::string(status.message().substr(folder.path().size()));
}

TEST(ResolveModelFolder, SaysWhatAFolderIsAndWhatToPass) {
  EXPECT_THAT(Explained({}), HasSubstr("is empty: pass the folder of"));
  EXPECT_THAT(Explained({"readme.txt"}), HasSubstr("has no config.json: pass the folder of"));
  EXPECT_THAT(Explained({"model-q4.GGUF"}), HasSubstr("holds GGUF files, which are unsupported"));
  EXPECT_THAT(Explained({"adapter_config.json", "adapter_model.safetensors"}),
              HasSubstr("is an adapter (LoRA), not a whole model: merge it"));
  EXPECT_THAT(Explained({"params.json", "consolidated.00.pth"}), HasSubstr("maker's own format"));
  EXPECT_THAT(Explained({"consolidated.safetensors"}), HasSubstr("maker's own format"));
  EXPECT_THAT(Explained({"model_index.json"}), HasSubstr("diffusers"));
  EXPECT_THAT(Explained({"pytorch_model.bin"}), HasSubstr("has weights, but no config.json"));
  EXPECT_THAT(Explained({"model.safetensors"}), HasSubstr("has weights, but no config.json"));
  EXPECT_THAT(Explained({"a/config.json", "b/config.json"}),
              testing::AllOf(HasSubstr("did you mean"), HasSubstr("/a or "), HasSubstr("/b?")));
  EXPECT_THAT(Explained({"models--org--name/refs/main"}),
              HasSubstr("pass one by name, such as --model org/name --download-dir"));
  EXPECT_THAT(Explained({"hub/models--org--name/refs/main"}), HasSubstr("set HF_HOME="));
}

TEST(ResolveModelFolder, SaysWhatAPathIsThatIsNoFolder) {
  const TempFolder folder;
  folder.Write("x.gguf", "GGUF");
  folder.Write("file", "");
  const auto message = [&](const std::string& name) {
    return std::string(ResolveModelFolder(folder.path() + name).status().message());
  };
  EXPECT_TRUE(absl::IsUnimplemented(ResolveModelFolder(folder.path() + "/x.gguf").status()));
  EXPECT_THAT(message("/x.gguf"), HasSubstr("is a GGUF file, which is unsupported"));
  EXPECT_THAT(message("/file"), HasSubstr("is a file, not a folder"));
  EXPECT_THAT(message("/absent"), HasSubstr("does not exist"));
  folder.Write("config.json", "{}");
  EXPECT_THAT(message("/file"),
              HasSubstr("is a file of a model: pass its folder, " + folder.path()));
}

TEST(ResolveModelFolder, ASnapshotElsewhereIsNotTheCaches) {
  const TempFolder folder, elsewhere;
  elsewhere.Write("config.json", "{}");
  folder.Write("refs/main", "aaaa");
  std::filesystem::create_directories(folder.path() + "/snapshots");
  std::filesystem::create_symlink(elsewhere.path(), folder.path() + "/snapshots/aaaa");
  EXPECT_TRUE(absl::IsNotFound(ResolveModelFolder(folder.path()).status()));
}

TEST(ExplainMissingTokenizer, SaysHowToMakeOne) {
  EXPECT_THAT(ExplainMissingTokenizer({"config.json", "tokenizer.model"}, "the/place"),
              testing::AllOf(HasSubstr("has tokenizer.model, but no tokenizer.json"),
                             HasSubstr("T.from_pretrained('the/place')"),
                             HasSubstr("--skip-tokenizer-init")));
  EXPECT_THAT(ExplainMissingTokenizer({"config.json"}, "x"),
              HasSubstr("has no tokenizer.json: copy it from where the model comes from"));
}

TEST(ExplainEmbeddingModel, KnowsTheFilesOfSentenceTransformers) {
  EXPECT_THAT(*ExplainEmbeddingModel({"config.json", "modules.json"}),
              HasSubstr("/v1/embeddings is not there yet"));
  EXPECT_TRUE(ExplainEmbeddingModel({"1_Pooling/config.json"}).has_value());
  EXPECT_TRUE(ExplainEmbeddingModel({"1_Pooling"}).has_value());
  EXPECT_FALSE(ExplainEmbeddingModel({"config.json", "tokenizer.json"}).has_value());
}

TEST(ExplainMissingWeights, SaysHowToConvertOrWhatElseToDo) {
  EXPECT_THAT(
      ExplainMissingWeights({"config.json", "pytorch_model-00001-of-00002.bin"}, "the/place"),
      testing::AllOf(HasSubstr("from_pretrained('the/place')"), HasSubstr("--model converted")));
  EXPECT_THAT(ExplainMissingWeights({"config.json", "x.gguf"}, ""), HasSubstr("GGUF"));
  EXPECT_THAT(ExplainMissingWeights({"config.json", "adapter_config.json"}, ""),
              HasSubstr("merge"));
  EXPECT_THAT(ExplainMissingWeights({"config.json", "part.safetensors"}, ""),
              HasSubstr("which says what its other"));
  EXPECT_THAT(ExplainMissingWeights({"config.json"}, ""), HasSubstr("--load-format dummy"));
}

}  // namespace
}  // namespace quire
