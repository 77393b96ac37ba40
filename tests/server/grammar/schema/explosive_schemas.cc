#include "tests/server/grammar/schema/explosive_schemas.h"

#include "absl/strings/str_cat.h"

namespace quire {

std::string Repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) {
    std::string one = text;
    for (size_t at = one.find("%i"); at != std::string::npos; at = one.find("%i", at))
      one.replace(at, 2, absl::StrCat(i));
    absl::StrAppend(&result, i > 0 ? "," : "", one);
  }
  return result;
}

namespace {

std::string Nested(const std::string& open, const std::string& inner, const std::string& close,
                   int depth) {
  std::string result = inner;
  for (int i = 0; i < depth; ++i) result = absl::StrCat(open, result, close);
  return result;
}

std::string RepeatedText(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::vector<ExplosiveSchema> SchemasOfObjects() {
  const std::string member = R"("m%i":{"type":"integer"})";
  return {
      {"OptionalMembers", absl::StrCat(R"({"properties":{)", Repeated(member, 5000), "}}")},
      {"OptionalMembersWithPatterns",
       absl::StrCat(R"({"properties":{)", Repeated(R"("m%i":{"pattern":"^a{0,%i}b"})", 2000),
                    "}}")},
      {"CountedMembers", absl::StrCat(R"({"minProperties":400,"maxProperties":600,"properties":{)",
                                      Repeated(member, 1000), "}}")},
      {"RequiredWithoutDeclaration",
       absl::StrCat(R"({"required":[)", Repeated("\"m%i\"", 5000), "]}")},
      {"PatternProperties",
       absl::StrCat(R"({"patternProperties":{)", Repeated(R"("a%i":{"minimum":%i})", 60), "}}")},
      {"PatternPropertiesAndMembers",
       absl::StrCat(R"({"patternProperties":{)", Repeated(R"("^.*a.{%i}$":{"minimum":%i})", 40),
                    R"(},"properties":{)", Repeated(member, 500), "}}")},
      {"Dependencies",
       absl::StrCat(R"({"dependentRequired":{)", Repeated(R"("a%i":["b%i"])", 60), "}}")},
      {"DependentSchemas",
       absl::StrCat(R"({"dependentSchemas":{)",
                    Repeated(R"("a%i":{"properties":{"b%i":{"const":%i}}})", 40), "}}")},
      {"NotRequiredOfMany",
       absl::StrCat(R"({"allOf":[)", Repeated(R"({"not":{"required":["a%i","b%i"]}})", 40), "]}")},
      {"WideTree",
       absl::StrCat(
           "{\"$ref\":\"#/$defs/d0\",\"$defs\":{",
           Repeated(
               R"("d%i":{"properties":{"a":{"$ref":"#/$defs/e%i"},"b":{"$ref":"#/$defs/e%i"}}},"e%i":{"properties":{"c":{"$ref":"#/$defs/d%i"}}})",
               3000),
           "}}")},
  };
}

std::vector<ExplosiveSchema> SchemasOfCombinations() {
  return {
      {"AnyOfAnyOf", Nested(R"({"anyOf":[{"type":"integer"},{"items":)", "{}", "}]}", 90)},
      {"AllOfOfAnyOf",
       absl::StrCat(R"({"allOf":[)",
                    Repeated(R"({"anyOf":[{"required":["a%i"]},{"required":["b%i"]}]})", 60),
                    "]}")},
      {"AllOfOfOneOf",
       absl::StrCat(R"({"allOf":[)",
                    Repeated(R"({"oneOf":[{"pattern":"a%i"},{"pattern":"b%i"}]})", 60), "]}")},
      {"HugeEnum", absl::StrCat(R"({"enum":[)", Repeated("\"value number %i\"", 20000), "]}")},
      {"HugeEnumOfNumbers", absl::StrCat(R"({"enum":[)", Repeated("%i.5", 5000), "]}")},
      {"HugeEnumOfObjects",
       absl::StrCat(R"({"enum":[)", Repeated(R"({"a":%i,"b":"%i"})", 3000), "]}")},
      {"OneOfOfConstants",
       absl::StrCat(R"({"oneOf":[)", Repeated(R"({"const":"v%i"})", 1500), "]}")},
      {"OneOfOfNumbers", absl::StrCat(R"({"oneOf":[)", Repeated(R"({"minimum":%i})", 300), "]}")},
      {"OneOfOfMembers",
       absl::StrCat(
           R"({"oneOf":[)",
           Repeated(
               R"({"properties":{"t":{"const":"k%i"},"a%i":{"type":"string"}},"required":["t"]})",
               300),
           "]}")},
      {"OneOfOfOptionalMembers",
       absl::StrCat(R"({"oneOf":[)",
                    Repeated(R"({"properties":{"t":{"const":"k%i"},"a%i":{"type":"string"}}})", 30),
                    "]}")},
      {"OneOfOfPatterns", absl::StrCat(R"({"type":"string","oneOf":[)",
                                       Repeated(R"({"pattern":"^[a-z]*x[a-z]{%i}$"})", 25), "]}")},
      {"OneOfOfArrays",
       absl::StrCat(R"({"oneOf":[)", Repeated(R"({"type":"array","items":{"minimum":%i}})", 20),
                    "]}")},
      {"OneOfOfOneOf", Nested(R"({"oneOf":[{"minLength":3},{"pattern":"b"},)", "{}", "]}", 25)},
      {"IfIfIf", Nested(R"({"if":{"properties":{"a":{"const":1}}},"then":)", "{}",
                        R"(,"else":{"required":["b"]}})", 40)},
      {"NotNotNot", Nested(R"({"not":{"properties":{"a":)", "{\"type\":\"null\"}", "}}}", 60)},
      {"NotAllOf",
       absl::StrCat(R"({"not":{"anyOf":[)", Repeated(R"({"required":["a%i","b%i"]})", 30), "]}}")},
      {"AllOfTree",
       Nested(
           R"({"allOf":[{"$ref":"#/$defs/a"},)", "{\"$ref\":\"#/$defs/a\"}",
           R"(],"$defs":{"a":{"anyOf":[{"required":["x"]},{"required":["y"]},{"type":"null"}]}}})",
           25)},
      {"RecursiveProduct",
       R"({"$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}}},"b":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/c"}]}}},"c":{"properties":{"x":{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/c"}]}}}}})"},
      {"PowerSets",
       absl::StrCat(
           R"({"$ref":"#/$defs/s0","$defs":{)",
           Repeated(
               R"("s%i":{"properties":{"n":{"anyOf":[{"$ref":"#/$defs/s0"},{"$ref":"#/$defs/t%i"}]}}},"t%i":{"properties":{"n":{"allOf":[{"$ref":"#/$defs/s%i"},{"$ref":"#/$defs/s0"}]}}})",
               200),
           "}}")},
  };
}

