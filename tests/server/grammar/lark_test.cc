// Lark, construct by construct, and well-known grammars.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/grammar/schema/schema_grammar.h"
#include "server/text/json_tree.h"
#include "tests/server/grammar/text_grammar.h"

namespace quire {
namespace {

using testing::TextGrammar;

void ExpectLark(std::string_view grammar_text, const std::vector<std::string>& has,
                const std::vector<std::string>& lacks) {
  const TextGrammar grammar(grammar_text);
  ASSERT_TRUE(grammar.status().ok()) << grammar.status() << "\n" << grammar_text;
  for (const std::string& text : has) {
    EXPECT_TRUE(grammar.Has(text)) << "'" << text << "' of\n" << grammar_text;
    for (size_t size = 0; size < text.size(); ++size)
      EXPECT_TRUE(grammar.HasBeginning(text.substr(0, size)))
          << size << " bytes of '" << text << "'";
  }
  for (const std::string& text : lacks)
    EXPECT_FALSE(grammar.Has(text)) << "'" << text << "' of\n" << grammar_text;
  EXPECT_FALSE(grammar.gave_up());
}

std::string LarkError(std::string_view grammar_text) { return TextGrammar(grammar_text).error(); }

TEST(LarkTest, TextsRangesAndRegexes) {
  ExpectLark(R"g(start: "a\n\x41\u00e9\"")g", {"a\nA\u00e9\""}, {"a"});
  ExpectLark(R"g(start: "select"i "\u00c9"i)g", {"select\u00e9", "SeLeCT\u00c9"}, {"selec\u00e9"});
  ExpectLark(R"g(start: "a".."f" "0" .. "3")g", {"a0", "f3"}, {"g0", "a4", "a"});
  ExpectLark(R"g(start: /[a-z]+(\/|=)\d{2}/)g", {"ab/12", "x=34"}, {"ab12", "/12"});
  ExpectLark("start: /a.b/is", {"a\nB", "AxB"}, {"ab"});
  ExpectLark("start: /a # comment\\n/x \"b\"", {"ab"}, {"a b"});
  ExpectLark("start: \"\u4e2d\"", {"\u4e2d"}, {});
}

TEST(LarkTest, GroupsOptionsAndRepeats) {
  ExpectLark(R"g(start: ("a" | "b") ["c" "d"] "e"? "f"* "g"+)g", {"ag", "bcdeffgg"}, {"acg", "a"});
  ExpectLark(R"g(start: "a" ~ 2 "b"~1..2 "c"{2} "d"{,1} "e"{1,} "f"{0,2})g",
             {"aabcce", "aabbccdeeff"}, {"abcce", "aabbbcce", "aabcc", "aabccddee"});
  ExpectLark(R"g(start: x ~ 2..3
x: "(" x? ")")g",
             {"()()", "(())()()"}, {"()", "()()()()"});
  ExpectLark("start: [\"a\"]\n", {"", "a"}, {"aa"});
}

TEST(LarkTest, SkippedParts) {
  ExpectLark(R"g(// a comment
# another
?start: _list -> the_list
      | ONE   -> one   // trailing
!?_list.2: ONE ("," ONE)+
ONE.-1: "1"
!other[capture="x"]: "2"
mine[capture]: "3")g",
             {"1", "1,1"}, {"", "1,"});
  ExpectLark("%llguidance {}\nstart: \"a\"\n?x: \"b\"\n!y: x", {"a"}, {"b"});
}

TEST(LarkTest, LinesMayBreakAnywhere) {
  ExpectLark("start: a\n  | (\"x\"\n     \"y\")\n\n  b\na: \"a\"\n?b: \"b\"", {"a", "xyb"},
             {"x", "ab"});
  ExpectLark("start: \"a\"\r\n     | \"b\"\r\n", {"a", "b"}, {"ab"});
}

TEST(LarkTest, TerminalsAreMadeOfTerminals) {
  ExpectLark(R"g(start: NUMBER ("," NUMBER)*
NUMBER: "-"? DIGITS ["." DIGITS]
DIGITS: DIGIT+
DIGIT: "0".."9"
%ignore " ")g",
             {"1", "-12.5, 3", " 1 , 2 "}, {"- 1", "1 . 5", "1 2", "1."});
}

