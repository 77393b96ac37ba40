// GBNF, construct by construct, and well-known grammars.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/grammar/text_grammar.h"

namespace quire {
namespace {

using testing::TextGrammar;

void ExpectTexts(std::string_view grammar_text, const std::vector<std::string>& has,
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

std::string ErrorOf(std::string_view grammar_text) { return TextGrammar(grammar_text).error(); }

TEST(GbnfTest, LiteralsHaveEscapes) {
  ExpectTexts(R"g(root ::= "a\"b\\c\n\t\x41\u00e9\U0001F600\ud83d\ude00\/")g",
              {"a\"b\\c\n\tA\u00e9\U0001F600\U0001F600/"}, {"", "a"});
  ExpectTexts("root ::= \"\u4e2d\u6587\" \"\"", {"\u4e2d\u6587"}, {"\u4e2d"});
  ExpectTexts(R"g(root ::= "\xe9")g", {"\u00e9"}, {"\xe9"});
}

TEST(GbnfTest, ClassesHaveRangesAndComplements) {
  ExpectTexts("root ::= [a-cX]", {"a", "b", "c", "X"}, {"d", "", "ab"});
  ExpectTexts("root ::= [-+*/a-]", {"-", "+", "*", "/", "a"}, {"b", ","});
  ExpectTexts(R"g(root ::= [\]\[\\\-^"#\n\x00-\x1f])g", {"]", "[", "\\", "-", "^", "\"", "#", "\n"},
              {"a", " "});
  ExpectTexts(R"g(root ::= [^\n"])g", {"a", "\u00e9", "\U0010FFFF", "\r"},
              {"\n", "\"", "\xff", "ab"});
  ExpectTexts("root ::= [\u3041-\u309f]+", {"\u3042\u3044"}, {"\u30a2", "a"});
  ExpectTexts("root ::= [^]", {"\n", "\u4e2d"}, {"", "ab"});
  ExpectTexts("root ::= . \"!\"", {"a!", "\n!", "\u00e9!"}, {"!", "ab!"});
}

TEST(GbnfTest, SequencesAlternativesAndGroups) {
  ExpectTexts(R"g(root ::= "a" "b" | "c" | ("d" | "e") "f")g", {"ab", "c", "df", "ef"},
              {"a", "d", "abc", "f"});
  ExpectTexts(R"g(root ::= "a" ( | "b") | )g", {"a", "ab", ""}, {"b"});
  ExpectTexts(R"g(root ::= () "x" ("")*)g", {"x"}, {""});
}

TEST(GbnfTest, Repeats) {
  ExpectTexts(R"g(root ::= "a"? "b"* "c"+)g", {"c", "abbcc", "bc"}, {"", "aac", "ab"});
  ExpectTexts(R"g(root ::= "a"{2} "b"{1,} "c"{0,2} [d]{ 1 , 2 })g", {"aabd", "aabbbccdd"},
              {"abd", "aad", "aabcccd", "aabddd"});
  ExpectTexts(R"g(root ::= ("a" "b"?){2,3})g", {"aa", "abab", "aaba"}, {"a", "aaaa", "abb"});
  ExpectTexts(R"g(root ::= "ab"*)g", {"", "abab"}, {"abb"});
  ExpectTexts(R"g(root ::= "a"*? "b"{0})g", {"", "aa"}, {"b"});
  ExpectTexts(R"g(root ::= x{2,3}
x ::= "(" x ")" | "-")g",
              {"--", "(-)-((-))"}, {"-", "----", "(--)"});
}

TEST(GbnfTest, CommentsAndLines) {
  ExpectTexts(R"g(# first, "quoted" ::= [
root ::= ( # a comment
    "a"    # with ) in it

    "b"
  )* |
  # another
  other-rule_2   # and the last
other-rule_2 ::=
  "c"
  | "d"
)g",
              {"", "abab", "c", "d"}, {"ac"});
  ExpectTexts("root ::= \"a\" b\r\n\r\nb ::= \"b\"\r\n", {"ab"}, {"a"});
}

TEST(GbnfTest, RulesCallRules) {
  ExpectTexts(R"g(root ::= a | b
a ::= "(" a ")" | "x"
b ::= b "," c | c
c ::= "y")g",
              {"x", "((x))", "y", "y,y,y"}, {"(x", "y,", ",y"});
  // Through each other, and nullable.
  ExpectTexts(R"g(root ::= even
even ::= "" | "a" odd
odd ::= "a" even)g",
              {"", "aa", "aaaa"}, {"a", "aaa"});
  ExpectTexts(R"g(root ::= e e "x" e
e ::= f*
f ::= "a" | e "b" e)g",
              {"x", "axa", "bxab", "abbaxbb"}, {"", "ab"});
}

