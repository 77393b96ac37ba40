// Options of the hub from the environment, under the names that Python's huggingface_hub reads.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/environment.h"

namespace quire {

struct HubOptions {
  std::string endpoint;      // "https://huggingface.co", without a slash at the end
  std::string cache_folder;  // holds models--org--name
  std::string token;         // empty: none
  std::string token_source;  // for errors: "HF_TOKEN" or the file it was read from
  bool offline = false;
  bool use_symlinks = true;
  absl::Duration answer_timeout = absl::Seconds(10);  // for a connection, and for a first byte
  absl::Duration stall_timeout = absl::Seconds(30);   // for the next byte of a download
};

// HF_ENDPOINT; HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME; HF_TOKEN,
// HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN; HF_HUB_OFFLINE,
// TRANSFORMERS_OFFLINE; HF_HUB_DISABLE_SYMLINKS, HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT.
// `download_dir` replaces the cache folder unless it is empty. INVALID_ARGUMENT names the variable
// that cannot be used.
absl::StatusOr<HubOptions> ReadHubOptions(const std::string& download_dir,
                                          const ReadVariable& variable = ReadEnvironment);

}  // namespace quire
