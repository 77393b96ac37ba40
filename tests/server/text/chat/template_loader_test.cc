// Which of a model folder's templates is used, and what is said when none can be.
#include "server/text/chat/template_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/server/text/chat/chat_test_helpers.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class TemplateLoaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("chat_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "additional_chat_templates");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& name, std::string_view content) {
    std::ofstream(folder_ / name) << content;
  }

  // The text that the folder's template renders for such a request, or the error.
  std::string Chosen(bool has_tools) {
    const auto set = LoadChatTemplate(folder_);
    if (!set.ok()) return std::string(set.status().message());
    RenderInput input;
    JsonBudget budget;
    if (has_tools) input.tools = *ParseJsonValue("[{}]", &budget);
    const auto rendered = set->Render(std::move(input));
    if (!rendered.ok()) return std::string(rendered.status().message());
    return TextOf(rendered);
  }

  fs::path folder_;
};

TEST_F(TemplateLoaderTest, ReadsTheConfig) {
  Write("tokenizer_config.json", R"({"chat_template": "from config"})");
  EXPECT_EQ(Chosen(false), "from config");
  EXPECT_EQ(Chosen(true), "from config");
}

TEST_F(TemplateLoaderTest, TheFileWinsOverTheConfig) {
  Write("tokenizer_config.json", R"({"chat_template": "from config"})");
  Write("chat_template.jinja", "from file\n");
  EXPECT_EQ(Chosen(false), "from file");
}

TEST_F(TemplateLoaderTest, NamedTemplatesInTheConfig) {
  Write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}, {"name": "rag", "template": "{%"}]})");
  EXPECT_EQ(Chosen(false), "d");
  EXPECT_EQ(Chosen(true), "t");
}

TEST_F(TemplateLoaderTest, AdditionalTemplates) {
  Write("chat_template.jinja", "d");
  Write("additional_chat_templates/tool_use.jinja", "t");
  Write("additional_chat_templates/README.md", "{% not a template");
  EXPECT_EQ(Chosen(false), "d");
  EXPECT_EQ(Chosen(true), "t");
}

TEST_F(TemplateLoaderTest, ToolTemplateOnly) {
  Write("additional_chat_templates/tool_use.jinja", "t");
  EXPECT_EQ(Chosen(true), "t");
  EXPECT_THAT(Chosen(false), HasSubstr("with tools only"));
}

TEST_F(TemplateLoaderTest, NoTemplateIsNotFound) {
  EXPECT_EQ(LoadChatTemplate(folder_).status().code(), absl::StatusCode::kNotFound);
  Write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_THAT(Chosen(false), HasSubstr("has no chat template"));
}

TEST_F(TemplateLoaderTest, AFileThatIsNoTemplateIsTheSettingsFault) {
  const auto error = [this](const std::string& name) {
    const absl::Status status = LoadChatTemplateFile((folder_ / name).string()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << name;
    EXPECT_THAT(std::string(status.message()), StartsWith("--chat-template: "));
    return std::string(status.message());
  };
  EXPECT_THAT(error("none.jinja"), HasSubstr("none.jinja"));
  EXPECT_THAT(error("additional_chat_templates"), HasSubstr("is a folder"));
  EXPECT_THAT(error("{{ messages }}"), HasSubstr("the path of a file"));
  Write("empty.jinja", "");
  EXPECT_THAT(error("empty.jinja"), HasSubstr("not a chat template"));
  Write("config.json", R"({"messages": 1})");
  EXPECT_THAT(error("config.json"), HasSubstr("not a chat template"));
  Write("broken.jinja", "{% for m in messages %}");
  EXPECT_THAT(error("broken.jinja"), HasSubstr("broken.jinja"));
  Write("large.jinja", std::string(ChatTemplate::kMaxSourceBytes + 1, 'x'));
  EXPECT_THAT(error("large.jinja"), HasSubstr("bytes; at most"));
  Write("good.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_TRUE(LoadChatTemplateFile((folder_ / "good.jinja").string()).ok());
}

TEST_F(TemplateLoaderTest, BadFilesAreNamed) {
  Write("tokenizer_config.json", "{");
  EXPECT_THAT(Chosen(false), HasSubstr("tokenizer_config.json: not valid JSON"));
  Write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THAT(Chosen(false), HasSubstr("must be a string or a list"));
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_THAT(Chosen(false), HasSubstr("needs a \"name\" and a \"template\""));
  Write("chat_template.jinja", "ok\n{% if %}");
  EXPECT_THAT(Chosen(false), HasSubstr("chat_template.jinja: chat template, line 2: "));
  Write("chat_template.jinja", "\xff");
  EXPECT_THAT(Chosen(false), HasSubstr("not valid UTF-8"));
  Write("chat_template.jinja", std::string(ChatTemplate::kMaxSourceBytes + 1, ' '));
  EXPECT_THAT(Chosen(false), HasSubstr("bytes; at most"));
}

}  // namespace
}  // namespace quire
