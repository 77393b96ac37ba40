#include "tests/server/text/answer/answer_samples.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/server/text/answer/harmony_samples.h"

namespace quire {

namespace {

std::vector<AnswerSample> HermesSamples() {
  return {
      {"hermes", "It is sunny.\n", "C(It is sunny.\n)"},
      {"hermes", " \n", "C( \n)"},
      // Qwen2.5, Qwen3 and Hermes 3.
      {"hermes",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
       "</tool_call>",
       "F(get_weather)A({\"city\": \"Paris\"})"},
      {"hermes",
       "Let me see.\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"S\\u00e3o "
       "\\\"}\\\\\", \"days\": [1, {\"a\": {}}]}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", "
       "\"arguments\": {}}\n</tool_call>\n",
       "C(Let me see.)F(get_weather)A({\"city\": \"S\\u00e3o \\\"}\\\\\", \"days\": [1, {\"a\": "
       "{}}]})"
       "F(now)A({})"},
      // Hermes 2 Pro: the arguments come first.
      {"hermes",
       "<tool_call>\n{\"arguments\": {\"city\": \"Oslo\"}, \"name\": "
       "\"get_weather\"}\n</tool_call>",
       "F(get_weather)A({\"city\": \"Oslo\"})"},
      // No arguments, null, a string of JSON, further members.
      {"hermes", "<tool_call>{\"name\":\"now\"}</tool_call>", "F(now)A({})"},
      {"hermes", "<tool_call>{\"name\":\"now\", \"arguments\": null}</tool_call>", "F(now)A({})"},
      {"hermes",
       "<tool_call>{\"id\": 7, \"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": "
       "\\\"Rome\\\"}\", \"x\": [\"}\"]}</tool_call>",
       "F(get_weather)A({\"city\": \"Rome\"})"},
      {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": [1.5e3, true]}</tool_call>",
       "F(now)A([1.5e3, true])"},
      {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": 12}</tool_call>", "F(now)A(12)"},
      // A line break within a string is escaped, as JSON wants it.
      {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"1\n2\"}}</tool_call>",
       "F(now)A({\"a\": \"1\\u000a2\"})"},
      // Content after a call; text beside a call within its tags; a tag that is missing.
      {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>\n\nDone.",
       "F(now)A({})C(Done.)"},
      {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {}}}\n</tool_call>",
       "F(now)A({})C(})"},
      {"hermes",
       "<tool_call>{\"name\": \"now\", \"arguments\": {}}\n<tool_call>{\"name\": \"now\", "
       "\"arguments\": {}}",
       "F(now)A({})F(now)A({})"},
      // Text that is no call is content, together with its tags.
      {"hermes", "Say <tool_call> and </tool_call>.", "C(Say <tool_call> and </tool_call>.)"},
      {"hermes", "a <tool_call>\n{\"nam\": \"now\"}\n</tool_call> b",
       "C(a <tool_call>\n{\"nam\": \"now\"}\n</tool_call> b)"},
      {"hermes", "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>",
       "C(<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>)"},
      {"hermes", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
       "C(<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>)"},
      {"hermes", "<tool_call>{'nam': 'now'}</tool_call>",
       "C(<tool_call>{'nam': 'now'}</tool_call>)"},
  };
}

