#include "server/surfaces/openai/template_kwargs.h"

namespace quire {

JsonTree TemplateKwargs(const FieldReader& fields, const std::optional<std::string>& effort) {
  const JsonTree* sent = fields.Find("chat_template_kwargs");
  JsonTree kwargs = sent != nullptr ? *sent : JsonTree{.kind = JsonTree::Kind::kObject};
  if (effort.has_value() && kwargs.is_object()) {
    AddMember(&kwargs, "reasoning_effort", TextTree(*effort));
  }
  return kwargs;
}

void FillTemplateKwargs(const FieldReader& fields, const std::optional<std::string>& effort,
                        v1::Messages* messages) {
  const JsonTree kwargs = TemplateKwargs(fields, effort);
  if (kwargs.is_object() && kwargs.items.empty()) return;
  messages->set_template_kwargs_json(ToJson(kwargs));
}

}  // namespace quire
