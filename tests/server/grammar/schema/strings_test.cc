// Keywords of strings, and how their texts may be spelled.
#include <iterator>

#include "absl/strings/str_replace.h"
#include "tests/server/grammar/schema/schema_expectations.h"

namespace quire {
namespace {

TEST(StringsTest, FreeTextsHaveEveryEscape) {
  ExpectTexts(
      R"({"type": "string"})",
      {R"("\"\\\/\b\f\n\r\t")", R"("\u0000\u001F\u00e9\uABCD\uFFFF")",
       R"("\ud83d\ude00 \uDBFF\uDFFF")", "\"\x7F é ☃ 😀 \xF4\x8F\xBF\xBF\"", R"("\ud7ff\ue000")"},
      {R"("\x41")", R"("\u12")", R"("\u12G4")", R"("\'")", R"("\")", "\"\n\"", "\"\t\"", "\"\x01\"",
       // Halves of surrogate pairs, as escapes and as bytes; bytes that are not UTF-8.
       R"("\ud83d")", R"("\ude00")", R"("\ud83d\ud83d")", R"("\ud83dx")", R"("\ude00\ud83d")",
       "\"\xED\xA0\x80\"", "\"\xFF\"", "\"\xC3\"", "\"\xC0\x80\"", "\"\xF4\x90\x80\x80\""});
}

TEST(StringsTest, LengthsCountCharacters) {
  ExpectTexts(R"({"type": "string", "minLength": 2, "maxLength": 3})",
              {"\"ab\"", "\"abc\"", "\"é☃\"", "\"😀😀😀\"", R"("\n\"")", R"("\u0041\ud83d\ude00\\")",
               R"("a\/b")"},
              {"\"\"", "\"a\"", "\"abcd\"", "\"😀\"", R"("\n")", R"("\ud83d\ude00")",
               R"("\u0041\u0042\u0043\u0044")", "\"😀😀😀😀\""});
  ExpectTexts(R"({"minLength": 1})", {"\"a\"", "1", "null"}, {"\"\""});
  ExpectTexts(R"({"type": "string", "maxLength": 0})", {"\"\""}, {"\"a\"", R"("\n")"});
  ExpectTexts(R"({"type": "string", "maxLength": 99999999999999999999})", {"\"a\""}, {"1"});
  ExpectTexts(R"({"type": "string", "minLength": 1.0})", {"\"a\""}, {"\"\""});
  const std::string text = absl::StrCat("\"", std::string(1000, 'x'), "\"");
  ExpectTexts(
      R"({"type": "string", "minLength": 1000, "maxLength": 1000})", {text},
      {text.substr(1), absl::StrCat("\"x", text.substr(1)), absl::StrCat("\"", text.substr(2))});
  ExpectNothing(R"({"type": "string", "minLength": 3, "maxLength": 2})");
  ExpectError(R"({"properties": {"a": {"minLength": "2"}}})", kWrong, "#/properties/a/minLength",
              "whole number");
}

TEST(StringsTest, Patterns) {
  ExpectTexts(R"({"type": "string", "pattern": "^[a-c]+$"})", {"\"a\"", "\"abcabc\""},
              {"\"\"", "\"abd\"", "1"});
  ExpectTexts(R"({"type": "string", "pattern": "b"})", {"\"b\"", "\"abc\""}, {"\"ac\""});
  ExpectTexts(R"({"pattern": "^é\\n\"$"})", {R"("é\n\"")", "3"}, {"\"é\"", "\"é\n\"\""});
  ExpectTexts(R"({"type": "string", "pattern": "^[a-z]*$", "minLength": 2, "maxLength": 4})",
              {"\"ab\"", "\"abcd\""}, {"\"a\"", "\"abcde\"", "\"AB\""});
  ExpectTexts(R"({"type": "string", "pattern": "^.*$", "maxLength": 2})",
              {"\"é😀\"", "\"\"", R"("\"\\")"}, {"\"abc\"", R"("\n")"});
  ExpectTexts(R"({"type": "string", "pattern": "^(ab)+$", "minLength": 3, "maxLength": 5})",
              {"\"abab\""}, {"\"ab\"", "\"ababab\""});
  ExpectTexts(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"})",
              {"\"ab\"", "\"xbya\""}, {"\"a\"", "\"b\""});
  ExpectTexts(R"({"type": "string", "pattern": "^(?!x)[a-z]+$"})", {"\"ax\""}, {"\"xa\""});
  ExpectNothing(R"({"type": "string", "pattern": "^a$", "minLength": 2})");
  ExpectError(R"({"properties": {"a": {"pattern": "a("}}})", kWrong, "#/properties/a/pattern",
              "\"a(\"");
  ExpectError(R"({"pattern": "(a)\\1"})", kUnsupported, "#/pattern", "\"(a)\\1\"");
  ExpectError(R"({"pattern": 1})", kWrong, "#/pattern", "string");
}

