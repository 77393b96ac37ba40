// Settings: defaults, flags, the configuration file, and the sentence of every kind of mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "server/exit_code.h"
#include "server/settings/setting_table.h"
#include "server/settings/settings_parser.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Settings Parse(const std::vector<std::string>& args) {
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(args);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->settings : Settings();
}

std::string ParseError(const std::vector<std::string>& args) {
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(args);
  EXPECT_FALSE(parsed.ok());
  return std::string(parsed.status().message());
}

std::string WriteFile(const std::string& text) {
  const std::string path = testing::TempDir() + "/quire_settings_test.json";
  std::ofstream(path) << text;
  return path;
}

std::string JsonError(const std::string& json) {
  Settings settings;
  const absl::Status status = ApplyJson(json, &settings);
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(SettingsTest, NamesAreUniqueAndHaveHelp) {
  std::set<std::string> names;
  for (const Setting& setting : SettingTable()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
    EXPECT_FALSE(DefaultValue(setting).empty()) << setting.name << " does not say its default";
  }
}

TEST(SettingsTest, DefaultsPassTheirOwnRanges) {
  const Settings defaults;
  for (const Setting& setting : SettingTable()) {
    if (!setting.default_meaning.empty()) continue;  // a mark that no user can write
    if (const auto* field = std::get_if<IntField>(&setting.field)) {
      EXPECT_GE(defaults.*field->member, field->min) << setting.name;
      EXPECT_LE(defaults.*field->member, field->max) << setting.name;
    }
    if (const auto* field = std::get_if<ChoiceField>(&setting.field)) {
      EXPECT_THAT(field->choices, testing::Contains(defaults.*field->member)) << setting.name;
    }
  }
}

TEST(SettingsTest, FlagsOfEveryKind) {
  const Settings settings =
      Parse({"--model", "/models/x", "--port=9000", "--device", "cpu", "--block-size", "32",
             "--gpu-memory-utilization", "0.5", "--enforce-eager", "--no-enable-prefix-caching"});
  EXPECT_EQ(settings.model, "/models/x");
  EXPECT_EQ(settings.port, 9000);
  EXPECT_EQ(settings.device, "cpu");
  EXPECT_EQ(settings.block_size, 32);
  EXPECT_DOUBLE_EQ(settings.gpu_memory_utilization, 0.5);
  EXPECT_TRUE(settings.enforce_eager);
  EXPECT_FALSE(settings.enable_prefix_caching);
}

TEST(SettingsTest, TheLastOfRepeatedFlagsCounts) {
  EXPECT_EQ(Parse({"--port", "1000", "--port", "2000"}).port, 2000);
  EXPECT_TRUE(Parse({"--no-async-scheduling", "--async-scheduling"}).async_scheduling);
  EXPECT_FALSE(Parse({"--async-scheduling", "--no-async-scheduling"}).async_scheduling);
}

TEST(SettingsTest, FlagsWinOverTheFileWhereverTheyStand) {
  const std::string path = WriteFile(R"({"port": 7000, "max_num_seqs": 8})");
  const Settings settings = Parse({"--port", "7001", "--config", path});
  EXPECT_EQ(settings.port, 7001);
  EXPECT_EQ(settings.max_num_seqs, 8);
}

TEST(SettingsTest, StepLimitsFollowTheDeviceAndEachOther) {
  const auto limits = [](const std::vector<std::string>& args) {
    const EngineConfig config = ToEngineConfig(Parse(args), "folder");
    return std::pair(config.max_num_seqs, config.max_num_batched_tokens);
  };
  EXPECT_EQ(limits({"--device", "cpu"}), std::pair(int64_t{64}, int64_t{2048}));
  EXPECT_EQ(limits({"--device", "cuda"}), std::pair(int64_t{256}, int64_t{8192}));
  EXPECT_EQ(limits({"--device", "cuda", "--max-num-batched-tokens", "100"}),
            std::pair(int64_t{100}, int64_t{100}));
  EXPECT_EQ(limits({"--device", "cpu", "--max-num-seqs", "4096"}),
            std::pair(int64_t{4096}, int64_t{4096}));
}

TEST(SettingsTest, AutotuneCanBeTurnedOff) {
  EXPECT_TRUE(ToEngineConfig(Parse({}), "folder").tune_products);
  EXPECT_FALSE(ToEngineConfig(Parse({"--no-autotune"}), "folder").tune_products);
}

TEST(SettingsTest, JsonValuesOfEveryKind) {
  Settings settings;
  ASSERT_TRUE(ApplyJson(R"({"model": "m", "device": "cuda", "max_model_len": 128, "block_size": 64,
                           "gpu_memory_utilization": 1, "async_scheduling": false})",
                        &settings)
                  .ok());
  EXPECT_EQ(settings.model, "m");
  EXPECT_EQ(settings.device, "cuda");
  EXPECT_EQ(settings.max_model_len, 128);
  EXPECT_EQ(settings.block_size, 64);
  EXPECT_DOUBLE_EQ(settings.gpu_memory_utilization, 1.0);
  EXPECT_FALSE(settings.async_scheduling);
}

