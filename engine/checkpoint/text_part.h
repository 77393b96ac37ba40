// TextPart: where in a checkpoint the tensors of the text model are, and which tensors belong to
// other parts of the model: pictures, sounds, drafts. Plain functions and values; any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/checkpoint/checkpoint.h"

namespace quire {

// As the checkpoint of a text model has it, unless FindTextPart says otherwise.
struct TextPart {
  std::string prefix = "model.";  // of all its tensors but the head's: "model.language_model."
  std::string head = "lm_head";   // the head's module
};

// The text part is where the embedding is. INVALID_ARGUMENT, naming the places, where none is.
absl::StatusOr<TextPart> FindTextPart(const Checkpoint& checkpoint);

// Whether the checkpoint in a folder has a head of its own, beside the embedding. False where there
// is no checkpoint, or none with a text part.
bool HasHead(const std::string& folder);

// The other part to which a tensor belongs: "model.visual" for "model.visual.merger.norm.weight".
// Empty if the tensor belongs to no part that stays unread.
absl::string_view OtherPartOf(absl::string_view tensor);

// The other parts, with the number of tensors of each: "model.visual (297), mtp (15)". Empty if
// there are none.
std::string ListOtherParts(const Checkpoint& checkpoint);

}  // namespace quire