// Values in quotes are added here.
void Format(const std::string& format, const JsonTexts& valid, const JsonTexts& invalid) {
  const auto quoted = [](const JsonTexts& texts) {
    std::vector<std::string> result;
    for (const std::string_view text : texts)
      result.push_back(absl::StrCat(
          "\"", absl::StrReplaceAll(std::string(text), {{"\\", "\\\\"}, {"\"", "\\\""}}), "\""));
    return result;
  };
  const std::vector<std::string> good = quoted(valid), bad = quoted(invalid);
  ExpectTexts(absl::StrCat(R"({"type": "string", "format": ")", format, "\"}"),
              JsonTexts(good.begin(), good.end()), JsonTexts(bad.begin(), bad.end()));
}

TEST(StringsTest, FormatsOfTimes) {
  Format("date", {"2024-02-29", "2000-02-29", "1999-12-31", "2023-04-30", "0000-01-01"},
         {"2023-02-29", "1900-02-29", "2100-02-29", "2023-04-31", "2023-13-01", "2023-00-10",
          "2023-1-1", "23-01-01", "2023-01-00", ""});
  Format("time", {"00:00:00Z", "23:59:60z", "12:30:45.123+05:30", "12:30:45-23:59"},
         {"24:00:00Z", "12:60:00Z", "12:00:61Z", "12:00Z", "12:00:00", "12:00:00+5:00",
          "12:00:00.Z", "12:00:00+24:00"});
  Format("date-time", {"2024-02-29T23:59:59Z", "2023-01-01t00:00:00.5+01:00"},
         {"2023-02-29T00:00:00Z", "2023-01-01 00:00:00Z", "2023-01-01", "2023-01-01T00:00:00",
          "2022-02-31T00:00:00Z"});
  Format("duration", {"P1Y2M3DT4H5M6S", "P4W", "PT1M", "P1D", "PT36H", "P2DT1S", "P1Y2M"},
         {"P", "PT", "1D", "P1", "P1S", "P1D2H", "P1W2D", "P1YT", "P1Y3D", "PT1H3S"});
}

TEST(StringsTest, FormatsOfAddresses) {
  Format(
      "email",
      {"a@b", "first.last+tag@example.co.uk", "\"a b\"@x.org", "x@[127.0.0.1]", "x@[IPv6:::1]"},
      {"a", "@b", "a@", "a@b@c", ".a@b", "a..b@c", "a b@c", "a@-b", "a@b..c", "x@[127.0.0.256]"});
  Format("idn-email", {"é@ö.de"}, {"a", "@b", "a@"});
  Format("hostname", {"a", "example.com", "a-b.c-d", "1.2"},
         {"", "-a", "a-", "a..b", ".a", "a_b", "é", std::string(64, 'a')});
  Format("idn-hostname", {"éxample.com"}, {"", "a b", "a/b"});
  Format("ipv4", {"0.0.0.0", "255.255.255.255", "1.2.3.4"},
         {"256.0.0.0", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3.4 "});
  Format("ipv6",
         {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "::ffff:1.2.3.4", "1:2::7:8", "fe80::1"},
         {"", ":", "1:2:3:4:5:6:7", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9",
          ":::", "g::", "1.2.3.4", "fe80::1%25en0"});
  Format("uuid", {"2eb8aa08-AA98-11ea-b4aa-73b441d16380"},
         {"2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638", ""});
}

TEST(StringsTest, FormatsOfIdentifiers) {
  Format("uri",
         {"http://a", "https://u:p@h.org:80/p/q?x=1&y#f", "urn:a:b", "mailto:a@b", "file:///x",
          "http://[::1]/", "a:"},
         {"", "//a", "/a", "a b:c", "http://a b", "1:a", "http://a/%zz", "http://[::1", "a:\\b",
          "http://é"});
  Format("uri-reference", {"", "/a", "//a/b", "a?b#c", "#f", "http://a", "../x"},
         {"a b", "%z", "\\a", "#a#b"});
  Format("iri", {"http://é/ö?ü"}, {"/é", "http://a b", ""});
  Format("iri-reference", {"/é", "", "#ö"}, {"a b", "\\a", "<a>"});
  Format("uri-template", {"", "/a/{b}", "{?x,y*}", "{+a:3}", "http://x/{a}%20"},
         {"{", "{}", "a}", "{a", "%2"});
  Format("json-pointer", {"", "/a/b", "/~0~1", "/", "//", "/é"}, {"a", "/~", "/~2", "#/a"});
  Format("relative-json-pointer", {"0", "1/a", "2#", "10/~1"}, {"", "/a", "01", "0##", "-1", "1~"});
}

TEST(StringsTest, OtherFormatsAskForNothing) {
  Format("color", {"", "anything"}, {});
  Format("", {"anything"}, {});
  Format("regex", {"[a-z]"}, {});
  Format("int32", {"x"}, {});
  ExpectTexts(R"({"format": 5, "type": "string"})", {"\"a\""}, {});
  ExpectTexts(R"({"format": "date"})", {"1", "\"2023-01-01\"", "[]"}, {"\"a\""});
  ExpectTexts(R"({"type": "string", "format": "email", "maxLength": 5, "pattern": "^a"})",
              {"\"a@b\""}, {"\"b@a\"", "\"abc@de\""});
}

}  // namespace
}  // namespace quire