// Slips: Python's spelling, end tags, brackets and quotes that are missing, fences, lists; cut off.
std::vector<AnswerSample> HermesSlipSamples() {
  return {
      {"hermes", "<tool_call>{'name': 'now'}</tool_call>", "F(now)A({})"},
      {"hermes",
       "<tool_call>{'name': 'get_weather', 'arguments': {'city': 'l\\'Aquila \"x\"', 'days': True, "
       "'unit': None,}}</tool_call>",
       "F(get_weather)A({\"city\": \"l'Aquila \\\"x\\\"\", \"days\": true, \"unit\": null})"},
      {"hermes",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Rome\"}\n</tool_call>ok",
       "F(get_weather)A({\"city\": \"Rome\"})C(ok)"},
      {"hermes",
       "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome</tool_call>",
       "F(get_weather)A({\"city\": \"Rome\"})"},
      {"hermes",
       "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome</tool_call>\n"
       "<tool_call>{\"name\": \"now\"}</tool_call>",
       "F(get_weather)A({\"city\": \"Rome\"})F(now)A({})"},
      {"hermes",
       "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"</tool_call> is a "
       "tag\"}}</tool_call>",
       "F(get_weather)A({\"city\": \"</tool_call> is a tag\"})"},
      {"hermes",
       "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"He said \"hi\" to me\", "
       "days: 3}}</tool_call>",
       "F(get_weather)A({\"city\": \"He said \\\"hi\\\" to me\", \"days\": 3})"},
      {"hermes", "<tool_call>\n```json\n{\"name\": \"now\"}\n```\n</tool_call>", "F(now)A({})"},
      {"hermes",
       "<tool_call>[{\"name\": \"now\"}, {\"name\": \"now\", \"arguments\": {}}]</tool_call>",
       "F(now)A({})F(now)A({})"},
      {"hermes", "<tool_call>{\"name\": \"now\"}\n{\"name\": \"now\"}</tool_call>",
       "F(now)A({})F(now)A({})"},
      {"hermes", "<tool_call>{\"name\": \"now\"}\n<tool_call>", "F(now)A({})"},
      {"hermes", "<tool_call>``{\"name\"", "C(<tool_call>``{\"name\")"},
      {"hermes", "<tool_call><tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>",
       "C(<tool_call>)F(now)A({})"},
      {"hermes", "<<tool_call<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>",
       "C(<<tool_call)F(now)A({})"},
      {"hermes", "1 <tool", "C(1 <tool)"},
      {"hermes", "x\n<tool_call>\n{\"name\": \"now\", ", "C(x\n<tool_call>\n{\"name\": \"now\", )"},
      // Cut off after it began.
      {"hermes", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa",
       "F(get_weather)A({\"city\": \"Pa\"})"},
      {"hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"days\": [1, {\"a\": tr",
       "F(get_weather)A({\"days\": [1, {\"a\": true}]})"},
      {"hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\", \"days\"",
       "F(get_weather)A({\"city\": \"a\"})"},
      {"hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"days\":",
       "F(get_weather)A({\"days\": null})"},
      {"hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\"}}</tool_c",
       "F(get_weather)A({\"city\": \"a\"})"},
      {.parser = "hermes",
       .text = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call><tool_call>{\"name\": "
               "\"get_weather\", \"arguments\": {\"city\": \"Rome\"}}</tool_call>",
       .meaning = "F(now)A({})",
       .one_call = true},
      // Nothing to look for.
      {"none", " <tool_call>{\"name\": \"now\"}", "C( <tool_call>{\"name\": \"now\"})"},
  };
}

std::vector<AnswerSample> LlamaSamples() {
  return {
      // Llama 3.1, 3.2 and 3.3.
      {"llama3_json", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
       "F(get_weather)A({\"city\": \"Paris\"})"},
      {"llama3_json",
       "{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
       "F(get_weather)A({\"city\": \"Paris\"})"},
      {"llama3_json",
       "\n<|python_tag|>{\"type\": \"function\", \"name\": \"unknown\", \"parameters\": {\"q\": "
       "1}}",
       "F(unknown)A({\"q\": 1})"},
      {"llama3_json",
       "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}; {\"name\": \"now\", "
       "\"parameters\": {}} ;{\"name\": \"now\", \"arguments\": {}}",
       "F(get_weather)A({\"city\": \"Paris\"})F(now)A({})F(now)A({})"},
      {"llama3_json", "{\"name\": \"now\", \"parameters\": {}}\nOr so.", "F(now)A({})C(Or so.)"},
      {"llama3_json", "{\"name\": \"now\", \"parameters\": {}}; and {more}",
       "F(now)A({})C(; and {more})"},
      // JSON that is an answer, not a call.
      {"llama3_json", " {\"name\": \"Bob\", \"age\": 5}", "C( {\"name\": \"Bob\", \"age\": 5})"},
      {"llama3_json", "{\"name\": \"now\"}", "C({\"name\": \"now\"})"},
      {"llama3_json", "{\"name\": \"now\", \"age\": 5}", "C({\"name\": \"now\", \"age\": 5})"},
      {"llama3_json", "{}", "C({})"},
      // Words before a call; calls parted by a line break, a comma or nothing, in a list.
      {"llama3_json", "I look.\n\n{\"name\": \"now\", \"parameters\": {}}",
       "C(I look.)F(now)A({})"},
      {"llama3_json",
       "{\"name\": \"now\", \"parameters\": {}}\n{\"name\": \"get_weather\", \"parameters\": "
       "{\"city\": \"Rome\"}}, {\"name\": \"now\", \"parameters\": {}}{\"name\": \"now\", "
       "\"parameters\": {}}",
       "F(now)A({})F(get_weather)A({\"city\": \"Rome\"})F(now)A({})F(now)A({})"},
      {"llama3_json",
       "[{\"name\": \"now\", \"parameters\": {}}, {\"name\": \"now\", \"parameters\": {}}]",
       "F(now)A({})F(now)A({})"},
      {"llama3_json", "[1, 2]", "C([1, 2])"},
      {"llama3_json", "In {\"plan\": {\"name\": \"now\", \"parameters\": {}}} it is no call.",
       "C(In {\"plan\": {\"name\": \"now\", \"parameters\": {}}} it is no call.)"},
      {"llama3_json", "main() {\n\n{\"name\": \"now\", \"parameters\": {}}",
       "C(main() {)F(now)A({})"},
      {"llama3_json", "Set {x} and { y }.", "C(Set {x} and { y }.)"},
      // Code, which Llama writes for its own tools.
      {"llama3_json", "<|python_tag|>brave_search.call(query=\"x\")",
       "C(<|python_tag|>brave_search.call(query=\"x\"))"},
      {"llama3_json", "Well. <|python_tag|>{\"name\": \"now\", \"parameters\": {}}",
       "C(Well.)F(now)A({})"},
      {"llama3_json", "{\"name\": \"get_", "C({\"name\": \"get_)"},
      {"llama3_json", "  ", "C(  )"},
  };
}

std::vector<AnswerSample> MistralSamples() {
  return {
      // Mistral 7B v0.3, Nemo.
      {"mistral",
       "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]",
       "F(get_weather)A({\"city\": \"Paris\"})"},
      {"mistral",
       "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris [x]\"}, \"id\": "
       "\"abcdef123\"}, {\"name\": \"now\", \"arguments\": {}}] ",
       "F(get_weather)A({\"city\": \"Paris [x]\"})F(now)A({})"},
      // Small 3.1, 3.2, Magistral, Devstral.
      {"mistral", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}",
       "F(get_weather)A({\"city\": \"Paris\"})"},
      {"mistral",
       "Wait.[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{\"city\": "
       "\"Paris\"}[TOOL_CALLS]now[ARGS]{}",
       "C(Wait.)F(get_weather)A({\"city\": \"Paris\"})F(now)A({})"},
      {"mistral", "[TOOL_CALLS]get_weather{\"city\": \"Paris\"}",
       "F(get_weather)A({\"city\": \"Paris\"})"},
      {"mistral", "[TOOL_CALLS] now {}done", "F(now)A({})C(done)"},
      // Slips: one object without a list, brackets that are missing, cut off.
      {"mistral", "[TOOL_CALLS]{\"name\": \"now\", \"arguments\": {}}", "F(now)A({})"},
      {"mistral", "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"]",
       "F(get_weather)A({\"city\": \"Rome\"})"},
      {"mistral", "[TOOL_CALLS]get_weather[ARGS]{'city': \"Ro",
       "F(get_weather)A({\"city\": \"Ro\"})"},
      // No calls.
      {"mistral", "[TOOL_CALLS] []", "C([TOOL_CALLS] [])"},
      {"mistral", "[TOOL_CALLS][ARGS]{}", "C([TOOL_CALLS][ARGS]{})"},
      {"mistral", "[TOOL_CALLS]Hello world", "C([TOOL_CALLS]Hello world)"},
      {"mistral", "[TOOL_CALLS]now[TOOL_CALLS]now[ARGS]{}", "C([TOOL_CALLS]now)F(now)A({})"},
      {"mistral", "[TOOL_CALLS]now[ARG", "C([TOOL_CALLS]now[ARG)"},
      {"mistral", "[TOOL_CALLS]now[ARGS]x", "C([TOOL_CALLS]now[ARGS]x)"},
      {"mistral", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}, 5]", "F(now)A({})C(, 5])"},
      {"mistral", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}} ", "F(now)A({})"},
      {"mistral", "[TOOL_", "C([TOOL_)"},
      {"mistral", "[1] {\"name\": \"now\"}", "C([1] {\"name\": \"now\"})"},
  };
}

