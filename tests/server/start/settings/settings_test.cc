// Settings: defaults, flags, the configuration file, and the sentence of every kind of mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <set>

#include "absl/strings/str_replace.h"
#include "server/base/exit_code.h"
#include "server/start/settings/engine_settings.h"
#include "server/start/settings/setting_table.h"
#include "server/start/settings/settings_parser.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Not;
using ::testing::SizeIs;

using Texts = std::vector<std::string>;

CommandLine ParseLine(const Texts& args, const Texts& environment = {}) {
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(args, environment);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : CommandLine();
}

Settings Parse(const Texts& args, const Texts& environment = {}) {
  return ParseLine(args, environment).settings;
}

std::string ParseError(const Texts& args, const Texts& environment = {}) {
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(args, environment);
  EXPECT_FALSE(parsed.ok());
  return std::string(parsed.status().message());
}

std::string WriteFile(const std::string& text) {
  const std::string path = testing::TempDir() + "/quire_settings_test.json";
  std::ofstream(path) << text;
  return path;
}

std::string JsonError(const std::string& json) {
  CommandLine line;
  const absl::Status status = ApplyJson(json, &line);
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

TEST(SettingsTest, AFlagWinsOverAVariableWhichWinsOverTheFile) {
  const std::string path = WriteFile(R"({"port": 7000, "max_num_seqs": 8, "block_size": 32})");
  const CommandLine line =
      ParseLine({"--port", "7002", "--config", path}, {"QUIRE_PORT=7001", "QUIRE_MAX_NUM_SEQS=9"});
  EXPECT_EQ(line.settings.port, 7002);
  EXPECT_EQ(line.settings.max_num_seqs, 9);
  EXPECT_EQ(line.settings.block_size, 32);
  EXPECT_EQ(line.places.at("port"), "--port");
  EXPECT_EQ(line.places.at("max-num-seqs"), "QUIRE_MAX_NUM_SEQS");
  EXPECT_EQ(line.places.at("block-size"), "configuration key \"block_size\"");
  EXPECT_EQ(line.places.count("host"), 0);
}

TEST(SettingsTest, EverySettingHasAVariable) {
  for (const Setting& setting : SettingTable()) {
    EXPECT_THAT(ParseError({}, {EnvironmentName(setting) + "="}),
                HasSubstr(EnvironmentName(setting) + ": must not be empty"));
  }
  EXPECT_TRUE(Parse({}, {"QUIRE_ENFORCE_EAGER=1"}).enforce_eager);
  EXPECT_FALSE(Parse({}, {"QUIRE_AUTOTUNE=False"}).autotune);
  EXPECT_EQ(Parse({}, {"QUIRE_CHAT_TEMPLATE=a=b"}).chat_template, "a=b");
}

TEST(SettingsTest, TheFileMayBeNamedByAVariable) {
  const std::string path = WriteFile(R"({"port": 7000})");
  EXPECT_EQ(Parse({}, {"QUIRE_CONFIG=" + path}).port, 7000);
  EXPECT_EQ(Parse({"--config", path}, {"QUIRE_CONFIG=/nonexistent"}).port, 7000);
  EXPECT_THAT(ParseError({}, {"QUIRE_CONFIG=/nonexistent"}),
              AllOf(HasSubstr("QUIRE_CONFIG"), HasSubstr("/nonexistent")));
  EXPECT_THAT(ParseError({}, {"QUIRE_CONFIG="}), HasSubstr("QUIRE_CONFIG: must not be empty"));
}

TEST(SettingsTest, MistakesInVariablesAreNamed) {
  EXPECT_THAT(ParseError({}, {"QUIRE_PORT=x"}),
              AllOf(HasSubstr("QUIRE_PORT: \"x\""), HasSubstr("0 .. 65535")));
  EXPECT_THAT(ParseError({"--max-num-batched-tokens", "4"}, {"QUIRE_MAX_NUM_SEQS=8"}),
              HasSubstr("--max-num-seqs comes from QUIRE_MAX_NUM_SEQS"));
}

TEST(SettingsTest, UnknownVariablesAreWarnedOf) {
  const Texts warnings = ParseLine({}, {"QUIRE_MAX_NUM_SEQ=4", "QUIRE_ENTIRELY_UNLIKE=1"}).warnings;
  ASSERT_EQ(warnings.size(), 2);
  EXPECT_THAT(warnings[0], HasSubstr("did you mean QUIRE_MAX_NUM_SEQS?"));
  EXPECT_THAT(warnings[1], AllOf(HasSubstr("QUIRE_ENTIRELY_UNLIKE"), Not(HasSubstr("mean"))));
  EXPECT_THAT(ParseLine({}, {"QUIRE_API_KEY=secret"}).warnings,
              ElementsAre(AllOf(HasSubstr("QUIRE_API_KEY is for clients; QUIRE_API_KEY_FILE"),
                                Not(HasSubstr("secret")))))
      << "a server whose operator believes that it has a key";
  EXPECT_THAT(
      ParseLine({}, {"QUIRE_TARGET=x", "QUIRE_CA_FILE=x", "QUIRE_CLIENT_KEY=x", "QUIRE_CACHE_DIR=x",
                     "QUIRE_BUILD_DIR=x", "QUIRE_TEST_PYTHON=x", "QUIRE_SERVICE_HOST=x", "PORT=x"})
          .warnings,
      IsEmpty());
}

TEST(SettingsTest, KubernetesLinksAreNoPorts) {
  const CommandLine line =
      ParseLine({}, {"QUIRE_PORT=tcp://10.0.0.1:8000", "QUIRE_PORT_8000_TCP_ADDR=10.0.0.1"});
  EXPECT_EQ(line.settings.port, Settings().port);
  EXPECT_THAT(line.warnings, ElementsAre(HasSubstr("QUIRE_PORT=tcp://10.0.0.1:8000")));
}

TEST(SettingsTest, CountsHaveUnitsAsInVllm) {
  EXPECT_EQ(Parse({"--max-model-len", "32k"}).max_model_len, 32000);
  EXPECT_EQ(Parse({"--max-model-len", "32K"}).max_model_len, 32768);
  EXPECT_EQ(Parse({"--max-model-len", "25.6k"}).max_model_len, 25600);
  EXPECT_EQ(Parse({"--max-num-queued-tokens", "2m"}).max_num_queued_tokens, 2000000);
  EXPECT_EQ(Parse({}, {"QUIRE_MAX_MODEL_LEN=1K"}).max_model_len, 1024);
  for (const char* text : {"32x", "k", "32kk", "32GiB", "1.5", "-1", "-1k", "1e3", "1.k", ".5k",
                           " 1", "1 k", "2g", "0x10", "1.2.3k"}) {
    EXPECT_THAT(ParseError({"--max-model-len", text}), HasSubstr("500 or 32k")) << text;
  }
  EXPECT_THAT(ParseError({"--port", "8k"}), HasSubstr("0 .. 65535"));  // no count
}

TEST(SettingsTest, BytesHaveUnits) {
  const auto bytes = [](const char* text) {
    return Parse({"--kv-cache-memory-bytes", text}).kv_cache_memory_bytes;
  };
  EXPECT_EQ(bytes("4G"), int64_t{4} << 30);
  EXPECT_EQ(bytes("1.5G"), int64_t{3} << 29);
  EXPECT_EQ(bytes("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(bytes("4GB"), 4000000000);
  EXPECT_EQ(bytes("4g"), 4000000000);
  EXPECT_EQ(bytes("2kB"), 2000);
  EXPECT_EQ(bytes("512M"), 512 << 20);
  EXPECT_EQ(bytes("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"9223372036854775808", "8388608T", "99999999999999999999999G", "-4G",
                           "4 G", "4Gi", "4gb", "GB", "4.0000000000001G"}) {
    EXPECT_THAT(ParseError({"--kv-cache-memory-bytes", text}), HasSubstr("512M or 1.5G")) << text;
  }
}

TEST(SettingsTest, UnitsInTheFileAreTexts) {
  CommandLine line;
  ASSERT_TRUE(ApplyJson(R"({"kv_cache_memory_bytes": "4G", "max_model_len": "32k"})", &line).ok());
  EXPECT_EQ(line.settings.kv_cache_memory_bytes, int64_t{4} << 30);
  EXPECT_EQ(line.settings.max_model_len, 32000);
  EXPECT_THAT(JsonError(R"({"kv_cache_memory_bytes": "4X"})"),
              AllOf(HasSubstr("kv_cache_memory_bytes"), HasSubstr("512M or 1.5G")));
}

TEST(SettingsTest, SeveralServedNames) {
  const Texts names = {"a", "b"};
  EXPECT_EQ(Parse({"--served-model-name", "a,b"}).served_model_name, names);
  EXPECT_EQ(Parse({"--served-model-name", "a", "b", "--port", "1"}).served_model_name, names);
  EXPECT_EQ(
      Parse({"--served-model-name=a", "--port=1", "--served-model-name", "b"}).served_model_name,
      names);
  EXPECT_EQ(Parse({}, {"QUIRE_SERVED_MODEL_NAME=a, b"}).served_model_name, names);
  EXPECT_EQ(Parse({"--allowed-origins", R"(["a", "b"])"}).allowed_origins, names);
  for (const char* wrong : {"[]", "[a]", R"(["a", ])", R"(["a"; "b"])"}) {
    EXPECT_THAT(ParseError({"--allowed-origins", wrong}), HasSubstr("separated by commas"))
        << wrong;
  }
  CommandLine line;
  ASSERT_TRUE(ApplyJson(R"({"served_model_name": ["a", "b"]})", &line).ok());
  EXPECT_EQ(line.settings.served_model_name, names);
  EXPECT_THAT(ParseError({"--served-model-name", "a,,b"}), HasSubstr("separated by commas"));
  EXPECT_THAT(ParseError({"--served-model-name"}), HasSubstr("a value must follow"));
  EXPECT_THAT(JsonError(R"({"served_model_name": ["a", 1]})"), HasSubstr("a list of strings"));
  EXPECT_THAT(JsonError(R"({"served_model_name": []})"), HasSubstr("a list of strings"));
}

TEST(SettingsTest, TheModelNeedsNoFlag) {
  EXPECT_EQ(Parse({"org/name"}).model, "org/name");
  EXPECT_EQ(Parse({"--port", "1", "org/name", "--enforce-eager"}).model, "org/name");
  EXPECT_EQ(Parse({"org/name", "--model", "org/name"}).model, "org/name");
  EXPECT_EQ(Parse({"org/name"}, {"QUIRE_MODEL=other"}).model, "org/name");
  EXPECT_THAT(ParseError({"org/name", "--model", "other"}), HasSubstr("two models"));
  EXPECT_THAT(ParseError({"org/name", "more"}), HasSubstr("\"more\""));
  EXPECT_THAT(ParseError({"serve"}), HasSubstr("leave out \"serve\""));
  EXPECT_THAT(ParseError({"serve", "org/name"}), HasSubstr("quire-server org/name serves"));
}

// As other programs are told.
TEST(SettingsTest, AForeignCommandGetsASentence) {
  EXPECT_EQ(ParseError({"run", "qwen3:0.6b"}),
            "leave out \"run\": quire-server qwen3:0.6b serves, and quire chat talks to it "
            "(a folder of that name is ./run)");
  EXPECT_THAT(ParseError({"pull", "org/name"}), HasSubstr("quire-server org/name downloads"));
  EXPECT_THAT(ParseError({"list"}), HasSubstr("quire info says which"));
  EXPECT_THAT(ParseError({"ps"}), HasSubstr("(a folder of that name is ./ps)"));
  EXPECT_THAT(ParseError({"chat", "org/name"}), HasSubstr("quire chat talks to it"));
  EXPECT_EQ(Parse({"./run"}).model, "./run");
  EXPECT_EQ(Parse({"--model", "run"}).model, "run");
}

TEST(SettingsTest, UnderscoresAreTakenInFlags) {
  for (const Setting& setting : SettingTable()) {
    std::string flag = setting.flag();
    const std::string spelled = "--" + absl::StrReplaceAll(flag.substr(2), {{"-", "_"}});
    for (const std::string& name : {flag, spelled}) {
      const absl::Status status = ParseCommandLine({name, "\1"}).status();
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr("unknown flag"))) << name;
    }
  }
  EXPECT_EQ(Parse({"--max_model_len", "4096"}).max_model_len, 4096);
  EXPECT_EQ(Parse({"--max_model_len=4k"}).max_model_len, 4000);
  EXPECT_FALSE(Parse({"--no_enable_prefix_caching"}).enable_prefix_caching);
  EXPECT_EQ(Parse({"--served_model_name", "a_b"}).served_model_name,
            (std::vector<std::string>{"a_b"}));
  EXPECT_THAT(ParseError({"--max_modl_len", "1"}), HasSubstr("did you mean --max-model-len"));
}

TEST(SettingsTest, TextsAreNotEmpty) {
  EXPECT_THAT(ParseError({"--model", ""}),
              AllOf(HasSubstr("--model: must not be empty"), HasSubstr("the bundled model")));
  EXPECT_THAT(ParseError({""}), HasSubstr("--model: must not be empty"));
  EXPECT_THAT(ParseError({}, {"QUIRE_MODEL="}), HasSubstr("QUIRE_MODEL: must not be empty"));
  EXPECT_THAT(JsonError(R"({"model": ""})"), HasSubstr("must not be empty"));
  EXPECT_THAT(ParseError({"--chat-template="}), HasSubstr("the model's"));
}

TEST(SettingsTest, SwitchesTakeNoValue) {
  EXPECT_THAT(ParseError({"--enforce-eager", "true"}), HasSubstr("--no-enforce-eager"));
  EXPECT_THAT(ParseError({"--no-enforce-eager", "False"}), HasSubstr("--no-enforce-eager"));
  EXPECT_THAT(ParseError({"--no-enforce-eager=false"}), HasSubstr("--no-enforce-eager"));
  EXPECT_FALSE(Parse({"--enforce-eager=false"}).enforce_eager);
}

TEST(SettingsTest, WhatHasNoEffectOnTheDeviceIsRefused) {
  const auto check = [](const CommandLine& line, DeviceKind device) {
    return std::string(CheckDevice(line, device).message());
  };
  for (const Setting& setting : SettingTable()) {
    CommandLine line;
    line.places[setting.name] = "here";
    const bool cpu = !setting.only_on.has_value() || setting.only_on == DeviceKind::kCpu;
    const bool cuda = !setting.only_on.has_value() || setting.only_on == DeviceKind::kCuda;
    EXPECT_EQ(CheckDevice(line, DeviceKind::kCpu).ok(), cpu) << setting.name;
    EXPECT_EQ(CheckDevice(line, DeviceKind::kCuda).ok(), cuda) << setting.name;
  }
  EXPECT_THAT(check(ParseLine({"--gpu-memory-utilization", "0.5"}), DeviceKind::kCpu),
              AllOf(HasSubstr("--gpu-memory-utilization: "), HasSubstr("--kv-cache-memory-bytes")));
  EXPECT_THAT(check(ParseLine({}, {"QUIRE_ENFORCE_EAGER=0"}), DeviceKind::kCpu),
              HasSubstr("QUIRE_ENFORCE_EAGER: "));
  EXPECT_THAT(check(ParseLine({"--no-cpu-compress-weights"}), DeviceKind::kCuda),
              HasSubstr("on the CPU only"));
  EXPECT_EQ(check(ParseLine({"--num-threads", "2"}), DeviceKind::kCuda), "");
}

TEST(SettingsTest, PlacesAreAddedForWholeNamesOnly) {
  const CommandLine line = ParseLine({"--port", "1"}, {"QUIRE_MODEL=m"});
  EXPECT_EQ(WithPlaces(line, "change --model"), "change --model (--model comes from QUIRE_MODEL)");
  EXPECT_EQ(WithPlaces(line, "change --model-x"), "change --model-x");
  EXPECT_EQ(WithPlaces(line, "change --port"), "change --port");
}

TEST(SettingsTest, DtypesHaveVllmsNames) {
  const auto dtype = [](const char* name) {
    return ToEngineConfig(Parse({"--dtype", name}), "folder").dtype;
  };
  EXPECT_EQ(dtype("auto"), std::nullopt);
  EXPECT_EQ(dtype("bfloat16"), DType::kBF16);
  EXPECT_EQ(dtype("float16"), DType::kF16);
  EXPECT_EQ(dtype("half"), DType::kF16);
  EXPECT_EQ(dtype("float32"), DType::kF32);
  EXPECT_EQ(dtype("float"), DType::kF32);
}

TEST(SettingsTest, ASeedIsForDummyWeightsToo) {
  EXPECT_EQ(ToEngineConfig(Parse({}), "folder").seed, 0);
  EXPECT_EQ(ToEngineConfig(Parse({"--seed", "5"}), "folder").seed, 5);
}

TEST(SettingsTest, AutotuneCanBeTurnedOff) {
  EXPECT_TRUE(ToEngineConfig(Parse({}), "folder").autotune);
  EXPECT_FALSE(ToEngineConfig(Parse({"--no-autotune"}), "folder").autotune);
}

TEST(SettingsTest, JsonValuesOfEveryKind) {
  CommandLine line;
  const Settings& settings = line.settings;
  ASSERT_TRUE(ApplyJson(R"({"model": "m", "device": "cuda", "max_model_len": 128, "block_size": 64,
                           "gpu_memory_utilization": 1, "async_scheduling": false})",
                        &line)
                  .ok());
  EXPECT_EQ(settings.model, "m");
  EXPECT_EQ(settings.device, "cuda");
  EXPECT_EQ(settings.max_model_len, 128);
  EXPECT_EQ(settings.block_size, 64);
  EXPECT_DOUBLE_EQ(settings.gpu_memory_utilization, 1.0);
  EXPECT_FALSE(settings.async_scheduling);
}

