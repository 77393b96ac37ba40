// Renders templates for differential_test.py and message_forms_test.py. Reads lines {"template":
// ..., "input": {...}} from standard input and answers each with {"text": ...} or {"error": ...}.
// The input holds the fields of RenderInput; with "adapts" the messages come in whatever form, as
// in a request.
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "nlohmann/json.hpp"
#include "server/text/chat/chat_template.h"
#include "server/text/chat/json_values.h"
#include "server/text/chat/template_loader.h"

namespace {

using Json = nlohmann::ordered_json;

quire::jinja::Value ToValue(const Json& json) {
  quire::JsonBudget budget = {nullptr, SIZE_MAX};
  return quire::ParseJsonValue(json.dump(), &budget).value();
}

quire::RenderInput InputFrom(const Json& json) {
  quire::RenderInput input;
  input.messages = ToValue(json.value("messages", Json::array()));
  input.tools = ToValue(json.value("tools", Json()));
  input.documents = ToValue(json.value("documents", Json()));
  input.add_generation_prompt = json.value("add_generation_prompt", false);
  input.continue_final_message = json.value("continue_final_message", false);
  input.bos_token = json.value("bos_token", "");
  input.eos_token = json.value("eos_token", "");
  input.kwargs = ToValue(json.value("kwargs", Json::object()));
  input.now = json.value("now", std::int64_t{0});
  return input;
}

Json Answer(const Json& request) {
  auto compiled = quire::ChatTemplate::Compile(request.at("template").get<std::string>());
  if (!compiled.ok()) return {{"error", std::string(compiled.status().message())}};
  quire::Fuel fuel(request.value("max_steps", quire::RenderInput::kMaxSteps));
  quire::RenderInput input = InputFrom(request.at("input"));
  input.fuel = &fuel;
  const auto segments =
      request.value("adapts", false)
          ? quire::ChatTemplateSet(*std::move(compiled), std::nullopt).Render(std::move(input))
          : compiled->Render(input);
  if (!segments.ok()) return {{"error", std::string(segments.status().message())}};
  std::string text;
  for (const quire::PromptSegment& segment : *segments) text += segment.text;
  return {{"text", text}, {"steps", fuel.num_burned()}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(Json::parse(line)).dump() << "\n" << std::flush;
  }
  return 0;
}