std::vector<AnswerSample> Qwen3CoderSamples() {
  return {
      // Qwen3-Coder.
      {"qwen3_coder",
       "I'll look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
       "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
       "C(I'll look.)F(get_weather)A({\"city\": \"Paris\", \"days\": 3})"},
      {"qwen3_coder",
       "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n"
       "</function>\n</tool_call>",
       "F(now)A({})F(now)A({})"},
      // Texts keep their lines; quotes and the like are JSON's.
      {"qwen3_coder",
       "<tool_call><function=get_weather><parameter=city>\n  a \"b\"\n\n\tc\\</d></p\n\n"
       "</parameter></function></tool_call>",
       "F(get_weather)A({\"city\": \"  a \\\"b\\\"\\n\\n\\u0009c\\\\</d></p\\n\"})"},
      // Values that are no text by the schema are JSON, Python's words, or else a text.
      {"qwen3_coder",
       "<tool_call><function=get_weather><parameter=days>True</parameter><parameter=days>None"
       "</parameter><parameter=days>\n{\"a\": [1]}\n</parameter><parameter=days>soon\n</parameter>"
       "<parameter=unit>5</parameter></function></tool_call>",
       "F(get_weather)A({\"days\": true, \"days\": null, \"days\": {\"a\": [1]}, \"days\": "
       "\"soon\", "
       "\"unit\": \"5\"})"},
      // A function that was not offered: all are texts.
      {"qwen3_coder", "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
       "F(f)A({\"a\": \"1\"})"},
      // Tags that are missing.
      {"qwen3_coder", "<function=now></function>\n</tool_call> ok", "F(now)A({})C(ok)"},
      {"qwen3_coder", "<tool_call><function=now></tool_call>", "F(now)A({})"},
      {"qwen3_coder", "<tool_call><function=now>text</function>", "F(now)A({})C(text</function>)"},
      {"qwen3_coder", "<function=now><function=now></function>", "F(now)A({})F(now)A({})"},
      {"qwen3_coder",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n<parameter=count>\n3\n"
       "</parameter>\n</function>\n</tool_call>",
       "F(get_weather)A({\"city\": \"Rome\", \"count\": 3})"},
      {"qwen3_coder",
       "<tool_call><function=get_weather><parameter=city>Rome</function></tool_call>"
       "<tool_call><function=get_weather><parameter=city>Oslo</tool_call> ok",
       "F(get_weather)A({\"city\": \"Rome\"})F(get_weather)A({\"city\": \"Oslo\"})C(ok)"},
      {"qwen3_coder",
       "<function=get_weather><parameter=\"city\">Rome</parameters></parameter><parameter=days>"
       "{'a': None,}</param></function>",
       "F(get_weather)A({\"city\": \"Rome\", \"days\": {\"a\": null}})"},
      // No calls.
      {"qwen3_coder", "<tool_call>{\"name\": \"now\"}</tool_call>",
       "C(<tool_call>{\"name\": \"now\"}</tool_call>)"},
      {"qwen3_coder", "<function=>", "C(<function=>)"},
      {"qwen3_coder", "<function=a <tool_call><function=now></function>",
       "C(<function=a)F(now)A({})"},
      {"qwen3_coder", "<tool_call> <func<tool_call><function=now></function>",
       "C(<tool_call> <func)F(now)A({})"},
      // Cut off.
      {"qwen3_coder", "<tool_call>\n<function=no", "C(<tool_call>\n<function=no)"},
      {"qwen3_coder", "<tool_call>\n<function=now>\n<para", "F(now)A({})"},
      {"qwen3_coder", "<tool_call><function=now><parameter=a>\nx\n</para",
       "F(now)A({\"a\": \"x\"})"},
      {"qwen3_coder", "<tool_call><function=get_weather><parameter=count>\n1",
       "F(get_weather)A({\"count\": 1})"},
  };
}

