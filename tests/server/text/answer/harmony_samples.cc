#include "tests/server/text/answer/harmony_samples.h"

#include <iterator>
#include <string>

namespace quire {

namespace {

// gpt-oss. The prompt ends with <|start|>assistant.
std::vector<AnswerSample> HarmonyWholeSamples() {
  return {
      // Reasoning and an answer; eos is not in the text, as a rule.
      {"gpt_oss",
       "<|channel|>analysis<|message|>Well, 2.<|end|><|start|>assistant<|channel|>final<|message|>"
       "Two.",
       "R(Well, 2.)C(Two.)", "gpt_oss"},
      {"gpt_oss", "<|channel|>final<|message|>Two.<|return|>", "C(Two.)", "gpt_oss"},
      {"gpt_oss", "<|channel|>final <|constrain|>json<|message|>{\"a\": 1}<|return|>",
       "C({\"a\": 1})", "gpt_oss"},
      // Texts are what they are, white space and all.
      {"gpt_oss",
       "<|channel|>analysis<|message|> a\n<|end|><|start|>assistant<|channel|>final<|message|>"
       "  b \n",
       "R( a\n)C(  b \n)", "gpt_oss"},
      // A preamble, and a call in the forms that there are.
      {"gpt_oss",
       "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary"
       "<|message|>One moment.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Rome\"}<|call|>",
       "R(I look.)C(One moment.)F(get_weather)A({\"city\": \"Rome\"})", "gpt_oss"},
      {"gpt_oss",
       " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Rome\"}",
       "F(get_weather)A({\"city\": \"Rome\"})", "gpt_oss"},
      {"gpt_oss",
       "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant to=functions.now<|channel|>"
       "commentary <|constrain|>json<|message|>{}<|call|>",
       "R(I look.)F(now)A({})", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.now<|message|>{}<|end|>", "F(now)A({})",
       "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis to=functions.now code<|message|>\n{\"a\": 1}\n<|call|>",
       "F(now)A({\"a\": 1})", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.now<|constrain|>json<|message|><|call|>",
       "F(now)A({})", "gpt_oss"},
      // Two calls, which the model ends after the first; then an answer.
      {"gpt_oss",
       "<|channel|>commentary to=functions.now<|message|>{}<|call|><|start|>assistant<|channel|>"
       "commentary to=functions.get_weather<|message|>{\"city\": \"Oslo\"}<|call|><|start|>"
       "assistant<|channel|>final<|message|>Done.",
       "F(now)A({})F(get_weather)A({\"city\": \"Oslo\"})C(Done.)", "gpt_oss"},
      {.parser = "gpt_oss",
       .text = "<|channel|>commentary to=functions.now<|message|>{}<|call|><|start|>assistant"
               "<|channel|>commentary to=functions.now<|message|>{}<|call|>",
       .meaning = "F(now)A({})",
       .reasoning = "gpt_oss",
       .one_call = true},
      // Two texts of a kind in a row.
      {"gpt_oss",
       "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b"
       "<|end|><|start|>assistant<|channel|>commentary<|message|>c<|end|><|start|>assistant"
       "<|channel|>final<|message|>d",
       "R(a\nb)C(c\nd)", "gpt_oss"},
      // The prompt ends within reasoning, or within the answer.
      {"none", "Well.<|end|><|start|>assistant<|channel|>final<|message|>Two.", "R(Well.)C(Two.)",
       "gpt_oss", true},
      {"gpt_oss", "Two.", "C(Two.)", "gpt_oss"},
      {"gpt_oss", " to be", "C( to be)", "gpt_oss"},
      {"gpt_oss", " \n", "C( \n)", "gpt_oss"},
      // Without tools a call is what its channel is; without the parser of reasoning that is an
      // answer's.
      {"none", "<|channel|>commentary to=functions.now json<|message|>{\"a\": 1}<|call|>",
       "C({\"a\": 1})", "gpt_oss"},
      {"gpt_oss",
       "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.now<|message|>{}",
       "C(a)F(now)A({})"},
  };
}

// Channels, recipients and arguments that are missing or unknown.
std::vector<AnswerSample> HarmonySlipSamples() {
  return {
      // No channel, no such channel, two of them.
      {"gpt_oss", "<|message|>Two.<|return|>", "C(Two.)", "gpt_oss"},
      {"gpt_oss", " to=functions.now<|message|>{}", "F(now)A({})", "gpt_oss"},
      {"gpt_oss", "<|channel|>summary<|message|>Two.", "C(Two.)", "gpt_oss"},
      {"gpt_oss", "<|channel|><|message|>Two.", "C(Two.)", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary<|channel|>analysis<|message|>Well.", "R(Well.)",
       "gpt_oss"},
      {"gpt_oss", "<|start|>assistant<|channel|>analysis<|message|>Well.", "R(Well.)", "gpt_oss"},
      // Recipients: of another namespace, without one, without to=, of a name without end.
      {"gpt_oss", "<|channel|>analysis to=python code<|message|>1+1<|call|>", "R(1+1)", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=browser.search<|message|>{\"q\": 1}<|call|>",
       "C({\"q\": 1})", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=assistant<|message|>Two.<|end|>", "C(Two.)", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=now<|message|>{}", "F(now)A({})", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary functions.now<|message|>{}", "F(now)A({})", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to= functions.now<|message|>{}", "F(now)A({})", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.later<|message|>{}", "F(later)A({})",
       "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.<|message|>Two.", "C(Two.)", "gpt_oss"},
      {"gpt_oss",
       "<|channel|>commentary to=functions." + std::string(300, 'a') + "<|message|>{\"a\": 1}",
       "C({\"a\": 1})", "gpt_oss"},
      // Arguments that are none, and more than arguments.
      {"gpt_oss", "<|channel|>commentary to=functions.now<|message|> now!<|call|>", "C( now!)",
       "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.now<|message|>{'a': True,}}<|call|>",
       "F(now)A({\"a\": true})C(})", "gpt_oss"},
      {"gpt_oss",
       "<|channel|>commentary to=functions.now<|message|>{\"a\": 1<|call|><|start|>assistant"
       "<|channel|>final<|message|>b",
       "F(now)A({\"a\": 1})C(b)", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.now json {\"a\": 1}<|call|>",
       "F(now)A({\"a\": 1})", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.now<|call|>", "F(now)A({})", "gpt_oss"},
  };
}

// Ends of messages and answers that are missing, or stand where they end nothing.
std::vector<AnswerSample> HarmonyEndSamples() {
  return {
      // Messages that do not end before the next begins, or have white space between them.
      {"gpt_oss", "<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b",
       "R(a)C(b)", "gpt_oss"},
      {"gpt_oss",
       "<|channel|>analysis<|message|>a<|start|>assistant to=functions.now<|channel|>commentary"
       "<|message|>{",
       "R(a)F(now)A({})", "gpt_oss"},
      {"gpt_oss",
       "<|channel|>analysis<|message|>a<|end|>\n<|start|>assistant<|channel|>final<|message|>b",
       "R(a)C(b)", "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis<|end|><|start|>assistant<|channel|>final<|message|>b",
       "C(b)", "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis<|message|>a<|end|><|start|>assistant final", "R(a)C( final)",
       "gpt_oss"},
      // A text that spells tags, a turn of somebody else, text after an end.
      {"gpt_oss", "<|channel|>final<|message|>It ends with <|end|>, <|start|> and <|channel|>x.",
       "C(It ends with <|end|>, <|start|> and <|channel|>x.)", "gpt_oss"},
      {"gpt_oss", "<|channel|>final<|message|>a<|end|><|end|>", "C(a<|end|>)", "gpt_oss"},
      {"gpt_oss",
       "<|channel|>commentary to=functions.now<|message|>{\"a\": \"<|end|> <|call|>\"}<|call|>",
       "F(now)A({\"a\": \"<|end|> <|call|>\"})", "gpt_oss"},
      {"gpt_oss", "<|channel|>final<|message|>a<|end|><|start|>user<|message|>b",
       "C(a<|end|><|start|>user<|message|>b)", "gpt_oss"},
      {"gpt_oss", "<|channel|>final<|message|>a<|return|> b", "C(a<|return|> b)", "gpt_oss"},
      {"gpt_oss", "<|start|>user<|message|>b", "C(<|start|>user<|message|>b)", "gpt_oss"},
      // No end of a header, and what is too long for one.
      {"gpt_oss", "<|channel|>final Two and two.", "C(Two and two.)", "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis\nWell, it is", "R(Well, it is)", "gpt_oss"},
      {"gpt_oss", "<|channel|>final <b>Two</b>", "C(<b>Two</b>)", "gpt_oss"},
      {"gpt_oss", "<|channel|>" + std::string(600, 'a'),
       "C(<|channel|>" + std::string(600, 'a') + ")", "gpt_oss"},
      // Cut off: within a header, which says nothing, behind it, within a text and a tag.
      {"gpt_oss", "<|channel|>", "", "gpt_oss"},
      {"gpt_oss", "<|channel|>anal", "", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.now <|constrain|>js", "", "gpt_oss"},
      {"gpt_oss", " to=functions.now", "", "gpt_oss"},
      {"gpt_oss", "<|channel|>final Two", "C(Two)", "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>fin", "R(a)",
       "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis<|message|>a<|end|><|start|>assistant to", "R(a)", "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<", "R(a)", "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis<|message|>a<|end|><|start|>assis", "R(a)", "gpt_oss"},
      {"gpt_oss", "<|channel|>analysis<|message|>a <|en", "R(a <|en)", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.now<|message|>", "F(now)A({})", "gpt_oss"},
      {"gpt_oss", "<|channel|>commentary to=functions.now<|message|>{\"a\": \"b",
       "F(now)A({\"a\": \"b\"})", "gpt_oss"},
      {"gpt_oss", "<th", "C(<th)", "gpt_oss"},
      {"gpt_oss", "", "", "gpt_oss"},
  };
}

}  // namespace

std::vector<AnswerSample> HarmonySamples() {
  std::vector<AnswerSample> all = HarmonyWholeSamples();
  for (std::vector<AnswerSample>& some : std::vector{HarmonySlipSamples(), HarmonyEndSamples()}) {
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  return all;
}

}  // namespace quire
