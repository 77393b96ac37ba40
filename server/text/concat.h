// Sentences put together from pieces: texts, characters and integers. (absl::StrCat of Abseil
// 20220623 as Debian builds it does not take std::string_view.) Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"

namespace quire {
namespace internal {

template <typename Piece>
void AppendPiece(const Piece& piece, std::string* out) {
  if constexpr (std::is_same_v<Piece, char>) {
    out->push_back(piece);
  } else if constexpr (std::is_integral_v<Piece>) {
    out->append(std::to_string(piece));
  } else if constexpr (std::is_convertible_v<const Piece&, std::string_view>) {
    out->append(std::string_view(piece));
  } else {
    out->append(piece.data(), piece.size());  // absl::string_view
  }
}

}  // namespace internal

template <typename... Pieces>
std::string Concat(const Pieces&... pieces) {
  std::string text;
  (internal::AppendPiece(pieces, &text), ...);
  return text;
}

// `status` with the pieces before its message.
template <typename... Pieces>
absl::Status Prefixed(const absl::Status& status, const Pieces&... pieces) {
  return absl::Status(status.code(), Concat(pieces..., status.message()));
}

}  // namespace quire
