// Names on the Hugging Face hub: of models, revisions, files and blobs. All come from outside and
// become parts of paths, so each is checked before it is used. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace quire {

// Whether this is not a name, but the address of one: "https://huggingface.co/org/name",
// "hf.co/...".
bool IsHubAddress(absl::string_view name);

// OK for a name as the hub gives out: "name" or "org/name" of letters, digits, '-', '_', '.', at
// most 96 characters. INVALID_ARGUMENT says what is wrong, and what to pass instead of a
// web address, or of a name with a tag as llama.cpp and Ollama have it.
absl::Status CheckHubName(absl::string_view name);

// OK for a branch, tag or commit: git's rules, at most 200 characters. INVALID_ARGUMENT otherwise.
absl::Status CheckRevision(absl::string_view revision);

// 40 lower-case hexadecimal digits: a whole commit, which never changes.
bool IsCommit(absl::string_view revision);

// 64 lower-case hexadecimal digits.
bool IsSha256(absl::string_view text);

// The name in an ETag header, as it is used for a file in blobs/: without W/ and quotes. Empty if
// it cannot be a file name.
std::string NormalizeEtag(absl::string_view header);

// Every byte except letters, digits and "-_.~" as %XX: for one segment of a URL's path.
std::string PercentEncode(absl::string_view text);

// "org/name" -> "models--org--name".
std::string CacheFolderName(absl::string_view name);

}  // namespace quire