TEST(LarkTest, IgnoredTerminalsComeBetweenOthers) {
  const char* const text = R"g(start: "let" NAME "=" sum ";"
sum: sum "+" NAME | NAME
NAME: /[a-z]+/
%ignore /[ \t\n]+/
%ignore COMMENT
COMMENT: "//" /[^\n]*/ "\n")g";
  ExpectLark(text,
             {"leta=b;", "let a = b + c;", "\n let// a comment\n a=b// another\n+c ; ",
              "// first\n\n// second\nlet x=y;// last\n"},
             {"le t a=b;", "let a=b", "let a=b; // open"});
  // As often as it comes, whatever it matches.
  ExpectLark("start: \"a\" \"b\"\n%ignore \"x\"\n%ignore \"y\"?", {"ab", "xaxyyxbxx"},
             {"axz", "a"});
}

TEST(LarkTest, Imports) {
  ExpectLark(R"g(%import common.INT
%import common.WS -> SPACE
%import common (CNAME, ESCAPED_STRING, SIGNED_NUMBER)
%ignore SPACE
start: CNAME "=" (INT | ESCAPED_STRING | "<" SIGNED_NUMBER ">"))g",
             {"a_1=12", "B = \"x\\\"y\"", "x=<-1.5e+3>", "x=<.5>", "x=<5.>"},
             {"1=2", "x=\"\n\"", "x=<->", "x=\"a"});
  for (const char* const name : {"DIGIT",
                                 "HEXDIGIT",
                                 "INT",
                                 "SIGNED_INT",
                                 "DECIMAL",
                                 "FLOAT",
                                 "SIGNED_FLOAT",
                                 "NUMBER",
                                 "SIGNED_NUMBER",
                                 "STRING_INNER",
                                 "ESCAPED_STRING",
                                 "LCASE_LETTER",
                                 "UCASE_LETTER",
                                 "LETTER",
                                 "WORD",
                                 "CNAME",
                                 "WS_INLINE",
                                 "WS",
                                 "CR",
                                 "LF",
                                 "NEWLINE",
                                 "SH_COMMENT",
                                 "CPP_COMMENT",
                                 "C_COMMENT",
                                 "SQL_COMMENT",
                                 "_EXP"}) {
    const std::string text = std::string("%import common.") + name + " -> X\nstart: \"<\" X \">\"";
    EXPECT_TRUE(TextGrammar(text).status().ok()) << name;
  }
  ExpectLark("%import common.FLOAT\nstart: FLOAT", {"1e5", "1.", ".5", "1.5E-3"}, {"1", ".", "e5"});
  ExpectLark("%import common.C_COMMENT\nstart: C_COMMENT", {"/**/", "/* * / **/"},
             {"/*/", "/**/ */"});
}

TEST(LarkTest, TerminalsHaveAndAndNot) {
  ExpectLark(R"g(start: LINES
LINES: /[a-z\n]*/ & ~/(?s:.*)\n\n(?s:.*)/)g",
             {"", "a\nb", "\na\n"}, {"a\n\nb", "\n\n", "A"});
  ExpectLark(R"g(start: (WORD " ")*
WORD: /[a-z]+/ & ~("if" | "else") | "!")g",
             {"iff ", "el i ", "! "}, {"if ", "x else "});
  ExpectLark("start: ~~~\"a\"", {"", "b", "aa", "\u00e9"}, {"a", "\xff"});
  ExpectLark("start: A\nA: ~B+\nB: /[^x]*/", {"x", "xax", "axxa"}, {"a", ""});
  EXPECT_EQ(LarkError("start: a & \"b\"\na: \"c\""),
            "line 1, column 8: a terminal cannot have the rule a in it");
  EXPECT_EQ(LarkError("start: A\nA: /a/ & /b/"), "line 2, column 1: no text can ever satisfy A");
}