std::vector<AnswerSample> GemmaSamples() {
  return {
      // Gemma 4.
      {"gemma4",
       "<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>,count:2,days:[1.5,{a:null},[]]}<tool_"
       "call|>",
       "F(get_weather)A({\"city\":\"Paris\",\"count\":2,\"days\":[1.5,{\"a\":null},[]]})"},
      {"gemma4",
       "I look.\n<|tool_call>call:now{}<tool_call|><|tool_call>call:now{}<tool_call|>\nDone.",
       "C(I look.)F(now)A({})F(now)A({})C(Done.)"},
      // Texts have whatever is in them, and keys.
      {"gemma4",
       "<|tool_call>call:get_weather{city:<|\"|>a \"b\" \\ {c}, [:]<\nx<|\"|>}<tool_call|>",
       "F(get_weather)A({\"city\":\"a \\\"b\\\" \\\\ {c}, [:]<\\u000ax\"})"},
      {"gemma4",
       "<|tool_call>call:f{x y:true,日本:-1,\"a\":{b\"c : "
       "<|\"|><|\"|>},<|\"|>d:<|\"|>:1e+22}<tool_call|>",
       "F(f)A({\"x y\":true,\"日本\":-1,\"a\":{\"b\\\"c\": \"\"},\"d:\":1e+22})"},
      {"gemma4", "<|tool_call>call:f{a:<|\"|><|tool_call>call:g{}<|\"|>}<tool_call|>",
       "F(f)A({\"a\":\"<|tool_call>call:g{}\"})"},
      // Slips: quotes, commas, brackets and tags that are missing, JSON, Python's words.
      {"gemma4", "<|tool_call> call: now {a:Oslo, b: 'x', c:None}<tool_call|>",
       "F(now)A({\"a\":\"Oslo\", \"b\": \"x\", \"c\":null})"},
      {"gemma4", "<|tool_call>get_weather{\"city\": \"Rome\", \"days\": [1, 2]}<tool_call|>",
       "F(get_weather)A({\"city\": \"Rome\", \"days\": [1, 2]})"},
      {"gemma4",
       "<|tool_call>call:f{a:<|\"|>x<|\"|> b:<|\"|>y<|\"|>,c:[<|\"|>1<|\"|><|\"|>2<|\"|> "
       "3]}<tool_call|>",
       "F(f)A({\"a\":\"x\",\"b\":\"y\",\"c\":[\"1\",\"2\",3]})"},
      {"gemma4", "<|tool_call>call:f{a:[1,{b:<|\"|>x<|\"|><tool_call|> ok",
       "F(f)A({\"a\":[1,{\"b\":\"x\"}]})C(ok)"},
      {"gemma4", "<|tool_call>call:f{a:<|\"|>x<tool_call|>", "F(f)A({\"a\":\"x\"})"},
      {"gemma4", "<|tool_call>call:now{a:1<|tool_call>call:now{}", "F(now)A({\"a\":1})F(now)A({})"},
      {"gemma4", "<|tool_call>call:now{a:1}}<tool_call|>", "F(now)A({\"a\":1})C(})"},
      {"gemma4", "<|tool_call>call:now{a}<tool_call|>", "F(now)A({\"a\": null})"},
      {"gemma4", "<|tool_call>call:now{a:<<b", "F(now)A({\"a\": null})C(<<b)"},
      // No calls.
      {"gemma4", "<|tool_call>now<tool_call|>", "C(<|tool_call>now<tool_call|>)"},
      {"gemma4", "<|tool_call>call:{}<tool_call|>", "C(<|tool_call>call:{}<tool_call|>)"},
      {"gemma4", "call:now{} and <tool_call|>", "C(call:now{} and <tool_call|>)"},
      {"gemma4", "<|tool_call>call:a b{}", "C(<|tool_call>call:a b{})"},
      {"gemma4", "<|tool_call><|tool_call>call:now{}<tool_call|>", "C(<|tool_call>)F(now)A({})"},
      // Cut off.
      {"gemma4", "<|tool_call>call:no", "C(<|tool_call>call:no)"},
      {"gemma4", "<|tool_call>call:now{", "F(now)A({})"},
      {"gemma4", "<|tool_call>call:now{a:1,ci", "F(now)A({\"a\":1})"},
      {"gemma4", "<|tool_call>call:now{a:<|\"|>it is <", "F(now)A({\"a\":\"it is <\"})"},
      {"gemma4", "<|tool_call>call:now{a:<|\"|>x<|", "F(now)A({\"a\":\"x\"})"},
      {"gemma4", "<|tool_call>call:now{a:<|\"|>x<|\"|>", "F(now)A({\"a\":\"x\"})"},
      {"gemma4", "<|tool_call>call:now{a:1}<tool_c", "F(now)A({\"a\":1})"},
  };
}