TEST(GbnfTest, RecursionAtOneEndIsALoop) {
  const TextGrammar grammar(R"g(root ::= list
list ::= item | list "," item
item ::= ws word ws
ws ::= ([ \t\n] ws)?
word ::= [a-z] | [a-z] word)g");
  ASSERT_TRUE(grammar.status().ok());
  EXPECT_TRUE(grammar.Has("a , bc,\n d "));
  EXPECT_FALSE(grammar.Has("a , ,d"));
  EXPECT_FALSE(grammar.Has("a b"));
}

TEST(GbnfTest, Arithmetic) {
  ExpectTexts(R"g(root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*)g",
              {"1+2=x\n", "(a *(b-1)) /2= c1\n1=1\n"}, {"1+=2\n", "(1=2\n", "1=2"});
}

TEST(GbnfTest, Json) {
  ExpectTexts(R"g(root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20})g",
              {"{}", R"g({"a": [1, -2.5e3, {"b": null}], "c\n\u00e9": "x\"y"})g", "{\n}"},
              {"[]", "{,}", "{\"a\": 01}", "{\"a\" \"b\"}", "{\"a\": \"\n\"}"});
}

TEST(GbnfTest, XGrammarsJson) {
  ExpectTexts(R"g(root ::= basic_array | basic_object
basic_any ::= basic_number | basic_string | basic_boolean | basic_null | basic_array | basic_object
basic_number ::= ("0" | "-"? [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
basic_string ::= (([\"] basic_string_1 [\"]))
basic_string_1 ::= "" | [^"\\\r\n] basic_string_1 | "\\" escape basic_string_1
escape ::= ["\\/bfnrt] | "u" [A-Fa-f0-9] [A-Fa-f0-9] [A-Fa-f0-9] [A-Fa-f0-9]
basic_boolean ::= "true" | "false"
basic_null ::= "null"
basic_array ::= "[" ("" | ws basic_any (ws "," ws basic_any)*) ws "]"
basic_object ::= "{" ("" | ws basic_string ws ":" ws basic_any ( ws "," ws basic_string ws ":" ws basic_any)*) ws "}"
ws ::= [ \n\t]*)g",
              {"[]", "[ 1 , \"a\\n\" ]", "{\"a\":{ \"b\" : [true,null]}}"},
              {"1", "[1,]", "{\"a\"}", "[\"\n\"]"});
}

TEST(GbnfTest, ChessAndLists) {
  ExpectTexts(R"g(root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?)g",
              {"1. e4 e5\n2. Nf3 Nc6\n", "1. e4 d5\n2. exd5 Qxd5\n3. O-O O-O-O+\n"},
              {"1. e4 e5\n", "1. e9 e5\n2. a1 a2\n"});
  ExpectTexts(R"g(root ::= item+
# Excludes various line break characters
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n")g",
              {"- a\n", "- one\n- tw\u00f6\n"}, {"", "- \n", "- a", "- a\r\n"});
}

TEST(GbnfTest, APartOfC) {
  ExpectTexts(R"g(root ::= (declaration)*
declaration ::= dataType identifier "(" parameter? ")" "{" statement* "}"
dataType ::= "int" ws | "float" ws | "char" ws
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter ::= dataType identifier
statement ::=
    ( dataType identifier ws "=" ws expression ";" ) |
    ( identifier ws "=" ws expression ";" ) |
    ( identifier ws "(" argList? ")" ";" ) |
    ( "return" ws expression ";" ) |
    ( "while" "(" condition ")" "{" statement* "}" )
condition ::= expression relationOperator expression
relationOperator ::= ("<=" | "<" | "==" | "!=" | ">=" | ">")
expression ::= term (("+" | "-") term)*
term ::= factor(("*" | "/") factor)*
factor ::= identifier | number | unaryTerm | funcCall | parenExpression
unaryTerm ::= "-" factor
funcCall ::= identifier "(" argList? ")"
parenExpression ::= "(" ws expression ws ")"
argList ::= expression ("," ws expression)*
number ::= [0-9]+
ws ::= ([ \t\n]+))g",
              {"", "int main(){return 0;}", "int f(int x){while(x<10){x =\t1+f(x, 2)*-( 3 );}}"},
              {"int main(){return 0}", "main(){}", "int f(){x(;}"});
}

TEST(GbnfTest, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(ErrorOf("root ::= a\na ::= b c"), "line 2, column 7: b is not defined");
  EXPECT_EQ(ErrorOf("start ::= \"a\""),
            "no rule root is defined, with which the grammar would begin");
  EXPECT_EQ(ErrorOf("root ::= (\"a\"\nb ::= \"c\""), "line 1, column 10: this ( is not closed");
  EXPECT_EQ(ErrorOf("root ::= \"\u00e9\" )"), "line 1, column 14: this ) closes nothing");
  EXPECT_EQ(ErrorOf("root ::= \"a"), "line 1, column 10: this \" is not closed");
  EXPECT_EQ(ErrorOf("root ::= [a"), "line 1, column 10: this [ is not closed");
  EXPECT_EQ(ErrorOf("root ::= [z-a]"),
            "line 1, column 11: a range of characters ends before it begins");
  EXPECT_EQ(ErrorOf("root ::= []"), "line 1, column 10: this class has no characters");
  EXPECT_EQ(ErrorOf(R"g(root ::= [\d])g"), "line 1, column 11: a bad escape: \\d");
  EXPECT_EQ(ErrorOf(R"g(root ::= "\xg0")g"),
            "line 1, column 13: a bad escape: it needs 2 hexadecimal digits");
  EXPECT_EQ(ErrorOf(R"g(root ::= "\ud800")g"),
            "line 1, column 11: a bad escape: not a Unicode character");
  EXPECT_EQ(ErrorOf("root ::= * \"a\""), "line 1, column 10: there is nothing to repeat");
  EXPECT_EQ(ErrorOf("root ::= \"a\"{3,2}"),
            "line 1, column 13: a repeat has fewer at most than at least");
  EXPECT_EQ(ErrorOf("root ::= \"a\"{1000000}"),
            "line 1, column 14: the number of repeats is too large: at most 100000");
  EXPECT_EQ(ErrorOf("root ::= \"a\"{x}"), "line 1, column 14: a number of repeats is missing");
  EXPECT_EQ(ErrorOf("root ::= \"a\"{1;}"), "line 1, column 15: unexpected ;");
  EXPECT_EQ(ErrorOf("root ::= a b\n  \"c\"\nroot ::= \"d\""),
            "line 3, column 1: the rule root is defined twice");
  EXPECT_EQ(ErrorOf("root ::= 'a'"), "line 1, column 10: unexpected '");
  EXPECT_EQ(ErrorOf("root ::= \"a\" ::= \"b\""), "line 1, column 14: unexpected :");
  EXPECT_EQ(ErrorOf("root \"a\"\nb ::= \"c\""),
            "line 1, column 1: a definition, NAME ::= ..., is missing here");
}

TEST(GbnfTest, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_EQ(ErrorOf("root ::= <think> \"a\""),
            "line 1, column 10: tokens are not supported in a grammar: <think>");
  EXPECT_EQ(ErrorOf("root ::= !<[1000]>*"),
            "line 1, column 10: tokens are not supported in a grammar: !<[1000]>");
  EXPECT_EQ(ErrorOf("root ::= \"a\" (= \"b\")"),
            "line 1, column 14: lookahead, (= ...), is not supported");
  EXPECT_EQ(ErrorOf("root ::= TagDispatch((\"<a>\", b))"),
            "line 1, column 10: TagDispatch(...) is not supported");
  EXPECT_EQ(ErrorOf("root ::= a\na[max_tokens=3, lazy] ::= [a-z]*"),
            "line 2, column 2: rule options are not supported: [max_tokens=3, lazy]");
  EXPECT_EQ(ErrorOf("root[lazy] ::= [a-z]*"),
            "line 1, column 5: rule options are not supported: [lazy]");
}

TEST(GbnfTest, ARuleWithoutTextsIsNamed) {
  EXPECT_EQ(ErrorOf("root ::= \"x\" | a\na ::= \"b\" a"),
            "line 2, column 1: no text can ever satisfy a");
  EXPECT_EQ(ErrorOf("root ::= \"x\" c\na ::= b \"y\"\nb ::= a \"z\"\nc ::= a"),
            "line 3, column 1: no text can ever satisfy b");
  EXPECT_EQ(ErrorOf("root ::= root"), "line 1, column 1: no text can ever satisfy root");
  ExpectTexts("root ::= \"a\"\nunused ::= \"b\" unused", {"a"}, {"b"});
}

}  // namespace
}  // namespace quire
