#include "server/grammar/schema/schema_document.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

// RFC 3986, 5.2, as far as schemas need it: a relative identifier replaces what follows the last
// slash of the base, or its path, or everything.
std::string Absolute(absl::string_view base, absl::string_view reference) {
  const size_t scheme = reference.find(':');
  if (scheme != reference.npos && scheme < reference.find_first_of("/#?"))
    return std::string(reference);
  base = base.substr(0, base.find('#'));
  if (reference.empty() || reference[0] == '#') return absl::StrCat(base, reference);
  const size_t authority = base.find("://");
  const size_t path = authority == base.npos ? 0 : base.find('/', authority + 3);
  if (reference[0] == '/') return absl::StrCat(base.substr(0, path), reference);
  const size_t slash = base.rfind('/');
  if (slash == base.npos || (path == base.npos && authority != base.npos)) {
    return base.empty() || authority == base.npos ? std::string(reference)
                                                  : absl::StrCat(base, "/", reference);
  }
  return absl::StrCat(base.substr(0, slash + 1), reference);
}

std::string PercentDecoded(absl::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
      result += static_cast<char>(byte);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string PointerStep(absl::string_view key) {
  return absl::StrCat("/", absl::StrReplaceAll(key, {{"~", "~0"}, {"/", "~1"}}));
}

// The pointer that leads from `from` to `value`, which is inside it; none if it is not.
std::optional<std::string> PointerTo(const JsonTree& value, const JsonTree& from) {
  if (&value == &from) return "";
  for (size_t i = 0; i < from.items.size(); ++i) {
    const std::optional<std::string> rest = PointerTo(value, from.items[i]);
    if (rest) return PointerStep(from.is_object() ? from.keys[i] : absl::StrCat(i)) + *rest;
  }
  return std::nullopt;
}

int DraftOf(const JsonTree& root) {
  const JsonTree* const schema = root.is_object() ? MemberOf(root, "$schema") : nullptr;
  if (schema == nullptr || !schema->is_text()) return 8;
  const size_t at = schema->text.find("draft-0");
  if (at == std::string::npos || at + 7 >= schema->text.size()) return 8;
  const char digit = schema->text[at + 7];
  return digit >= '3' && digit <= '7' ? digit - '0' : 8;
}

}  // namespace

const JsonTree* MemberOf(const JsonTree& object, absl::string_view key) {
  const JsonTree* found = nullptr;
  for (size_t i = 0; i < object.keys.size(); ++i) {
    if (object.keys[i] == key) found = &object.items[i];
  }
  return found;
}

absl::StatusOr<SchemaDocument> SchemaDocument::Create(const JsonTree& root) {
  SchemaDocument document;
  document.root_ = &root;
  document.draft_ = DraftOf(root);
  document.bases_.push_back(std::make_unique<std::string>());
  RETURN_IF_ERROR(document.Visit(root, nullptr, "", document.bases_.back().get()));
  return document;
}

// The identifier of a schema, and its anchors. `base` becomes its own, if it has one.
absl::Status SchemaDocument::VisitNames(const JsonTree& tree, std::string* base) {
  for (const char* const key : {"$id", "id"}) {
    const JsonTree* const id = MemberOf(tree, key);
    if (id == nullptr || !id->is_text()) continue;  // a property may be called id
    if (key[0] == 'i' && !is_old_draft()) continue;
    if (is_old_draft() && MemberOf(tree, "$ref") != nullptr) continue;
    const std::string absolute = Absolute(*base, id->text);
    by_identifier_.try_emplace(absl::StripSuffix(absolute, "#"), &tree);
    if (id->text.empty() || id->text[0] != '#') *base = absolute;
  }
  for (const char* const key : {"$anchor", "$dynamicAnchor"}) {
    const JsonTree* const anchor = MemberOf(tree, key);
    if (anchor != nullptr && anchor->is_text())
      by_identifier_.try_emplace(Absolute(*base, "#" + anchor->text), &tree);
  }
  return absl::OkStatus();
}

absl::Status SchemaDocument::Visit(const JsonTree& tree, const JsonTree* parent, std::string key,
                                   const std::string* base) {
  if (tree.is_object()) {
    std::string own = *base;
    RETURN_IF_ERROR(VisitNames(tree, &own));
    if (own != *base) {
      bases_.push_back(std::make_unique<std::string>(std::move(own)));
      base = bases_.back().get();
    }
  }
  places_[&tree] = {parent, std::move(key), base};
  for (size_t i = 0; i < tree.items.size(); ++i) {
    const JsonTree& item = tree.items[i];
    if (!item.is_object() && !item.is_list() && item.kind != JsonTree::Kind::kBool) continue;
    std::string item_key = tree.is_object() ? tree.keys[i] : absl::StrCat(i);
    // Constants are no schemas, whatever they look like.
    if (item_key == "enum" || item_key == "const" || item_key == "examples" ||
        item_key == "default") {
      if (!tree.is_object() || parent == nullptr || places_[&tree].key != "properties") continue;
    }
    RETURN_IF_ERROR(Visit(item, &tree, std::move(item_key), base));
  }
  return absl::OkStatus();
}

absl::StatusOr<const JsonTree*> SchemaDocument::Find(const JsonTree& resource,
                                                     absl::string_view pointer) const {
  const JsonTree* at = &resource;
  for (absl::string_view part : absl::StrSplit(pointer.substr(1), '/')) {
    const std::string key = absl::StrReplaceAll(PercentDecoded(part), {{"~1", "/"}, {"~0", "~"}});
    const JsonTree* next = nullptr;
    size_t index = 0;
    if (at->is_object()) next = MemberOf(*at, key);
    if (at->is_list() && absl::SimpleAtoi(key, &index) && index < at->items.size())
      next = &at->items[index];
    if (next == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("there is no \"", key, "\""));
    at = next;
  }
  return at;
}

absl::StatusOr<const JsonTree*> SchemaDocument::Resolve(const JsonTree& from,
                                                        const std::string& reference) const {
  const auto place = places_.find(&from);
  const std::string absolute =
      Absolute(place == places_.end() ? "" : *place->second.base, reference);
  const size_t hash = absolute.find('#');
  const std::string resource = absolute.substr(0, hash);
  const std::string fragment = hash == absolute.npos ? "" : absolute.substr(hash + 1);
  const JsonTree* found = nullptr;
  if (const auto named = by_identifier_.find(resource); named != by_identifier_.end())
    found = named->second;
  if (found == nullptr && resource.empty()) found = root_;
  if (found == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "$ref \"", reference, "\" leads out of the schema; put that schema into $defs"));
  }
  if (fragment.empty()) return found;
  if (fragment[0] == '/') {
    absl::StatusOr<const JsonTree*> at = Find(*found, fragment);
    if (at.ok()) return at;
    return absl::InvalidArgumentError(
        absl::StrCat("$ref \"", reference, "\": ", at.status().message()));
  }
  if (const auto named = by_identifier_.find(absolute); named != by_identifier_.end())
    return named->second;
  return absl::InvalidArgumentError(absl::StrCat("$ref \"", reference, "\" leads nowhere"));
}

std::string SchemaDocument::PathOf(const JsonTree& schema) const {
  return "#" + PointerTo(schema, *root_).value_or("");
}

}  // namespace quire
