#include "engine/model/config/rope_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/model/test_configs.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(RopeConfig, V4TypeKeyAndTopLevelValues) {
  json config = Sparse("llama");
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  config["partial_rotary_factor"] = 0.5;
  const ModelConfig c = Parse(config);
  EXPECT_EQ(c.ropes[0].type, RopeType::kLinear);
  EXPECT_EQ(c.ropes[0].factor, 2.0);
  EXPECT_EQ(c.ropes[0].partial_rotary_factor, 0.5);
  EXPECT_EQ(c.ropes[0].rotary_dim, 64);
}

TEST(RopeConfig, YarnOptions) {
  json config = Sparse("qwen3");
  config["max_position_embeddings"] = 4096;
  config["rope_parameters"] = {
      {"rope_type", "yarn"},     {"factor", nullptr},
      {"mscale", 0.7},           {"original_max_position_embeddings", 1024},
      {"beta_fast", 16},         {"beta_slow", 2},
      {"mscale_all_dim", 0.5},   {"truncate", false},
      {"attention_factor", 1.25}};
  const RopeConfig rope = Parse(config).ropes[0];
  EXPECT_EQ(rope.factor, 4.0);  // 4096 / 1024
  EXPECT_EQ(rope.beta_fast, 16.0);
  EXPECT_EQ(rope.beta_slow, 2.0);
  EXPECT_EQ(rope.mscale, 0.7);
  EXPECT_EQ(rope.mscale_all_dim, 0.5);
  EXPECT_EQ(rope.attention_factor, 1.25);
  EXPECT_FALSE(rope.truncate);
}

TEST(RopeConfig, StretchedRopeMakesLongerSequences) {
  json config = Sparse("qwen2");
  config["max_position_embeddings"] = 4096;
  EXPECT_EQ(MaxSequenceLength(Parse(config)), 4096);
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(MaxSequenceLength(Parse(config)), 8192);
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 2048}};
  EXPECT_EQ(MaxSequenceLength(Parse(config)), 8192);
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 1024}};
  EXPECT_EQ(MaxSequenceLength(Parse(config)), 4096);
}

// Gemma 3's 131,072 positions are what its linear factor of 8 makes of 16,384.
TEST(RopeConfig, SomeFamiliesCountPositionsAfterStretching) {
  json config = Sparse("gemma3_text");
  config["max_position_embeddings"] = 131072;
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  EXPECT_EQ(MaxSequenceLength(Parse(config)), 131072);
}