TEST(LarkTest, JsonSchemasComeFromTheHook) {
  GrammarTextHooks hooks;
  std::string seen;
  hooks.json_schema = [&seen](Grammar* grammar, std::string_view schema) -> absl::StatusOr<RuleId> {
    seen = std::string(schema);
    if (schema.find("bad") != schema.npos) return absl::InvalidArgumentError("it is bad");
    return grammar->AddRule(grammar->store.Literal("{}"));
  };
  const char* const text = R"g(start: TEXT | fun
TEXT: /[^{](.|\n)*/
fun: "call " %json {
  "type": "object", "description": "a } in { quotes \" }",
  "properties": {"city": {"type": "string"}}
} "!"
%ignore "_")g";
  const TextGrammar grammar(text, hooks);
  ASSERT_TRUE(grammar.status().ok()) << grammar.status();
  EXPECT_EQ(seen.front(), '{');
  EXPECT_EQ(seen.substr(seen.size() - 3), "}\n}");
  EXPECT_TRUE(grammar.Has("call {}!"));
  EXPECT_TRUE(grammar.Has("_call _{}_!_"));
  EXPECT_TRUE(grammar.Has("any text"));
  EXPECT_FALSE(grammar.Has("{}"));
  EXPECT_EQ(LarkError(text), "line 3, column 14: %json is not supported here");
  EXPECT_EQ(TextGrammar("start: %json {\"bad\": 1}", hooks).error(),
            "line 1, column 8: the schema of %json: it is bad");
  EXPECT_EQ(TextGrammar("start: A\nA: %json {}", hooks).error(),
            "line 2, column 4: a terminal cannot have rules in it");
  EXPECT_EQ(TextGrammar("start: %json {", hooks).error(),
            "line 1, column 14: this { is not closed");
}

TEST(LarkTest, AnInlineSchemaIsARule) {
  GrammarTextHooks hooks;
  hooks.json_schema = [](Grammar* grammar, std::string_view text) -> absl::StatusOr<RuleId> {
    size_t num_values_left = kMaxJsonValues;
    const absl::StatusOr<JsonTree> schema = ParseJsonTree(text, &num_values_left);
    if (!schema.ok()) return schema.status();
    return AddJsonSchema(grammar, *schema, {.has_white_space = false, .limits = {}});
  };
  const TextGrammar grammar(R"g(start: (call "\n")+
call: NAME %json {"type": "object", "properties": {"city": {"type": "string"}},
                  "required": ["city"], "additionalProperties": false}
NAME: /[a-z]+ /)g",
                            hooks);
  ASSERT_TRUE(grammar.status().ok()) << grammar.status();
  EXPECT_TRUE(grammar.Has("weather {\"city\":\"a } b\"}\ntime {\"city\":\"\"}\n"));
  EXPECT_FALSE(grammar.HasBeginning("weather {\"town"));
  EXPECT_FALSE(grammar.HasBeginning("weather {\"city\":\"\","));
}

TEST(LarkTest, Calculator) {
  ExpectLark(R"g(?start: sum
      | NAME "=" sum    -> assign_var
?sum: product
    | sum "+" product   -> add
    | sum "-" product   -> sub
?product: atom
    | product "*" atom  -> mul
    | product "/" atom  -> div
?atom: NUMBER           -> number
     | "-" atom         -> neg
     | NAME             -> var
     | "(" sum ")"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE)g",
             {"1+2*3", "x = -(1.5 - y) / 2e3", " ( a ) "}, {"1+", "(1", "x = y = z", "1 2"});
}

TEST(LarkTest, Json) {
  ExpectLark(R"g(?start: value
?value: object | array | string
      | SIGNED_NUMBER      -> number
      | "true" | "false" | "null"
array  : "[" [value ("," value)*] "]"
object : "{" [pair ("," pair)*] "}"
pair   : string ":" value
string : ESCAPED_STRING
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS)g",
             {"{}", "[]", "\"a\\\"b\"", " {\n\"a\" : [1, -2.5, {\"b\": null}] , \"c\":true }\n"},
             {"{,}", "[1,]", "tr ue", "{\"a\"}", "\"a"});
}

TEST(LarkTest, ASelectStatement) {
  ExpectLark(R"g(?start: select_statement
?select_statement: "SELECT " column_list " FROM " table_name [" WHERE " condition]
?column_list: column_name ("," column_name)*
?table_name: identifier
?column_name: identifier
condition: column_name "=" NUMBER
?identifier: /[a-zA-Z_][a-zA-Z0-9_]*/
NUMBER: /[0-9]+/)g",
             {"SELECT a,b FROM t", "SELECT x FROM y WHERE z=12"},
             {"SELECT FROM t", "SELECT a FROM t WHERE", "select a FROM t"});
}