std::vector<ExplosiveSchema> SchemasOfTexts() {
  return {
      {"RepeatsOfRepeats", R"({"pattern":"^(((a{0,100}b){0,100}c){0,100}d){0,100}$"})"},
      {"OptionalLetters", absl::StrCat(R"({"pattern":"^)", RepeatedText("a?", 15000), "$\"}")},
      {"OptionalPairs", absl::StrCat(R"({"pattern":"^)", RepeatedText("a?b?", 8000), "$\"}")},
      {"OptionalThrees",
       absl::StrCat(R"({"pattern":"^)", RepeatedText("a?[ab]?[a-c]?", 4000), "$\"}")},
      {"OptionalClasses", absl::StrCat(R"({"pattern":"^)", RepeatedText("[a-y]?", 8000), "$\"}")},
      {"Lookaheads", absl::StrCat(R"({"pattern":"^)", RepeatedText("(?=.*a.{9}b)", 12), "$\"}")},
      {"DifferentLookaheads",
       R"({"pattern":"^(?=.*a.{9}b)(?=.*b.{8}c)(?=.*c.{7}d)(?=.*d.{11}e)(?=.*e.{10}f)(?!.*f.{9}a).*$"})"},
      {"NthFromTheEnd", R"({"pattern":"a[ab]{200}$"})"},
      {"TwoNthFromTheEnd",
       R"({"allOf":[{"pattern":"^[ab]*a[ab]{60}$"},{"pattern":"^[ab]*b[ab]{61}$"}],"type":"string"})"},
      {"ProductOfCounts",
       R"({"type":"string","allOf":[{"pattern":"^(aa|b){200,300}$"},{"pattern":"^(ab|a|b){150,400}$"},{"pattern":"^(a|bb){100,500}$"}]})"},
      {"PatternAndLength",
       R"({"type":"string","pattern":"^([a-z]+ ?)*$","minLength":5000,"maxLength":10000})"},
      {"PatternsAndLength",
       R"({"type":"string","allOf":[{"pattern":"^([a-z]+ )*x"},{"pattern":"y([0-9]{3})*$"}],"minLength":500,"maxLength":900})"},
      {"FormatsAtOnce",
       R"({"type":"string","allOf":[{"format":"uri"},{"format":"iri"},{"format":"uri-reference"},{"not":{"format":"email"}},{"pattern":"[0-9]{50}"}],"maxLength":4000})"},
      {"LongLength", R"({"type":"string","minLength":1000000,"maxLength":900000000})"},
      {"LongContents",
       absl::StrCat(R"({"type":"string","not":{"enum":[)", Repeated("\"%i\"", 5000), "]}}")},
      {"NamesOfManyMembers",
       absl::StrCat(R"({"propertyNames":{"pattern":"^([a-z]+[0-9]*)*$"},"properties":{)",
                    Repeated(R"("m%i":{})", 3000), "}}")},
  };
}

