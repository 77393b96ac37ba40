#include "server/surfaces/openai/constraint_fields.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/request/asked_constraint.h"

namespace quire {

namespace {

using Kind = ConstraintSpec::Kind;

void SetConstraint(FieldReader& fields, ConstraintSpec spec, Generation* asked) {
  if (asked->constraint.has_value()) {
    fields.Fail(spec.field, absl::StrCat("another field, ", asked->constraint->field,
                                         ", already says what the answer must be; send only one"));
    return;
  }
  asked->constraint = std::move(spec);
}

void SetConstraint(FieldReader& fields, absl::StatusOr<ConstraintSpec> spec, Generation* asked) {
  fields.Keep(spec.status());
  if (spec.ok()) SetConstraint(fields, *std::move(spec), asked);
}

// A schema, which older clients send as a text.
void SetSchema(FieldReader& fields, std::string field, const JsonTree& value, Generation* asked) {
  if (value.is_text()) {
    SetConstraint(fields, ConstraintOfSchemaText(std::move(field), value.text), asked);
  } else {
    SetConstraint(fields, ConstraintSpec{.schema = value, .field = std::move(field)}, asked);
  }
}

void SetText(FieldReader& fields, std::string field, const JsonTree& value, Kind kind,
             Generation* asked) {
  if (!value.is_text()) {
    fields.Fail(field, "is not a text");
    return;
  }
  SetConstraint(fields, ConstraintSpec{.kind = kind, .text = value.text, .field = std::move(field)},
                asked);
}

void SetChoice(FieldReader& fields, std::string field, const JsonTree& value, Generation* asked) {
  std::vector<std::string> choices;
  bool is_sound = value.is_list();
  for (const JsonTree& choice : value.items) {
    is_sound = is_sound && choice.is_text();
    choices.push_back(choice.text);
  }
  if (!is_sound) {
    fields.Fail(field, "is not a list of texts");
    return;
  }
  SetConstraint(fields, ConstraintOfChoices(std::move(field), std::move(choices)), asked);
}

// A field that says by its name what kind of constraint its value is.
void SetByName(FieldReader& fields, absl::string_view key, std::string field, const JsonTree& value,
               Generation* asked) {
  if (key == "json" || key == "guided_json" || key == "json_schema") {
    SetSchema(fields, std::move(field), value, asked);
  } else if (key == "choice" || key == "guided_choice") {
    SetChoice(fields, std::move(field), value, asked);
  } else if (key == "regex" || key == "guided_regex") {
    SetText(fields, std::move(field), value, Kind::kRegex, asked);
  } else {
    SetText(fields, std::move(field), value, Kind::kGrammar, asked);
  }
}

// vLLM's structured_outputs.
void FillStructuredOutputs(FieldReader& fields, Generation* asked) {
  constexpr char kName[] = "structured_outputs";
  const JsonTree* const outputs = fields.Find(kName);
  if (outputs == nullptr) return;
  if (!outputs->is_object()) {
    fields.Fail(kName, "is not an object");
    return;
  }
  FieldReader reader(*outputs, "structured_outputs.");
  for (const char* const key : {"json", "regex", "choice", "grammar"}) {
    const JsonTree* const value = reader.Find(key);
    if (value != nullptr) SetByName(fields, key, absl::StrCat(kName, ".", key), *value, asked);
  }
  if (reader.Bool("json_object").value_or(false)) {
    SetConstraint(fields, ConstraintOfObjects("structured_outputs.json_object"), asked);
  }
  const bool is_compact = reader.Bool("disable_any_whitespace").value_or(false);
  if (is_compact && asked->constraint.has_value()) asked->constraint->is_compact = true;
  reader.Bool("disable_fallback");  // there is none
  reader.RefuseUnlessFalse("disable_additional_properties",
                           "is not supported; say additionalProperties false in the schema");
  reader.RefuseUnlessEmpty("structural_tag", "is not supported yet; leave it out");
  reader.RefuseUnlessEmpty("whitespace_pattern", "is not supported; leave it out");
  fields.Keep(reader.status());
  if (!asked->constraint.has_value()) {
    fields.Fail(kName, "has none of json, regex, choice, grammar and json_object");
  }
}

// Of {"type": "json_schema"}: chats have the schema one level down, responses beside the type.
void SetSchemaOfFormat(FieldReader& fields, const JsonTree& format, const std::string& name,
                       Generation* asked) {
  const JsonTree* const inner = format.Find("json_schema");
  const JsonTree* const schema = (inner != nullptr ? *inner : format).Find("schema");
  if (schema != nullptr) {
    const std::string field = name + (inner != nullptr ? ".json_schema.schema" : ".schema");
    SetConstraint(fields, ConstraintSpec{.schema = *schema, .field = field}, asked);
  } else if (inner == nullptr) {
    fields.Fail(name, "has no schema");
  } else if (!inner->is_object()) {
    fields.Fail(name + ".json_schema", "is not an object");
  } else {
    fields.Fail(name + ".json_schema.schema", "is missing");
  }
}

}  // namespace

void FillFormat(FieldReader& fields, const JsonTree& format, absl::string_view field,
                Generation* asked) {
  const std::string name(field);
  if (!format.is_object()) {
    fields.Fail(name, "is not an object with a type");
    return;
  }
  const JsonTree* const type_member = format.Find("type");
  const std::string type = type_member != nullptr ? type_member->text : "";
  const auto set_text = [&](const char* key, Kind kind) {
    const JsonTree* const text = format.Find(key);
    if (text == nullptr) {
      fields.Fail(absl::StrCat(name, ".", key), "is missing");
    } else {
      SetText(fields, absl::StrCat(name, ".", key), *text, kind, asked);
    }
  };
  if (type == "text") return;
  if (type == "json_object") {
    // llama.cpp's clients put a schema beside it.
    const JsonTree* const schema = format.Find("schema");
    if (schema != nullptr) {
      SetSchema(fields, name + ".schema", *schema, asked);
    } else {
      SetConstraint(fields, ConstraintOfObjects(name), asked);
    }
  } else if (type == "json_schema") {
    SetSchemaOfFormat(fields, format, name, asked);
  } else if (type == "grammar") {
    set_text("grammar", Kind::kGrammar);
  } else if (type == "regex") {
    set_text("pattern", Kind::kRegex);
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
    SetByName(fields, key, key, *value, asked);
  }
  fields.Text("guided_decoding_backend");  // there is one
}

}  // namespace quire
