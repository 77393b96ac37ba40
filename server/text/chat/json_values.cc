#include "server/text/chat/json_values.h"

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/json/json_events.h"
#include "engine/json/parse_json.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire {
namespace {

using jinja::Value;

constexpr char kTooMany[] = "more than 65536 values in the JSON of one request";
static_assert(kMaxJsonValues == 65536);

Value NewText(std::string_view text) { return Value(jinja::Text(text, jinja::Origin::kUser)); }

// Takes the parser's events; a list or object becomes a value when it is closed.
class ValueBuilder : public JsonEvents {
 public:
  ValueBuilder(JsonBudget* budget, size_t max_depth) : JsonEvents(max_depth), budget_(*budget) {}

  Value TakeRoot() { return std::move(root_); }

  bool null() { return Add(jinja::None{}); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(int64_t value) { return Add(jinja::Integer{value}); }
  bool number_unsigned(uint64_t value) { return Add(jinja::Integer{value}); }
  bool number_float(double value, const std::string&) { return Add(value); }
  bool string(std::string& value) { return Burn(value) && Add(NewText(value)); }

  bool key(std::string& value) {
    open_.back().key = NewText(value);
    return Burn(value) && Count();
  }
  bool start_object(size_t) { return Open(); }
  bool start_array(size_t) { return Open(); }

  bool end_object() {
    Value value(std::make_shared<const jinja::Dict>(std::move(open_.back().dict)));
    return Close(std::move(value));
  }
  bool end_array() {
    Value value(
        std::make_shared<const jinja::List>(jinja::ListKind::kList, std::move(open_.back().items)));
    return Close(std::move(value));
  }

 private:
  struct Container {
    std::vector<Value> items;   // of a list
    jinja::Dict dict;           // of an object,
    Value key = jinja::None{};  // and the key of its next value; None in a list
  };

  bool Burn(std::string_view text) {
    return budget_.fuel == nullptr || budget_.fuel->Burn(text.size() / jinja::kBytesPerStep);
  }

  bool Count() {
    if (budget_.num_values_left == 0) return Fail(kTooMany);
    --budget_.num_values_left;
    return budget_.fuel == nullptr || budget_.fuel->Burn(1);
  }

  bool Open() {
    if (!Enter() || !Count()) return false;
    open_.emplace_back();
    return true;
  }

  bool Close(Value value) {
    open_.pop_back();
    Leave();
    Place(std::move(value));
    return true;
  }

  bool Add(Value value) {
    if (!Count()) return false;
    Place(std::move(value));
    return true;
  }

  void Place(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().key.text() != nullptr) {
      open_.back().dict.Set(std::exchange(open_.back().key, jinja::None{}), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
  }

  JsonBudget& budget_;
  std::vector<Container> open_;  // lists and objects that are not closed yet, outermost first
  Value root_ = jinja::None{};
};

}  // namespace

absl::StatusOr<Value> ParseJsonValue(std::string_view text, JsonBudget* budget, size_t max_depth) {
  ValueBuilder builder(budget, max_depth);
  if (ReadJsonEvents(text, &builder)) return builder.TakeRoot();
  if (budget->fuel != nullptr && !budget->fuel->ok()) return budget->fuel->status();
  return jinja::Error(builder.error());
}

}  // namespace quire