std::vector<ExplosiveSchema> SchemasOfNumbersAndArrays() {
  return {
      {"LongBounds", absl::StrCat(R"({"minimum":-0.)", std::string(300, '3'), R"(,"maximum":)",
                                  std::string(300, '9'), "}")},
      {"Multiples", absl::StrCat(R"({"allOf":[)", Repeated(R"({"multipleOf":1%i9})", 8), "]}")},
      {"NotMultiples", absl::StrCat(R"({"type":"integer","allOf":[)",
                                    Repeated(R"({"not":{"multipleOf":1%i9}})", 8), "]}")},
      {"FineMultiple", R"({"multipleOf":0.00000000000000007,"minimum":0.1,"maximum":99999999999})"},
      {"LargeMultiple", R"({"type":"integer","multipleOf":99999999999999989,"minimum":5})"},
      {"PrefixItems",
       absl::StrCat(R"({"prefixItems":[)", Repeated(R"({"minimum":%i})", 10000), "]}")},
      {"ManyItems",
       R"({"type":"array","minItems":100000000,"maxItems":900000000,"items":{"type":"integer"}})"},
      {"ItemsOfItems",
       Nested(R"({"type":"array","minItems":100,"maxItems":200,"items":)", "{}", "}", 60)},
      {"Contains",
       R"({"type":"array","contains":{"type":"integer"},"minContains":20,"maxItems":100})"},
      {"ContainsTooMuch", R"({"type":"array","contains":{"type":"integer"},"minContains":500})"},
      {"DeepNesting", Nested(R"({"properties":{"a":)", "{}", "}}", 150)},
      {"DeepReferences",
       absl::StrCat(
           "{\"$ref\":\"#/$defs/d0\",\"$defs\":{",
           Repeated(
               R"("d%i":{"allOf":[{"$ref":"#/$defs/e%i"}]},"e%i":{"anyOf":[{"$ref":"#/$defs/f%i"}]},"f%i":true)",
               50),
           "}}")},
  };
}

}  // namespace

std::vector<ExplosiveSchema> ExplosiveSchemas() {
  std::vector<ExplosiveSchema> all;
  for (auto& list :
       {SchemasOfObjects(), SchemasOfCombinations(), SchemasOfTexts(), SchemasOfNumbersAndArrays()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace quire
