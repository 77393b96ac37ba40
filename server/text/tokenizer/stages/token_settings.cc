#include "server/text/tokenizer/stages/token_settings.h"

#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "engine/json/json_reader.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/file/components.h"
#include "server/text/tokenizer/file/errors.h"

namespace quire {
namespace {

using Json = nlohmann::json;

constexpr char kConfigFile[] = "tokenizer_config.json";
constexpr char kMapFile[] = "special_tokens_map.json";
constexpr char kAddedFile[] = "added_tokens.json";
constexpr char kDecoder[] = "added_tokens_decoder";

absl::StatusOr<Json> ParseFile(std::string_view text, const char* name) {
  if (text.empty()) return Json::object();
  return ParseModelJson({text.data(), text.size()}, name);
}

// "<s>", or {"content": "<s>"} with the flags of an added token.
absl::StatusOr<AddedToken> ParseToken(const Json& value, const std::string& where) {
  AddedToken token = {};
  token.id = kNoToken;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    return token;
  }
  if (!value.is_object()) {
    return InvalidArgument(where, " must be a string or an object with \"content\", not ",
                           Shown(value));
  }
  ASSIGN_OR_RETURN(token.content, GetString(value, "content", where));
  ASSIGN_OR_RETURN(token.single_word, GetBool(value, "single_word", false, where));
  ASSIGN_OR_RETURN(token.lstrip, GetBool(value, "lstrip", false, where));
  ASSIGN_OR_RETURN(token.rstrip, GetBool(value, "rstrip", false, where));
  ASSIGN_OR_RETURN(token.special, GetBool(value, "special", false, where));
  ASSIGN_OR_RETURN(token.normalized, GetBool(value, "normalized", !token.special, where));
  return token;
}

// Whether a key such as "pad_token" or "image_token" names a token; "add_bos_token" does not.
bool NamesToken(const std::string& key, const Json& value) {
  return absl::EndsWith(key, "_token") && (value.is_string() || value.is_object());
}

class SettingsReader {
 public:
  SettingsReader(const Json& config, const Json& map, const Json& added)
      : config_(config), map_(map), added_(added) {}

  absl::StatusOr<TokenSettings> Read() {
    if (Member(config_, "split_special_tokens") == true) {
      return Unimplemented(kConfigFile,
                           ": \"split_special_tokens\": true is not supported, as chat "
                           "templates need special tokens; set it to false");
    }
    ASSIGN_OR_RETURN(result_.bos, ReadNamed("bos_token"));
    ASSIGN_OR_RETURN(result_.eos, ReadNamed("eos_token"));
    RETURN_IF_ERROR(ReadDecoder());
    for (const Json* file : Files()) {
      for (const auto& [key, value] : file->items()) {
        if (!NamesToken(key, value)) continue;
        RETURN_IF_ERROR(AddSpecial(value, IfKnown::kMakeSpecial, Place(*file, key)));
      }
      for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
        RETURN_IF_ERROR(ReadSpecialTokens(*file, key));
      }
    }
    RETURN_IF_ERROR(ReadAddedTokens());
    return std::move(result_);
  }

 private:
  // Those that count, the stronger one first.
  std::vector<const Json*> Files() const {
    if (config_.contains(kDecoder)) return {&config_};
    return {&map_, &config_};
  }
  std::string_view Name(const Json& file) const { return &file == &map_ ? kMapFile : kConfigFile; }
  std::string Place(const Json& file, std::string_view key) const {
    return Concat(Name(file), ": ", key);
  }

  absl::StatusOr<NamedToken> ReadNamed(const char* key) const {
    for (const Json* file : Files()) {
      if (!file->contains(key)) continue;
      const Json& value = Member(*file, key);
      if (value.is_null()) return NamedToken();
      ASSIGN_OR_RETURN(AddedToken token, ParseToken(value, Place(*file, key)));
      return NamedToken{std::move(token.content), Name(*file)};
    }
    return NamedToken();
  }

  // The flags are tokenizer.json's, where that has the token.
  absl::Status AddSpecial(const Json& value, IfKnown if_known, const std::string& where) {
    ASSIGN_OR_RETURN(AddedToken token, ParseToken(value, where));
    token.special = true;
    token.normalized = false;
    result_.added.push_back({std::move(token), if_known, /*may_be_new=*/false});
    return absl::OkStatus();
  }

  // A list, or an object whose values are tokens with an office, as those of other keys.
  absl::Status ReadSpecialTokens(const Json& file, const char* key) {
    const Json& tokens = Member(file, key);
    if (!tokens.is_structured()) return absl::OkStatus();
    const IfKnown if_known = tokens.is_object() ? IfKnown::kMakeSpecial : IfKnown::kKeep;
    for (const Json& token : tokens) {
      RETURN_IF_ERROR(AddSpecial(token, if_known, Place(file, key)));
    }
    return absl::OkStatus();
  }

  absl::Status ReadDecoder() {
    const Json& decoder = Member(config_, kDecoder);
    if (decoder.is_null()) return absl::OkStatus();
    const std::string where = Place(config_, kDecoder);
    if (!decoder.is_object()) return InvalidArgument(where, " must be an object");
    std::map<int64_t, AddedToken> by_id;
    for (const auto& [id, value] : decoder.items()) {
      int64_t number = 0;
      if (!absl::SimpleAtoi(id, &number))
        return InvalidArgument(where, ": ", Shown(id), " is no id");
      ASSIGN_OR_RETURN(by_id[number], ParseToken(value, Concat(where, ": ", id)));
    }
    for (auto& [id, token] : by_id) {
      result_.added.push_back({std::move(token), IfKnown::kReplace, /*may_be_new=*/true});
    }
    return absl::OkStatus();
  }

  // {"<image>": 32000}: of tokens that tokenizer.json has it says nothing new.
  absl::Status ReadAddedTokens() {
    if (config_.contains(kDecoder)) return absl::OkStatus();
    absl::flat_hash_set<std::string> special;
    for (const AddedTokenSetting& setting : result_.added) special.insert(setting.token.content);
    std::multimap<int64_t, std::string> by_id;
    for (const auto& [content, id] : added_.items()) {
      ASSIGN_OR_RETURN(const int64_t number,
                       GetCount(added_, content.c_str(), kMaxTokenId, kAddedFile));
      by_id.emplace(number, content);
    }
    for (const auto& [id, content] : by_id) {
      AddedToken token = {};
      token.id = kNoToken;
      token.content = content;
      token.special = special.contains(content);
      token.normalized = !token.special;
      result_.added.push_back({std::move(token), IfKnown::kKeep, /*may_be_new=*/true});
    }
    return absl::OkStatus();
  }

  const Json& config_;
  const Json& map_;
  const Json& added_;
  TokenSettings result_;
};

}  // namespace

absl::StatusOr<TokenSettings> TokenSettings::Parse(std::string_view config_json,
                                                   std::string_view special_tokens_map_json,
                                                   std::string_view added_tokens_json) {
  ASSIGN_OR_RETURN(const Json config, ParseFile(config_json, kConfigFile));
  ASSIGN_OR_RETURN(const Json map, ParseFile(special_tokens_map_json, kMapFile));
  ASSIGN_OR_RETURN(const Json added, ParseFile(added_tokens_json, kAddedFile));
  return SettingsReader(config, map, added).Read();
}

}  // namespace quire
