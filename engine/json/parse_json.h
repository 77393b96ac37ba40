// JSON texts to values and events. nlohmann's parser takes a NUL for the end of a text and would
// not see the rest. These functions do not, so all code parses through them (a lint checks that). A
// text is a string or a view of one. Plain functions; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace quire {

// The position of the first NUL; the text's size if there is none.
template <typename Text>
size_t FindNul(const Text& text) {
  return static_cast<size_t>(std::find(text.begin(), text.end(), '\0') - text.begin());
}

// Parses any value; is_discarded() if the text is no JSON. For texts whose depth is bounded
// elsewhere, or that come from the user who runs the program.
template <typename Json = nlohmann::json, typename Text>
Json ParseJson(const Text& text) {
  if (FindNul(text) < text.size()) return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
}

template <typename Text>
bool IsJson(const Text& text) {
  return FindNul(text) == text.size() && nlohmann::json::accept(text.begin(), text.end());
}

// Gives the text's events to `events`, which has RefuseNul(position) beside the functions that
// nlohmann needs.
template <typename Text, typename Events>
bool ReadJsonEvents(const Text& text, Events* events) {
  const size_t nul = FindNul(text);
  if (nul < text.size()) return events->RefuseNul(nul);
  return nlohmann::json::sax_parse(text.begin(), text.end(), events);
}

}  // namespace quire