TEST(LarkTest, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(LarkError("start: a\n  INT"), "line 1, column 8: a is not defined");
  EXPECT_EQ(LarkError("start: INT"),
            "line 1, column 8: INT is not defined; in Lark, %import common.INT would define it");
  EXPECT_EQ(LarkError("a: \"b\""), "no rule start is defined, with which the grammar would begin");
  EXPECT_EQ(LarkError(""), "no rule start is defined, with which the grammar would begin");
  EXPECT_EQ(LarkError("start: (\"a\"\nb: \"c\""), "line 1, column 8: this group is not closed");
  EXPECT_EQ(LarkError("start: (\"a\"]"), "line 1, column 12: this ] closes nothing");
  EXPECT_EQ(LarkError("start: \"a\nb\""), "line 1, column 8: this \" is not closed");
  EXPECT_EQ(LarkError("start: /a"), "line 1, column 8: this / is not closed");
  EXPECT_EQ(LarkError("start: \"ab\"..\"c\""),
            "line 1, column 8: each end of a range is one character");
  EXPECT_EQ(LarkError("start: \"a\"~x"), "line 1, column 12: x is not defined");
  EXPECT_EQ(LarkError("start: \"a\"~"), "line 1, column 12: there is nothing behind the ~");
  EXPECT_EQ(LarkError("start: (\"a\"~)"), "line 1, column 14: there is nothing behind the ~");
  EXPECT_EQ(LarkError("start: ~*\"a\""), "line 1, column 9: there is nothing to repeat");
  EXPECT_EQ(LarkError("start: \"a\" ->"), "line 1, column 14: the name of the alias is missing");
  EXPECT_EQ(LarkError("start: A\nA: \"a\" B\nB: A"),
            "line 3, column 1: the terminal B calls itself");
  EXPECT_EQ(LarkError("start: A\nA: b\nb: \"c\""),
            "line 2, column 4: a terminal cannot have the rule b in it");
  EXPECT_EQ(LarkError("start: A\nA: \"a\"\nA: \"b\""), "line 3, column 1: A is defined twice");
  EXPECT_EQ(LarkError("start \"a\""),
            "line 1, column 1: a definition, NAME: ..., or a directive, %..., is missing here");
  EXPECT_EQ(LarkError("%import common.FOO\nstart: FOO"),
            "line 1, column 16: the module common has no terminal FOO");
  EXPECT_EQ(LarkError("%import python.NAME\nstart: NAME"),
            "line 1, column 9: only the module common can be imported, not python.NAME");
  EXPECT_EQ(LarkError("%import common.INT -> int\nstart: int").substr(0, 60),
            "line 1, column 16: the name of a terminal, in upper case, is");
  EXPECT_EQ(LarkError("start: ~~"), "line 1, column 10: there is nothing behind the ~");
  const std::string regex = LarkError("start: /a(/");
  EXPECT_EQ(regex.substr(0, 47), "line 1, column 8: the regular expression /a(/: ") << regex;
}

TEST(LarkTest, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_EQ(LarkError("start: <|python_tag|> \"a\""),
            "line 1, column 8: special tokens are not supported in a grammar: <|python_tag|>");
  EXPECT_EQ(LarkError("start: a\na[lazy]: /a*/"),
            "line 2, column 3: the attribute lazy is not supported");
  EXPECT_EQ(LarkError("start: a\na[capture, stop=\"]:\"]: /a*/"),
            "line 2, column 12: the attribute stop is not supported");
  EXPECT_EQ(LarkError("start: list{x}\nlist{a}: a"),
            "line 1, column 8: templates are not supported: list{x}");
  EXPECT_EQ(LarkError("start: \"a\"\nlist{a, b}: a"),
            "line 2, column 1: templates are not supported: list{a, b}");
  EXPECT_EQ(LarkError("start: a::0x3\na::_: \"b\""),
            "line 1, column 8: parameters of rules are not supported: a");
  EXPECT_EQ(LarkError("start: \"a\"\na::_: \"b\""),
            "line 2, column 1: parameters of rules are not supported: a");
  EXPECT_EQ(LarkError("start: @sub"),
            "line 1, column 8: references to other grammars are not supported: @sub");
  EXPECT_EQ(LarkError("%declare A\nstart: A"),
            "line 1, column 1: the directive %declare is not supported");
  EXPECT_EQ(LarkError("start: %regex {}"), "line 1, column 8: %regex is not supported here");
  EXPECT_EQ(LarkError("start: /a/l"), "line 1, column 11: the flag l is not supported");
  EXPECT_EQ(LarkError("%llguidance {\"no_forcing\": true}\nstart: \"a\""),
            "line 1, column 13: options of %llguidance are not supported");
}

}  // namespace
}  // namespace quire
