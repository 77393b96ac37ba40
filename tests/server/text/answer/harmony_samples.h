// Answers as gpt-oss writes them: a part of AnswerSamples.
#pragma once

#include <vector>

#include "tests/server/text/answer/answer_samples.h"

namespace quire {

std::vector<AnswerSample> HarmonySamples();

}  // namespace quire
