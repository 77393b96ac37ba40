#include "tools/client/output/json_output.h"

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/client/output/terminal_text.h"

namespace quire::client {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

// One value: of a singular field (index -1) or the index-th of a repeated one.
Json FieldToJson(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection* reflection = message.GetReflection();
  const auto value = [&](auto singular, auto repeated) {
    return index < 0 ? Json((reflection->*singular)(message, field))
                     : Json((reflection->*repeated)(message, field, index));
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return value(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return value(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return value(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return value(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return value(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return value(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return value(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_STRING:
      return value(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_ENUM:
      return index < 0 ? reflection->GetEnum(message, field)->name()
                       : reflection->GetRepeatedEnum(message, field, index)->name();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageToJson(index < 0 ? reflection->GetMessage(message, field)
                                     : reflection->GetRepeatedMessage(message, field, index));
  }
  return nullptr;
}

}  // namespace

Json MessageToJson(const Message& message) {
  Json json = Json::object();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (!field->is_repeated()) {
      const bool has = !field->has_presence() || message.GetReflection()->HasField(message, field);
      if (has) json[field->name()] = FieldToJson(message, field, -1);
      continue;
    }
    Json& list = json[field->name()] = Json::array();
    for (int k = 0; k < message.GetReflection()->FieldSize(message, field); ++k) {
      list.push_back(FieldToJson(message, field, k));
    }
  }
  return json;
}

Json BytesToJson(const std::string& bytes) {
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

void PrintJson(const Json& json) {
  PrintText(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace quire::client
