#include "server/surfaces/openai/constraint_fields.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {

namespace {

using Kind = ConstraintSpec::Kind;

// Objects with any members.
JsonTree AnyObjectSchema() {
  JsonTree schema = NewObject();
  AddMember(&schema, "type", TextTree("object"));
  return schema;
}

void Set(FieldReader& fields, absl::string_view field, ConstraintSpec spec, Generation* asked) {
  if (asked->constraint.has_value()) {
    fields.Fail(field, absl::StrCat("another field, ", asked->constraint->field,
                                    ", already says what the answer must be; send only one"));
    return;
  }
  spec.field = std::string(field);
  asked->constraint = std::move(spec);
}

// A schema, which older clients send as a text.
void SetSchema(FieldReader& fields, absl::string_view field, const JsonTree& value,
               Generation* asked) {
  if (!value.is_text()) {
    Set(fields, field, {.kind = Kind::kJsonSchema, .schema = value}, asked);
    return;
  }
  size_t num_values_left = kMaxJsonValues;
  absl::StatusOr<JsonTree> schema = ParseJsonTree(value.text, &num_values_left);
  if (!schema.ok()) {
    fields.Fail(field, absl::StrCat("is not JSON: ", schema.status().message()));
    return;
  }
  Set(fields, field, {.kind = Kind::kJsonSchema, .schema = *std::move(schema)}, asked);
}

void SetText(FieldReader& fields, absl::string_view field, const JsonTree& value, Kind kind,
             Generation* asked) {
  if (!value.is_text()) {
    fields.Fail(field, "is not a text");
    return;
  }
  Set(fields, field, {.kind = kind, .text = value.text}, asked);
}

void SetChoice(FieldReader& fields, absl::string_view field, const JsonTree& value,
               Generation* asked) {
  ConstraintSpec spec = {.kind = Kind::kChoice};
  bool is_sound = value.is_list() && !value.items.empty();
  for (const JsonTree& choice : value.items) {
    is_sound = is_sound && choice.is_text();
    spec.choices.push_back(choice.text);
  }
  if (!is_sound) {
    fields.Fail(field, "is not a list of at least one text");
    return;
  }
  Set(fields, field, std::move(spec), asked);
}

// Fields with one way to say it each, by the names of other servers.
void FillByName(FieldReader& fields, const JsonTree& object, absl::string_view key,
                absl::string_view field, Generation* asked) {
  const JsonTree* const value = object.Find(key);
  if (value == nullptr) return;
  if (key == "json" || key == "guided_json" || key == "json_schema") {
    SetSchema(fields, field, *value, asked);
  } else if (key == "choice" || key == "guided_choice") {
    SetChoice(fields, field, *value, asked);
  } else if (key == "regex" || key == "guided_regex") {
    SetText(fields, field, *value, Kind::kRegex, asked);
  } else {
    SetText(fields, field, *value, Kind::kGrammar, asked);
  }
}

// vLLM's structured_outputs.
void FillStructuredOutputs(FieldReader& fields, Generation* asked) {
  const JsonTree* const outputs = fields.Find("structured_outputs");
  if (outputs == nullptr) return;
  FieldReader reader(*outputs, "structured_outputs.");
  for (const char* const key : {"json", "regex", "choice", "grammar"}) {
    (void)reader.Find(key);
    FillByName(fields, *outputs, key, absl::StrCat("structured_outputs.", key), asked);
  }
  if (reader.Bool("json_object").value_or(false)) {
    Set(fields, "structured_outputs.json_object",
        {.kind = Kind::kJsonSchema, .schema = AnyObjectSchema()}, asked);
  }
  const bool is_compact = reader.Bool("disable_any_whitespace").value_or(false);
  if (is_compact && asked->constraint.has_value()) asked->constraint->is_compact = true;
  reader.Bool("disable_fallback");  // there is none
  reader.Bool("disable_additional_properties");
  reader.RefuseUnlessEmpty("structural_tag", "is not supported yet; leave it out");
  reader.RefuseUnlessEmpty("whitespace_pattern", "is not supported; leave it out");
  fields.Keep(reader.status());
}

}  // namespace

void FillFormat(FieldReader& fields, const JsonTree& format, absl::string_view field,
                Generation* asked) {
  const std::string name(field);
  FieldReader reader(format, name + ".");
  const std::string type = reader.Text("type").value_or("");
  if (type == "text") return;
  if (type == "json_object") {
    // llama.cpp's clients put a schema beside it.
    const JsonTree* const schema = reader.Find("schema");
    Set(fields, field,
        {.kind = Kind::kJsonSchema, .schema = schema != nullptr ? *schema : AnyObjectSchema()},
        asked);
  } else if (type == "json_schema") {
    // Chats have the schema one level down, responses beside the type.
    const JsonTree* const inner = reader.Find("json_schema");
    const JsonTree& holder = inner != nullptr ? *inner : format;
    const JsonTree* const schema = holder.Find("schema");
    if (schema == nullptr) {
      fields.Fail(field, inner != nullptr ? "json_schema has no schema" : "has no schema");
    } else {
      Set(fields, inner != nullptr ? name + ".json_schema.schema" : name + ".schema",
          {.kind = Kind::kJsonSchema, .schema = *schema}, asked);
    }
  } else if (type == "grammar") {
    const JsonTree* const grammar = reader.Find("grammar");
    if (grammar != nullptr) SetText(fields, name + ".grammar", *grammar, Kind::kGrammar, asked);
    if (grammar == nullptr) fields.Fail(field, "has no grammar");
  } else if (type == "regex") {
    const JsonTree* const pattern = reader.Find("pattern");
    if (pattern != nullptr) SetText(fields, name + ".pattern", *pattern, Kind::kRegex, asked);
    if (pattern == nullptr) fields.Fail(field, "has no pattern");
  } else {
    fields.Fail(name + ".type", "is none of text, json_object, json_schema, grammar and regex");
  }
}

void FillConstraint(FieldReader& fields, Generation* asked) {
  if (const JsonTree* format = fields.Find("response_format")) {
    FillFormat(fields, *format, "response_format", asked);
  }
  FillStructuredOutputs(fields, asked);
  for (const char* const key : {"guided_json", "guided_regex", "guided_choice", "guided_grammar",
                                "json_schema", "grammar", "regex", "ebnf"}) {
    const JsonTree* const value = fields.Find(key);
    // llama.cpp's and SGLang's clients send empty texts for what they do not use.
    if (value == nullptr || (value->is_text() && value->text.empty())) continue;
    JsonTree holder = NewObject();
    AddMember(&holder, key, *value);
    FillByName(fields, holder, key, key, asked);
  }
  fields.Text("guided_decoding_backend");  // there is one
}

}  // namespace quire