TEST(RopeConfig, ParametersBesideRopeScaling) {
  json config = Sparse("llama");
  config["rope_theta"] = 5000.0;
  config["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_EQ(Parse(config).ropes[0].theta, 5000.0);
  config["rope_parameters"]["rope_theta"] = 7000.0;
  EXPECT_EQ(Parse(config).ropes[0].theta, 7000.0);
  config["original_max_position_embeddings"] = 512;  // beside the parameters, and then it counts
  config["rope_parameters"] = {
      {"rope_type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 1024}};
  EXPECT_EQ(Parse(config).ropes[0].original_max_position_embeddings, 512);
}

TEST(RopeConfig, KeyedByLayerType) {
  json config = Sparse("llama");
  config["num_hidden_layers"] = 2;
  config["sliding_window"] = 7;
  config["layer_types"] = {"full_attention", "sliding_attention"};
  const json linear = {{"rope_type", "linear"}, {"rope_theta", 300.0}, {"factor", 3}};
  config["rope_parameters"] = {{"full_attention", linear}, {"sliding_attention", linear}};
  EXPECT_EQ(Parse(config).ropes[0].theta, 300.0);
  EXPECT_EQ(Parse(config).ropes.size(), 1);  // one table serves both
  config["rope_parameters"]["sliding_attention"]["factor"] = 4;
  EXPECT_EQ(Parse(config).ropes[0].factor, 3);
  EXPECT_EQ(Parse(config).ropes[1].factor, 4);
  config["rope_parameters"]["sliding_attention"]["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(Parse(config).ropes[0].rotary_dim, 128);
  EXPECT_EQ(Parse(config).ropes[1].rotary_dim, 64);
  EXPECT_EQ(Parse(config).ropes[1].pair_distance, 32);
  config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(Parse(config).ropes.size(), 1);  // no table that nobody reads
}

// Some of the pairs of a whole head, each with the frequency that it has among all.
TEST(RopeConfig, ProportionalRopeTurnsPairsOfWholeHeads) {
  json config = Sparse("llama");
  const json proportional = {
      {"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}};
  config["rope_parameters"] = proportional;
  const RopeConfig rope = Parse(config).ropes[0];
  EXPECT_EQ(rope.type, RopeType::kProportional);
  EXPECT_EQ(rope.factor, 1.0);
  EXPECT_EQ(rope.rotary_dim, 32);
  EXPECT_EQ(rope.pair_distance, 64);
  config["rope_parameters"]["factor"] = 8;
  EXPECT_EQ(Parse(config).ropes[0].factor, 8.0);
  EXPECT_EQ(MaxSequenceLength(Parse(config)), 2048);  // positions are not stretched
  config["rope_parameters"].erase("partial_rotary_factor");
  EXPECT_EQ(Parse(config).ropes[0].rotary_dim, 128);
  config["rope_parameters"]["partial_rotary_factor"] = 0.01;
  EXPECT_THAT(Error(config).message(), HasSubstr("head_dim * partial_rotary_factor is 0"));
}

TEST(RopeConfig, Gemma3ScalesItsFullLayersAlone) {
  json config = Sparse("gemma3_text");
  EXPECT_EQ(Parse(config).ropes[0].theta, 1e6);
  EXPECT_EQ(Parse(config).ropes[1].theta, 10000.0);
  config["rope_theta"] = 5e5;
  config["rope_local_base_freq"] = 2000.0;
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
  const ModelConfig parsed = Parse(config);
  EXPECT_EQ(parsed.ropes[0].theta, 5e5);
  EXPECT_EQ(parsed.ropes[0].type, RopeType::kLinear);
  EXPECT_EQ(parsed.ropes[1].theta, 2000.0);
  EXPECT_EQ(parsed.ropes[1].type, RopeType::kDefault);
}

TEST(RopeConfig, LayersNameTheRopeOfTheirType) {
  const auto ropes_of = [](const json& config) {
    std::vector<int> ropes;
    for (const LayerConfig& layer : Parse(config).layers) ropes.push_back(layer.gqa.rope);
    return ropes;
  };
  json config = Sparse("gemma3_text");
  config["num_hidden_layers"] = 4;
  config["sliding_window_pattern"] = 2;
  EXPECT_THAT(ropes_of(config), ElementsAre(1, 0, 1, 0));
  config["rope_parameters"] = {{"full_attention", {{"rope_theta", 300.0}}},
                               {"sliding_attention", {{"rope_theta", 300.0}}}};
  EXPECT_THAT(ropes_of(config), ElementsAre(0, 0, 0, 0));
  config = {{"model_type", "smollm3"},
            {"num_hidden_layers", 4},
            {"sliding_window", 7},
            {"use_sliding_window", true},
            {"no_rope_layers", {1, 0, 1, 0}},
            {"layer_types",
             {"full_attention", "full_attention", "sliding_attention", "sliding_attention"}},
            {"rope_parameters",
             {{"full_attention", {{"rope_theta", 300.0}}},
              {"sliding_attention", {{"rope_theta", 400.0}}}}}};
  EXPECT_THAT(ropes_of(config), ElementsAre(0, -1, 1, -1));
}

TEST(RopeConfig, Cohere2HasRopeInWindowsOnly) {
  const auto ropes_of = [](const json& config) {
    std::vector<int> ropes;
    for (const LayerConfig& layer : Parse(config).layers) ropes.push_back(layer.gqa.rope);
    return ropes;
  };
  json config = Sparse("cohere2");
  config["num_hidden_layers"] = 4;
  EXPECT_THAT(ropes_of(config), ElementsAre(0, 0, 0, -1));
  EXPECT_EQ(Parse(config).ropes[0].pair_distance, 1);
  EXPECT_EQ(Parse(config).ropes[0].rotary_dim, 128);
  config["sliding_window"] = nullptr;  // unlike EXAONE 4
  EXPECT_THAT(ropes_of(config), ElementsAre(-1, -1, -1, -1));
}

TEST(RopeConfig, Ministral3ScalesQueries) {
  const RopeConfig absent = Parse(Sparse("ministral3")).ropes[0];
  EXPECT_EQ(absent.type, RopeType::kYarn);
  EXPECT_EQ(absent.theta, 1e6);
  EXPECT_EQ(absent.factor, 16);
  EXPECT_EQ(absent.mscale, absent.mscale_all_dim);
  EXPECT_EQ(absent.query_scale_beta, 0.1);
  EXPECT_EQ(absent.original_max_position_embeddings, 16384);
  json config = Sparse("ministral3");
  config["rope_parameters"] = {{"rope_type", "default"},
                               {"llama_4_scaling_beta", 0.25},
                               {"original_max_position_embeddings", 4096}};
  EXPECT_EQ(Parse(config).ropes[0].type, RopeType::kDefault);
  EXPECT_EQ(Parse(config).ropes[0].query_scale_beta, 0.25);
  EXPECT_EQ(Parse(config).ropes[0].original_max_position_embeddings, 4096);
  config["rope_parameters"]["llama_4_scaling_beta"] = -1;
  EXPECT_THAT(Error(config).message(), HasSubstr("rope_parameters: llama_4_scaling_beta is -1"));
  config["model_type"] = "mistral";  // knows no such key
  EXPECT_EQ(Parse(config).ropes[0].query_scale_beta, 0);
}

TEST(RopeConfig, Glm4RotatesNeighboursOfHalfAHead) {
  json config = Sparse("glm4");
  EXPECT_EQ(Parse(config).ropes[0].rotary_dim, 64);
  EXPECT_EQ(Parse(config).ropes[0].pair_distance, 1);
  config["partial_rotary_factor"] = 0.25;  // v4
  EXPECT_EQ(Parse(config).ropes[0].rotary_dim, 32);
  config["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 1}};
  EXPECT_EQ(Parse(config).ropes[0].rotary_dim, 128);
  EXPECT_EQ(Parse(config).ropes[0].pair_distance, 1);
}

// Scaling is of the layers without a window.
TEST(RopeConfig, Olmo3ScalesItsFullLayersAlone) {
  json config = Sparse("olmo3");
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 8192}};
  const ModelConfig c = Parse(config);
  EXPECT_EQ(c.ropes[c.layers[3].gqa.rope].type, RopeType::kYarn);
  EXPECT_EQ(c.ropes[c.layers[0].gqa.rope].type, RopeType::kDefault);
  EXPECT_EQ(c.ropes[c.layers[0].gqa.rope].theta, 5e5);
  EXPECT_EQ(MaxSequenceLength(c), 65536);
}

TEST(RopeConfig, Exaone4HasRopeInWindowsWhereThereAreSome) {
  const auto ropes_of = [](const json& config) {
    std::vector<int> ropes;
    for (const LayerConfig& layer : Parse(config).layers) ropes.push_back(layer.gqa.rope);
    return ropes;
  };
  json config = Sparse("exaone4");
  config["num_hidden_layers"] = 4;
  EXPECT_THAT(ropes_of(config), ElementsAre(0, 0, 0, -1));
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention",
                           "full_attention"};
  EXPECT_THAT(ropes_of(config), ElementsAre(-1, 0, -1, -1));
  config["layer_types"] = std::vector<std::string>(4, "full_attention");
  config["sliding_window"] = nullptr;
  EXPECT_THAT(ropes_of(config), ElementsAre(0, 0, 0, 0));
}

// The factors are checked for the layers with a window, too.
TEST(RopeConfig, LongRopeNeedsAFactorPerPair) {
  json config = Sparse("phi3");
  config["original_max_position_embeddings"] = 2048;
  json& rope = config["rope_scaling"];
  rope = {{"type", "su"}, {"short_factor", std::vector<double>(48, 1.5)}};
  EXPECT_THAT(Error(config).message(), HasSubstr("long_factor must be a list of numbers"));
  rope["long_factor"] = std::vector<double>(47, 2.0);
  EXPECT_THAT(Error(config).message(), HasSubstr("must have 48 entries"));
  rope["long_factor"] = std::vector<double>(48, 2.0);
  EXPECT_EQ(Parse(config).ropes[0].type, RopeType::kLongRope);
  EXPECT_EQ(Parse(config).ropes[0].factor, 2.0);  // 4096 / 2048
  rope["long_factor"][5] = -1;
  EXPECT_THAT(Error(config).message(), HasSubstr("long_factor: -1 is not a number above 0"));
  rope["long_factor"] = std::vector<double>(47, 2.0);
  const json sliding = rope;
  config["sliding_window"] = 7;
  rope = {{"full_attention", {{"rope_theta", 300.0}}}, {"sliding_attention", sliding}};
  EXPECT_THAT(Error(config).message(), HasSubstr("must have 48 entries"));
}

}  // namespace
}  // namespace quire