std::vector<AnswerSample> ReasoningSamples() {
  return {
      // Qwen3.
      {"none", "<think>\nWell, 2.\n</think>\n\nTwo.", "R(Well, 2.)C(Two.)", "qwen3"},
      {"none", "\n<think>\n\n</think>\n\nTwo.", "C(Two.)", "qwen3"},
      {"none", "Two. <think>no</think>", "C(Two. <think>no</think>)", "qwen3"},
      {"none", " <thin", "C( <thin)", "qwen3"},
      {"none", "<think>cut </th", "R(cut </th)", "qwen3"},
      {"none", "<think>a</think><think>b</think>", "R(a)C(<think>b</think>)", "qwen3"},
      {"hermes",
       "<think>\nI call <tool_call>.\n</think>\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": "
       "{}}\n"
       "</tool_call>",
       "R(I call <tool_call>.)F(now)A({})", "qwen3"},
      {"llama3_json", "<think>x</think>\n{\"name\": \"now\", \"parameters\": {}}",
       "R(x)F(now)A({})", "qwen3"},
      // Qwen3.5, 3.6 and 3.8: the prompt has the first tag, or both, with nothing between them.
      {"qwen3_coder",
       "I should\nlook.\n</think>\n\nLet me "
       "look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\n"
       "Rome\n\n</parameter>\n<parameter=count>\n2\n</parameter>\n<parameter=days>\nTrue\n</"
       "parameter>\n"
       "</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
       "R(I should\nlook.)C(Let me look.)F(get_weather)A({\"city\": \"Rome\\n\", \"count\": 2, "
       "\"days\": true})"
       "F(now)A({})",
       "qwen3", true},
      {"qwen3_coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>", "F(now)A({})",
       "qwen3"},
      // DeepSeek-R1, QwQ, Qwen3-Thinking: the prompt has the first tag, which some repeat.
      {"none", "\nWell, 2.\n</think>\n\nTwo.", "R(Well, 2.)C(Two.)", "qwen3", true},
      {"none", "<think>Well\n</think> Two.", "R(Well)C(Two.)", "deepseek_r1", true},
      {"none", "Well <", "R(Well <)", "deepseek_r1", true},
      {"none", "</think>Two.", "C(Two.)", "qwen3", true},
      {"none", "<th", "R(<th)", "qwen3", true},
      // Magistral.
      {"none", "[THINK]Well.[/THINK]Two.", "R(Well.)C(Two.)", "mistral"},
      // Gemma 4: the first line says what the channel is.
      {"none", "<|channel>thought\nWell, 2.\n<channel|>Two.", "R(Well, 2.)C(Two.)", "gemma4"},
      {"none", "<|channel>thought\n<channel|>Two.", "C(Two.)", "gemma4"},
      {"none", "<|channel>though not.<channel|>Two.", "R(though not.)C(Two.)", "gemma4"},
      {"none", "<|channel><channel|>Two.", "C(Two.)", "gemma4"},
      {"none", "<|channel>thou", "R(thou)", "gemma4"},
      {"none", "<|channel>", "", "gemma4"},
      {"none", "Two. <|channel>thought\nno<channel|>", "C(Two. <|channel>thought\nno<channel|>)",
       "gemma4"},
      {"none", "Well, 2.\n<channel|>Two.", "R(Well, 2.)C(Two.)", "gemma4", true},
      {"none", "<|channel>thought\nWell.<channel|>Two.", "R(Well.)C(Two.)", "gemma4", true},
      {"none", "thought\nWell.<channel|>Two.", "R(Well.)C(Two.)", "gemma4", true},
      {"gemma4", "<|channel>thought\nI look.\n<channel|><|tool_call>call:now{}<tool_call|>",
       "R(I look.)F(now)A({})", "gemma4"},
  };
}

}  // namespace

