// Answers as models write them, and what they are made of. Shared by the test and the fuzzer's
// seeds.
#pragma once

#include <string>
#include <vector>

#include "server/text/answer/answer_parser.h"

namespace quire {

struct AnswerSample {
  std::string parser = "none";  // of tools; "none" too
  std::string text = "";
  std::string meaning = "";  // R(easoning), C(ontent), F(unction), A(rguments)
  std::string reasoning = "none";
  bool in_reasoning = false;
  bool one_call = false;
};

// What a list of events says, with neighbours of a kind joined.
std::string Meaning(const std::vector<AnswerEvent>& events);

// The arguments of each call.
std::vector<std::string> ArgumentsOf(const std::vector<AnswerEvent>& events);

// With the functions get_weather(city, days: anything, count: an integer, unit) and now().
AnswerOptions OptionsOf(const AnswerSample& sample);

std::vector<AnswerSample> AnswerSamples();

}  // namespace quire
