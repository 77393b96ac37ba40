// Loading of Tokenizer: the files of a model folder and how their parts fit together.
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "engine/json/model_file.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/file/components.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/file/tokenizer_file.h"
#include "server/text/tokenizer/models/bpe_model.h"
#include "server/text/tokenizer/models/unigram_model.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {
namespace {

constexpr char kTokenizerFile[] = "tokenizer.json";
constexpr int64_t kMaxTokenizerFileBytes = int64_t{256} << 20;
constexpr int64_t kMaxConfigFileBytes = int64_t{64} << 20;

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

// The file's text; empty where it is not there.
absl::StatusOr<std::string> ReadOptional(const std::string& folder, const char* name) {
  absl::StatusOr<std::string> text = ReadModelFile(folder, name, kMaxConfigFileBytes);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const std::string& model_folder) {
  ASSIGN_OR_RETURN(const std::string tokenizer_json,
                   ReadModelFile(model_folder, kTokenizerFile, kMaxTokenizerFileBytes));
  ASSIGN_OR_RETURN(const std::string config_json,
                   ReadOptional(model_folder, "tokenizer_config.json"));
  ASSIGN_OR_RETURN(const std::string map_json,
                   ReadOptional(model_folder, "special_tokens_map.json"));
  ASSIGN_OR_RETURN(const std::string added_json, ReadOptional(model_folder, "added_tokens.json"));
  absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer =
      FromJson(tokenizer_json, config_json, map_json, added_json);
  if (!tokenizer.ok()) return Prefixed(tokenizer.status(), model_folder, ": ");
  return tokenizer;
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(
    std::string_view tokenizer_json, std::string_view config_json,
    std::string_view special_tokens_map_json, std::string_view added_tokens_json) {
  ASSIGN_OR_RETURN(const TokenSettings settings,
                   TokenSettings::Parse(config_json, special_tokens_map_json, added_tokens_json));
  std::shared_ptr<Tokenizer> tokenizer(new Tokenizer());
  RETURN_IF_ERROR(
      Prefixed(tokenizer->ReadTokenizer(tokenizer_json, settings), kTokenizerFile, ": "));
  for (const auto& [key, named, id] :
       {std::tuple("bos_token", &settings.bos, &tokenizer->bos_id_),
        std::tuple("eos_token", &settings.eos, &tokenizer->eos_id_)}) {
    if (named->text.empty()) continue;
    *id = tokenizer->TokenToId(named->text);
    if (!id->has_value()) {
      return InvalidArgument(named->file, ": \"", key, "\" is \"", named->text, "\", which ",
                             kTokenizerFile, " does not have");
    }
  }
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

absl::Status Tokenizer::ReadTokenizer(std::string_view json, const TokenSettings& settings) {
  ASSIGN_OR_RETURN(const TokenizerFile file, TokenizerFile::Parse(json));
  const nlohmann::json& rest = file.rest();
  ASSIGN_OR_RETURN(normalizer_, Normalizer::Parse(Member(rest, "normalizer")));
  ASSIGN_OR_RETURN(pre_tokenizer_, PreTokenizer::Parse(Member(rest, "pre_tokenizer")));
  ASSIGN_OR_RETURN(post_processor_, PostProcessor::Parse(Member(rest, "post_processor")));
  ASSIGN_OR_RETURN(decoder_, TokenDecoder::Parse(Member(rest, "decoder")));
  RETURN_IF_ERROR(vocabulary_.Fill(file.VocabTexts(), file.vocab_ids()));
  ASSIGN_OR_RETURN(added_, AddedTokens::Parse(Member(rest, "added_tokens"), &vocabulary_));
  for (const AddedTokenSetting& setting : settings.added) {
    RETURN_IF_ERROR(added_.Add(setting, &vocabulary_));
  }
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

}  // namespace quire
