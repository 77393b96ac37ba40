// CallOpening: the beginning of an answer that calls a tool. A prompt that ends with it makes the
// model go on with the call. It ends where the models' own tokens end, so that the models go on as
// they are used to. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>

#include "server/text/answer/answer_format.h"

namespace quire {

class CallOpening {
 public:
  // The templates show in which of several ways a model of one format writes calls.
  CallOpening(ToolFormat format, std::string_view chat_templates);

  // The beginning of a call of this function, or of any function, if the name is empty.
  std::string Of(std::string_view function) const;

  // Whether the name can be written in every format: it has none of their marks.
  static bool CanName(std::string_view function);

 private:
  const ToolFormat format_;
  // For Mistral's: the text before the name of a list's first call, or empty if there is no list;
  // and the text after a name that stands by itself.
  std::string list_;
  std::string after_name_;
};

}  // namespace quire
