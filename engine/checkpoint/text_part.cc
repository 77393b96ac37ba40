#include "engine/checkpoint/text_part.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire {
namespace {

constexpr absl::string_view kEmbedding = "embed_tokens.weight";

// Models of several parts are written in the second form; transformers v4 wrote some in the third,
// others in the first.
constexpr absl::string_view kPrefixes[] = {"model.", "model.language_model.",
                                           "language_model.model."};
constexpr absl::string_view kPrefixWithHead = "language_model.model.";

constexpr absl::string_view kOtherParts[] = {
    "model.visual",
    "visual",
    "model.vision_tower",
    "vision_tower",
    "model.multi_modal_projector",
    "multi_modal_projector",
    "model.audio_tower",
    "audio_tower",
    "model.embed_vision",
    "embed_vision",
    "model.embed_audio",
    "embed_audio",
    "model.vision_embedder",
    "vision_embedder",
    "mtp",
};

bool IsOf(absl::string_view part, absl::string_view tensor) {
  return absl::StartsWith(tensor, part) && absl::StartsWith(tensor.substr(part.size()), ".");
}

bool HasModule(const Checkpoint& checkpoint, absl::string_view module) {
  const auto& entries = checkpoint.entries();
  return std::any_of(entries.begin(), entries.end(),
                     [&](const auto& entry) { return IsOf(module, entry.first); });
}

}  // namespace

absl::StatusOr<TextPart> FindTextPart(const Checkpoint& checkpoint) {
  for (const absl::string_view prefix : kPrefixes) {
    if (checkpoint.Find(absl::StrCat(prefix, kEmbedding)) == nullptr) continue;
    TextPart part;
    part.prefix = std::string(prefix);
    if (prefix == kPrefixWithHead && !HasModule(checkpoint, part.head)) {
      part.head = absl::StrCat("language_model.", part.head);
    }
    return part;
  }
  const auto append = [](std::string* out, absl::string_view prefix) {
    absl::StrAppend(out, prefix, kEmbedding);
  };
  return absl::InvalidArgumentError(
      absl::StrCat("the checkpoint has no text part: there is none of the tensors ",
                   absl::StrJoin(kPrefixes, ", ", append),
                   "; name a model that generates text, or download it again"));
}

bool HasHead(const std::string& folder) {
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return false;
  const absl::StatusOr<TextPart> part = FindTextPart(*checkpoint);
  return part.ok() && HasModule(*checkpoint, part->head);
}

absl::string_view OtherPartOf(absl::string_view tensor) {
  for (const absl::string_view part : kOtherParts) {
    if (IsOf(part, tensor)) return part;
  }
  return "";
}

std::string ListOtherParts(const Checkpoint& checkpoint) {
  std::map<absl::string_view, int64_t> num_tensors;
  for (const auto& [name, entry] : checkpoint.entries()) ++num_tensors[OtherPartOf(name)];
  num_tensors.erase("");
  return absl::StrJoin(num_tensors, ", ", [](std::string* out, const auto& part) {
    absl::StrAppend(out, part.first, " (", part.second, ")");
  });
}

}  // namespace quire