TEST(SettingsTest, JsonOfWhichOnlyAPartWouldCountIsRefused) {
  EXPECT_THAT(JsonError(R"({"port": 1, "host": "a", "port": 2})"),
              HasSubstr("key \"port\" appears twice"));
  EXPECT_THAT(JsonError(std::string("{\"port\": 1}\0{\"port\": 2}", 23)), HasSubstr("a NUL"));
  EXPECT_THAT(JsonError(std::string("{\"port\": 1}\n\0", 13)), HasSubstr("byte 13: a NUL"));
  EXPECT_THAT(JsonError(R"({"host": "127.0.0.1\u0000.example"})"),
              HasSubstr("\"host\": must have no NUL"));
}

TEST(SettingsTest, WrongFlagsAreNamed) {
  EXPECT_THAT(ParseError({"--max-num-sequences", "4"}), HasSubstr("did you mean --max-num-seqs?"));
  EXPECT_THAT(ParseError({"--prot=1"}), AllOf(HasSubstr("--prot"), HasSubstr("--port")));
  EXPECT_THAT(ParseError({"--entirely-unlike-anything"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(ParseError({"--port"}), HasSubstr("--port: a value must follow"));
  EXPECT_THAT(ParseError({"--port", "--host"}), HasSubstr("--port: a value must follow"));
}

TEST(SettingsTest, ValuesOutOfRangeAreNamedWithTheRange) {
  EXPECT_THAT(ParseError({"--port", "65536"}), AllOf(HasSubstr("--port"), HasSubstr("0 .. 65535")));
  EXPECT_THAT(ParseError({"--port", "12x"}), HasSubstr("\"12x\""));
  EXPECT_THAT(ParseError({"--device", "tpu"}), HasSubstr("auto | cpu | cuda"));
  EXPECT_THAT(ParseError({"--block-size", "24"}), HasSubstr("16 | 32 | 64"));
  EXPECT_THAT(ParseError({"--gpu-memory-utilization", "nan"}), HasSubstr("0.01 .. 1"));
  EXPECT_THAT(ParseError({"--tensor-parallel-size", "2"}), HasSubstr("1 only"));
  EXPECT_THAT(ParseError({"--port", "-1"}), HasSubstr("\"-1\""));
  EXPECT_THAT(ParseError({"--port", std::string(1000, '9')}), SizeIs(Lt(300)));
  EXPECT_THAT(ParseError({"--max-num-seqs", "64", "--max-num-batched-tokens", "32"}),
              AllOf(HasSubstr("--max-num-batched-tokens"), HasSubstr("--max-num-seqs")));
  EXPECT_THAT(ParseError({"--skip-tokenizer-init", "--chat-template", "x"}),
              AllOf(HasSubstr("--chat-template"), HasSubstr("--skip-tokenizer-init")));
}

TEST(SettingsTest, MistakesInTheFileAreNamed) {
  EXPECT_THAT(JsonError("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(JsonError("[1]"), HasSubstr("must hold one JSON object"));
  EXPECT_THAT(JsonError(R"({"max_num_sequences": 1})"), HasSubstr("did you mean \"max_num_seqs\""));
  EXPECT_THAT(JsonError(R"({"max-num-seqs": 1})"), HasSubstr("unknown key \"max-num-seqs\""));
  EXPECT_THAT(JsonError(R"({"port": "8000"})"), AllOf(HasSubstr("port"), HasSubstr("wrong type")));
  EXPECT_THAT(JsonError(R"({"port": 8000.5})"), HasSubstr("wrong type"));
  EXPECT_THAT(JsonError(R"({"port": 70000})"), HasSubstr("0 .. 65535"));
  EXPECT_THAT(JsonError(R"({"enforce_eager": 1})"), HasSubstr("true | false"));
  EXPECT_THAT(JsonError(R"({"trust_remote_code": true})"), HasSubstr("not needed"));
  EXPECT_THAT(ParseError({"--config", "/nonexistent.json"}), HasSubstr("/nonexistent.json"));
  EXPECT_THAT(ParseError({"--config", testing::TempDir()}), HasSubstr("is a folder"));
  EXPECT_THAT(ParseError({"--config", WriteFile(std::string(2 << 20, ' '))}),
              HasSubstr("at most 1,048,576 are read"));
  EXPECT_THAT(ParseError({"--config", WriteFile("")}), HasSubstr("not valid JSON"));
  const std::string path = WriteFile(R"({"port": -1})");
  EXPECT_THAT(ParseError({"--config", path}), AllOf(HasSubstr(path), HasSubstr("\"port\"")));
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

TEST(SettingsTest, AHealthCheckTakesSettingsAndNoValue) {
  const auto line = ParseCommandLine({"--check-health", "--port", "9"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->checks_health);
  EXPECT_EQ(line->settings.port, 9);
  EXPECT_FALSE(ParseCommandLine({"--port", "9"})->checks_health);
  EXPECT_THAT(ParseError({"--check-health=yes"}), HasSubstr("--check-health: takes no value"));
  EXPECT_THAT(ParseError({"--check-healt"}), HasSubstr("--check-health"));
}

TEST(ExitCodeTest, StartFailures) {
  EXPECT_EQ(StartFailureCode(absl::OutOfRangeError("")), ExitCode::kUsage);
  EXPECT_EQ(StartFailureCode(absl::NotFoundError("")), ExitCode::kModelFiles);
  EXPECT_EQ(StartFailureCode(absl::InvalidArgumentError("")), ExitCode::kModelFiles);
  EXPECT_EQ(StartFailureCode(absl::UnimplementedError("")), ExitCode::kModelFiles);
  EXPECT_EQ(StartFailureCode(absl::UnavailableError("")), ExitCode::kUnavailable);
  EXPECT_EQ(StartFailureCode(absl::ResourceExhaustedError("")), ExitCode::kUnavailable);
  EXPECT_EQ(StartFailureCode(absl::InternalError("")), ExitCode::kEngineFailure);
}

}  // namespace
}  // namespace quire