TEST(SettingsTest, WrongFlagsAreNamed) {
  EXPECT_THAT(ParseError({"--max-num-sequences", "4"}), HasSubstr("did you mean --max-num-seqs?"));
  EXPECT_THAT(ParseError({"--prot=1"}), AllOf(HasSubstr("--prot"), HasSubstr("--port")));
  EXPECT_THAT(ParseError({"--entirely-unlike-anything"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(ParseError({"surplus"}), HasSubstr("\"surplus\""));
  EXPECT_THAT(ParseError({"--port"}), HasSubstr("--port"));
}

TEST(SettingsTest, ValuesOutOfRangeAreNamedWithTheRange) {
  EXPECT_THAT(ParseError({"--port", "65536"}), AllOf(HasSubstr("--port"), HasSubstr("0 .. 65535")));
  EXPECT_THAT(ParseError({"--port", "12x"}), HasSubstr("\"12x\""));
  EXPECT_THAT(ParseError({"--device", "tpu"}), HasSubstr("auto | cpu | cuda"));
  EXPECT_THAT(ParseError({"--block-size", "24"}), HasSubstr("16 | 32 | 64"));
  EXPECT_THAT(ParseError({"--gpu-memory-utilization", "nan"}), HasSubstr("0.01 .. 1"));
  EXPECT_THAT(ParseError({"--tensor-parallel-size", "2"}), HasSubstr("1 only"));
  EXPECT_THAT(ParseError({"--max-num-seqs", "64", "--max-num-batched-tokens", "32"}),
              AllOf(HasSubstr("--max-num-batched-tokens"), HasSubstr("--max-num-seqs")));
}

TEST(SettingsTest, MistakesInTheFileAreNamed) {
  EXPECT_THAT(JsonError("{"), HasSubstr("not a JSON object"));
  EXPECT_THAT(JsonError("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(JsonError(R"({"max_num_sequences": 1})"), HasSubstr("did you mean \"max_num_seqs\""));
  EXPECT_THAT(JsonError(R"({"max-num-seqs": 1})"), HasSubstr("unknown key \"max-num-seqs\""));
  EXPECT_THAT(JsonError(R"({"port": "8000"})"), AllOf(HasSubstr("port"), HasSubstr("wrong type")));
  EXPECT_THAT(JsonError(R"({"port": 8000.5})"), HasSubstr("wrong type"));
  EXPECT_THAT(JsonError(R"({"port": 70000})"), HasSubstr("0 .. 65535"));
  EXPECT_THAT(JsonError(R"({"enforce_eager": 1})"), HasSubstr("true | false"));
  EXPECT_THAT(ParseError({"--config", "/nonexistent.json"}), HasSubstr("/nonexistent.json"));
}

TEST(SettingsTest, HelpVersionAndTableNameEverySetting) {
  const std::string help = ParseCommandLine({"--help"})->print_and_exit;
  const std::string table = ParseCommandLine({"--print-settings-table"})->print_and_exit;
  for (const Setting& setting : SettingTable()) {
    EXPECT_THAT(help, HasSubstr("--" + setting.name));
    EXPECT_THAT(table, HasSubstr("`" + JsonKey(setting) + "`"));
  }
  EXPECT_THAT(ParseCommandLine({"--version"})->print_and_exit, HasSubstr("quire-server "));
}

TEST(ExitCodeTest, StartFailures) {
  EXPECT_EQ(StartFailureCode(absl::NotFoundError("")), ExitCode::kModelFiles);
  EXPECT_EQ(StartFailureCode(absl::InvalidArgumentError("")), ExitCode::kModelFiles);
  EXPECT_EQ(StartFailureCode(absl::UnimplementedError("")), ExitCode::kModelFiles);
  EXPECT_EQ(StartFailureCode(absl::UnavailableError("")), ExitCode::kUnavailable);
  EXPECT_EQ(StartFailureCode(absl::ResourceExhaustedError("")), ExitCode::kUnavailable);
  EXPECT_EQ(StartFailureCode(absl::InternalError("")), ExitCode::kEngineFailure);
}

}  // namespace
}  // namespace quire
