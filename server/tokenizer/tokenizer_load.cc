// Loading of Tokenizer: the two files of a model folder and how their parts fit together.
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "engine/json/json_reader.h"
#include "engine/json/small_file.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/tokenizer/file/components.h"
#include "server/tokenizer/file/errors.h"
#include "server/tokenizer/file/tokenizer_file.h"
#include "server/tokenizer/models/bpe_model.h"
#include "server/tokenizer/models/unigram_model.h"
#include "server/tokenizer/tokenizer.h"

namespace quire {
namespace {

constexpr char kTokenizerFile[] = "tokenizer.json";
constexpr char kConfigFile[] = "tokenizer_config.json";
constexpr int64_t kMaxTokenizerFileBytes = int64_t{256} << 20;
constexpr int64_t kMaxConfigFileBytes = int64_t{16} << 20;

// A text setting of the model where missing, null and "" mean none.
absl::StatusOr<std::string> OptionalString(const nlohmann::json& object, const char* key) {
  if (Member(object, key).is_null()) return std::string();
  return GetString(object, key, "model");
}

absl::StatusOr<BpeOptions> ParseBpeOptions(const nlohmann::json& model) {
  BpeOptions options;
  ASSIGN_OR_RETURN(options.unk_token, OptionalString(model, "unk_token"));
  ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                   OptionalString(model, "continuing_subword_prefix"));
  ASSIGN_OR_RETURN(options.end_of_word_suffix, OptionalString(model, "end_of_word_suffix"));
  ASSIGN_OR_RETURN(options.fuse_unk, GetBool(model, "fuse_unk", false, "model"));
  ASSIGN_OR_RETURN(options.byte_fallback, GetBool(model, "byte_fallback", false, "model"));
  ASSIGN_OR_RETURN(options.ignore_merges, GetBool(model, "ignore_merges", false, "model"));
  const nlohmann::json& dropout = Member(model, "dropout");
  if (!dropout.is_null() && dropout != 0) {
    return Unimplemented("model: \"dropout\" is for training; set it to null");
  }
  return options;
}

absl::StatusOr<UnigramOptions> ParseUnigramOptions(const nlohmann::json& model,
                                                   const TokenizerFile& file) {
  if (file.vocab_scores().empty()) {
    return InvalidArgument(
        "model: Unigram needs a \"vocab\" that lists pairs of a text and a score");
  }
  UnigramOptions options;
  options.texts = file.VocabTexts();
  options.scores = file.vocab_scores();
  // There is always text that no vocabulary of scored pieces can spell.
  const int64_t max_id = static_cast<int64_t>(options.texts.size()) - 1;
  ASSIGN_OR_RETURN(const int64_t unk_id, GetCount(model, "unk_id", max_id, "model"));
  options.unk_id = static_cast<TokenId>(unk_id);
  ASSIGN_OR_RETURN(options.byte_fallback, GetBool(model, "byte_fallback", false, "model"));
  return options;
}

// The text of a token setting such as "bos_token": "<s>" or {"content": "<s>"}; empty where there
// is none.
absl::StatusOr<std::string> TokenSetting(const nlohmann::json& config, const char* key) {
  const nlohmann::json& value = Member(config, key);
  if (value.is_null()) return std::string();
  if (value.is_object()) return GetString(value, "content", Concat(kConfigFile, ": ", key));
  return GetString(config, key, kConfigFile);
}

// Makes `ids`, those before or after a text, begin or end with `id` exactly when `wanted` says so.
void SetOuterToken(std::optional<TokenId> id, const nlohmann::json& wanted,
                   std::vector<TokenId>* ids) {
  if (!wanted.is_boolean() || !id.has_value()) return;
  ids->erase(std::remove(ids->begin(), ids->end(), *id), ids->end());
  if (wanted == true) ids->push_back(*id);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const std::string& model_folder) {
  ASSIGN_OR_RETURN(
      const std::string tokenizer_json,
      ReadSmallFile(Concat(model_folder, "/", kTokenizerFile), kMaxTokenizerFileBytes));
  absl::StatusOr<std::string> config_json =
      ReadSmallFile(Concat(model_folder, "/", kConfigFile), kMaxConfigFileBytes);
  if (!config_json.ok() && !absl::IsNotFound(config_json.status())) return config_json.status();
  absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer =
      FromJson(tokenizer_json, config_json.ok() ? *config_json : std::string());
  if (!tokenizer.ok()) return Prefixed(tokenizer.status(), model_folder, ": ");
  return tokenizer;
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(
    std::string_view tokenizer_json, std::string_view config_json) {
  std::shared_ptr<Tokenizer> tokenizer(new Tokenizer());
  RETURN_IF_ERROR(Prefixed(tokenizer->ReadTokenizer(tokenizer_json), kTokenizerFile, ": "));
  if (!config_json.empty()) RETURN_IF_ERROR(tokenizer->ReadConfig(config_json));
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

absl::Status Tokenizer::ReadTokenizer(std::string_view json) {
  ASSIGN_OR_RETURN(const TokenizerFile file, TokenizerFile::Parse(json));
  const nlohmann::json& rest = file.rest();
  ASSIGN_OR_RETURN(normalizer_, Normalizer::Parse(Member(rest, "normalizer")));
  ASSIGN_OR_RETURN(pre_tokenizer_, PreTokenizer::Parse(Member(rest, "pre_tokenizer")));
  ASSIGN_OR_RETURN(post_processor_, PostProcessor::Parse(Member(rest, "post_processor")));
  ASSIGN_OR_RETURN(decoder_, Decoder::Parse(Member(rest, "decoder")));
  RETURN_IF_ERROR(vocabulary_.Fill(file.VocabTexts(), file.vocab_ids()));
  ASSIGN_OR_RETURN(added_, AddedTokens::Parse(Member(rest, "added_tokens"), &vocabulary_));
  RETURN_IF_ERROR(added_.Index(normalizer_));
  return ReadModel(file);
}

absl::Status Tokenizer::ReadModel(const TokenizerFile& file) {
  const nlohmann::json& model = Member(file.rest(), "model");
  ASSIGN_OR_RETURN(const std::string type,
                   model.contains("type") ? GetString(model, "type", "model") : "BPE");
  if (type == "Unigram") {
    if (pre_tokenizer_.is_byte_level()) {
      return Unimplemented(
          "the model type \"Unigram\" after the pre_tokenizer \"ByteLevel\" is not ", "supported");
    }
    ASSIGN_OR_RETURN(const UnigramOptions options, ParseUnigramOptions(model, file));
    ASSIGN_OR_RETURN(model_, UnigramModel::Create(options, added_.special_ids()));
    return absl::OkStatus();
  }
  if (type != "BPE") {
    return Unimplemented("the model type \"", type, "\" is not supported; use BPE or Unigram");
  }
  if (file.vocab_ids().empty() || !file.vocab_scores().empty()) {
    return InvalidArgument("model: BPE needs a \"vocab\" that maps texts to ids");
  }
  ASSIGN_OR_RETURN(BpeOptions options, ParseBpeOptions(model));
  options.is_byte_level = pre_tokenizer_.is_byte_level();
  ASSIGN_OR_RETURN(model_, BpeModel::Create(&vocabulary_, std::move(options), file.Merges(),
                                            added_.special_ids()));
  return absl::OkStatus();
}

absl::Status Tokenizer::ReadConfig(std::string_view json) {
  ASSIGN_OR_RETURN(
      const nlohmann::json config,
      ParseJsonObject({json.data(), json.size()}, kConfigFile, DuplicateKeys::kLastWins));
  for (const auto& [key, id] :
       {std::pair("bos_token", &bos_id_), std::pair("eos_token", &eos_id_)}) {
    ASSIGN_OR_RETURN(const std::string token, TokenSetting(config, key));
    if (token.empty()) continue;
    *id = TokenToId(token);
    if (!id->has_value()) {
      return InvalidArgument(kConfigFile, ": \"", key, "\" is \"", token, "\", which ",
                             kTokenizerFile, " does not have");
    }
  }
  SetOuterToken(bos_id_, Member(config, "add_bos_token"), &post_processor_.prefix);
  SetOuterToken(eos_id_, Member(config, "add_eos_token"), &post_processor_.suffix);
  return absl::OkStatus();
}

}  // namespace quire
