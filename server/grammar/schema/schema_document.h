// A JSON schema's text as a document: its dialect, and where its references lead. Nothing is
// fetched: a reference that leaves the document is an error. Immutable once made; the tree outlives
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/json_tree.h"

namespace quire {

// The member of an object, also if it is null; nullptr if there is none.
const JsonTree* MemberOf(const JsonTree& object, absl::string_view key);

class SchemaDocument {
 public:
  // The first of several schemas with the same identifier counts.
  static absl::StatusOr<SchemaDocument> Create(const JsonTree& root);

  // 3 to 7, as $schema says; 8 for the later ones, and without a $schema.
  int draft() const { return draft_; }
  // Nothing beside $ref counts.
  bool is_old_draft() const { return draft_ < 8; }

  // The schema that `reference`, as it stands in `from`, leads to. INVALID_ARGUMENT or
  // UNIMPLEMENTED if it leads nowhere, or out of the document.
  absl::StatusOr<const JsonTree*> Resolve(const JsonTree& from, const std::string& reference) const;

  // Where a schema, or any other value, stands in the document, such as #/properties/a; for errors.
  std::string PathOf(const JsonTree& schema) const;

 private:
  struct Place {
    const JsonTree* parent;
    std::string key;          // in the parent
    const std::string* base;  // identifier of the resource that it belongs to
  };

  absl::Status Visit(const JsonTree& tree, const JsonTree* parent, std::string key,
                     const std::string* base);
  absl::Status VisitNames(const JsonTree& tree, std::string* base);
  absl::StatusOr<const JsonTree*> Find(const JsonTree& resource, absl::string_view pointer) const;

  const JsonTree* root_ = nullptr;
  int draft_ = 8;
  absl::flat_hash_map<const JsonTree*, Place> places_;
  absl::flat_hash_map<std::string, const JsonTree*> by_identifier_;  // absolute, with #anchor
  std::vector<std::unique_ptr<std::string>> bases_;
};

}  // namespace quire
