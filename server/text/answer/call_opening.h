// CallOpening: how an answer begins that calls a tool. A prompt that ends with it makes the model
// go on with the call. It ends where the models' own tokens end, so that what they write next is
// what they are used to write. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>

#include "server/text/answer/answer_format.h"

namespace quire {

class CallOpening {
 public:
  // The templates show in which of its ways a model of one format writes calls.
  CallOpening(ToolFormat format, std::string_view chat_templates);

  // Of a call of this function; of any, if the name is empty.
  std::string Of(std::string_view function) const;

  // Whether the name can be written in every format: it has none of their marks.
  static bool CanName(std::string_view function);

 private:
  const ToolFormat format_;
  // Of Mistral's: before the name of a list's first call, or empty where there is no list; what
  // comes after a name that stands alone.
  std::string list_;
  std::string after_name_;
};

}  // namespace quire