std::string Meaning(const std::vector<AnswerEvent>& events) {
  std::string meaning;
  bool is_open = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const AnswerEvent::Kind kind = events[i].kind;
    const bool joins = i > 0 && events[i - 1].kind == kind && kind != AnswerEvent::Kind::kCall;
    if (!joins) {
      if (is_open) meaning += ')';
      absl::StrAppend(&meaning, std::string(1, "RCFA"[static_cast<size_t>(kind)]), "(");
    }
    is_open = true;
    meaning += events[i].text;
  }
  return is_open ? meaning + ")" : meaning;
}

std::vector<std::string> ArgumentsOf(const std::vector<AnswerEvent>& events) {
  std::vector<std::string> arguments;
  for (const AnswerEvent& event : events) {
    if (event.kind == AnswerEvent::Kind::kCall) arguments.emplace_back();
    if (event.kind == AnswerEvent::Kind::kArguments) arguments.back() += event.text;
  }
  return arguments;
}

AnswerOptions OptionsOf(const AnswerSample& sample) {
  return {.reasoning = ReasoningFormatOf(sample.reasoning),
          .tools = ToolFormatOf(sample.parser),
          .functions = {{"get_weather", {.types = {{"days", kAnyJson}, {"count", kJsonInteger}}}},
                        {"now", {}}},
          .one_call = sample.one_call,
          .opening = ""};
}

std::vector<AnswerSample> AnswerSamples() {
  std::vector<AnswerSample> all;
  for (std::vector<AnswerSample>& some :
       std::vector{HermesSamples(), HermesSlipSamples(), LlamaSamples(), MistralSamples(),
                   Qwen3CoderSamples(), GemmaSamples(), ReasoningSamples(), HarmonySamples()}) {
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  return all;
}

}  // namespace quire
