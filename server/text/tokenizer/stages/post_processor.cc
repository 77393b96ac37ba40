#include "server/text/tokenizer/stages/post_processor.h"

#include <string>

#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/file/components.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/models/vocabulary.h"

namespace quire {
namespace {

constexpr char kTemplate[] = "post_processor TemplateProcessing";

absl::StatusOr<TokenId> AsTokenId(const nlohmann::json& json, std::string_view where) {
  const uint64_t* id = json.get_ptr<const uint64_t*>();
  if (id == nullptr || *id > static_cast<uint64_t>(kMaxTokenId)) {
    return InvalidArgument(where, ": a token id must be from 0 to ", kMaxTokenId);
  }
  return static_cast<TokenId>(*id);
}

// Appends the ids that the template's special token `piece` stands for.
absl::Status AppendSpecial(const nlohmann::json& piece, const nlohmann::json& special_tokens,
                           std::vector<TokenId>* ids) {
  ASSIGN_OR_RETURN(const std::string name, GetString(piece, "id", kTemplate));
  if (!special_tokens.is_object() || !special_tokens.contains(name)) {
    return InvalidArgument(kTemplate, ": special_tokens lacks \"", name, "\"");
  }
  ASSIGN_OR_RETURN(const nlohmann::json* list, GetArray(special_tokens[name], "ids", kTemplate));
  for (const nlohmann::json& item : *list) {
    ASSIGN_OR_RETURN(const TokenId id, AsTokenId(item, kTemplate));
    ids->push_back(id);
  }
  return absl::OkStatus();
}

absl::Status ParseTemplate(const nlohmann::json& json, PostProcessor* result) {
  ASSIGN_OR_RETURN(const nlohmann::json* single, GetArray(json, "single", kTemplate));
  const nlohmann::json special_tokens = json.value("special_tokens", nlohmann::json());
  int num_sequences = 0;
  for (const nlohmann::json& piece : *single) {
    if (piece.is_object() && piece.contains("SpecialToken")) {
      RETURN_IF_ERROR(AppendSpecial(piece["SpecialToken"], special_tokens,
                                    num_sequences == 0 ? &result->prefix : &result->suffix));
    } else if (piece.is_object() && piece.contains("Sequence")) {
      ++num_sequences;
    } else {
      return InvalidArgument(kTemplate,
                             ": \"single\" must list {\"SpecialToken\"} and {\"Sequence\"}");
    }
  }
  if (num_sequences != 1) {
    return InvalidArgument(kTemplate, ": \"single\" must have one {\"Sequence\"}");
  }
  return absl::OkStatus();
}

// "cls" and "sep" of RobertaProcessing and BertProcessing: ["text", id].
absl::Status AppendNamedToken(const nlohmann::json& json, const char* key, const std::string& type,
                              std::vector<TokenId>* ids) {
  const std::string where = Concat("post_processor ", type);
  ASSIGN_OR_RETURN(const nlohmann::json* pair, GetArray(json, key, where));
  if (pair->size() != 2) {
    return InvalidArgument(where, ": \"", key, "\" must be [text, id]");
  }
  ASSIGN_OR_RETURN(const TokenId id, AsTokenId((*pair)[1], where));
  ids->push_back(id);
  return absl::OkStatus();
}

absl::Status ParseProcessor(const std::string& type, const nlohmann::json& json,
                            PostProcessor* result) {
  if (type == "ByteLevel") return absl::OkStatus();  // changes offsets only
  if (!result->prefix.empty() || !result->suffix.empty()) {
    return Unimplemented("the post_processor \"", type, "\" after another one is not supported");
  }
  if (type == "TemplateProcessing") return ParseTemplate(json, result);
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    RETURN_IF_ERROR(AppendNamedToken(json, "cls", type, &result->prefix));
    return AppendNamedToken(json, "sep", type, &result->suffix);
  }
  return Unimplemented("the post_processor \"", type, "\" is not supported");
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::Parse(const nlohmann::json& json) {
  PostProcessor result;
  RETURN_IF_ERROR(VisitComponents(json, "processors", "post_processor",
                                  [&](const std::string& type, const nlohmann::json& component) {
                                    return ParseProcessor(type, component, &result);
                                  }));
  return result;
}

}  // namespace quire
