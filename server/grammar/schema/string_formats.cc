#include "server/grammar/schema/string_formats.h"

#include <string>
#include <utility>

namespace quire {

namespace {

// RFC 3339, 5.6. A leap second is a second 60; 29 February is there in leap years.
#define QUIRE_LEAP_YEAR \
  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define QUIRE_DATE                                                                                 \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]" \
  "|"                                                                                              \
  "30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" QUIRE_LEAP_YEAR "-02-29)"
#define QUIRE_TIME                                                                     \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]+)?(?:[zZ]|[+-](?:[01]" \
  "[0-9]|2[0-3]):[0-5][0-9])"
// RFC 3339, appendix A.
#define QUIRE_DURATION                                                      \
  "P(?:[0-9]+W|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?" QUIRE_DURATION_TIME         \
  "|[0-9]+M(?:[0-9]+D)?" QUIRE_DURATION_TIME "|[0-9]+D" QUIRE_DURATION_TIME \
  "|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|"                                   \
  "[0-9]+M(?:[0-9]+S)?|[0-9]+S))"
#define QUIRE_DURATION_TIME "(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?"
// RFC 5321, 4.1.2: a local part that is a dot string or quoted, and a domain or an address.
#define QUIRE_ATEXT "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]"
#define QUIRE_LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define QUIRE_HOST QUIRE_LABEL "(?:\\." QUIRE_LABEL ")*"
#define QUIRE_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define QUIRE_IPV4 QUIRE_OCTET "(?:\\." QUIRE_OCTET "){3}"
// RFC 3986, appendix A.
#define QUIRE_H16 "[0-9a-fA-F]{1,4}"
#define QUIRE_LS32 "(?:" QUIRE_H16 ":" QUIRE_H16 "|" QUIRE_IPV4 ")"
#define QUIRE_IPV6                                                                                \
  "(?:(?:" QUIRE_H16 ":){6}" QUIRE_LS32 "|::(?:" QUIRE_H16 ":){5}" QUIRE_LS32 "|(?:" QUIRE_H16    \
  ")?::(?:" QUIRE_H16 ":){4}" QUIRE_LS32 "|(?:(?:" QUIRE_H16 ":){0,1}" QUIRE_H16                  \
  ")?::(?:" QUIRE_H16 ":){3}" QUIRE_LS32 "|(?:(?:" QUIRE_H16 ":){0,2}" QUIRE_H16                  \
  ")?::(?:" QUIRE_H16 ":){2}" QUIRE_LS32 "|(?:(?:" QUIRE_H16 ":){0,3}" QUIRE_H16 ")?::" QUIRE_H16 \
  ":" QUIRE_LS32 "|(?:(?:" QUIRE_H16 ":){0,4}" QUIRE_H16 ")?::" QUIRE_LS32 "|(?:(?:" QUIRE_H16    \
  ":){0,5}" QUIRE_H16 ")?::" QUIRE_H16 "|(?:(?:" QUIRE_H16 ":){0,6}" QUIRE_H16 ")?::)"
#define QUIRE_PCHAR "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
#define QUIRE_REGNAME "(?:[a-zA-Z0-9._~!$&'()*+,;=-]|%[0-9a-fA-F]{2})*"
#define QUIRE_USER "(?:(?:[a-zA-Z0-9._~!$&'()*+,;=:-]|%[0-9a-fA-F]{2})*@)?"
#define QUIRE_LITERAL "\\[(?:" QUIRE_IPV6 "|[vV][0-9a-fA-F]+\\.[a-zA-Z0-9._~!$&'()*+,;=:-]+)\\]"
#define QUIRE_AUTHORITY QUIRE_USER "(?:" QUIRE_LITERAL "|" QUIRE_REGNAME ")(?::[0-9]*)?"
#define QUIRE_QUERY "(?:\\?(?:" QUIRE_PCHAR "|[/?])*)?(?:#(?:" QUIRE_PCHAR "|[/?])*)?"
#define QUIRE_SCHEME "[a-zA-Z][a-zA-Z0-9+.-]*:"
#define QUIRE_ABEMPTY "(?:/" QUIRE_PCHAR "*)*"
#define QUIRE_ROOTED "/(?:" QUIRE_PCHAR "+(?:/" QUIRE_PCHAR "*)*)?"
#define QUIRE_URI                                                                     \
  QUIRE_SCHEME "(?://" QUIRE_AUTHORITY QUIRE_ABEMPTY "|" QUIRE_ROOTED "|" QUIRE_PCHAR \
               "+(?:/" QUIRE_PCHAR "*)*|)" QUIRE_QUERY
#define QUIRE_NOCOLON "(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})"
#define QUIRE_RELATIVE                                                                         \
  "(?://" QUIRE_AUTHORITY QUIRE_ABEMPTY "|" QUIRE_ROOTED "|" QUIRE_NOCOLON "+(?:/" QUIRE_PCHAR \
  "*)*|)" QUIRE_QUERY
// RFC 3987: with characters beyond ASCII.
#define QUIRE_IRI "[a-zA-Z][a-zA-Z0-9+.-]*:[^\\x00-\\x20\\x7f<>\"{}|\\\\^`]*"
#define QUIRE_IRI_RELATIVE "[^\\x00-\\x20\\x7f<>\"{}|\\\\^`]*"
#define QUIRE_POINTER "(?:/(?:[^/~]|~[01])*)*"

struct Format {
  const char* name;
  const char* pattern;
};

constexpr Format kFormats[] = {
    {"date-time", QUIRE_DATE "[tT]" QUIRE_TIME},
    {"date", QUIRE_DATE},
    {"time", QUIRE_TIME},
    {"duration", QUIRE_DURATION},
    {"email",
     "(?:" QUIRE_ATEXT "+(?:\\." QUIRE_ATEXT "+)*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")@(?:" QUIRE_HOST
     "|\\[(?:" QUIRE_IPV4 "|IPv6:" QUIRE_IPV6 ")\\])"},
    {"idn-email", "[^@\\x00-\\x20\"]+@[^@\\x00-\\x20\"]+"},
    {"hostname", QUIRE_HOST},
    {"idn-hostname", "[^\\x00-\\x2c/:-@\\[-`{-\\x7f]+"},
    {"ipv4", QUIRE_IPV4},
    {"ipv6", QUIRE_IPV6},
    {"uri", QUIRE_URI},
    {"uri-reference", "(?:" QUIRE_URI "|" QUIRE_RELATIVE ")"},
    {"iri", QUIRE_IRI},
    {"iri-reference", QUIRE_IRI_RELATIVE},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"uri-template",
     "(?:[^\\x00-\\x20\"'%<>\\\\^`{|}]|%[0-9a-fA-F]{2}|\\{[+#./;?&=,!@|]?[a-zA-Z0-9_.%]+"
     "(?::[1-9][0-9]{0,3}|\\*)?(?:,[a-zA-Z0-9_.%]+(?::[1-9][0-9]{0,3}|\\*)?)*\\})*"},
    {"json-pointer", QUIRE_POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" QUIRE_POINTER ")"},
};

}  // namespace

const char* PatternOfFormat(std::string_view format) {
  for (const Format& one : kFormats) {
    if (format == one.name) return one.pattern;
  }
  return nullptr;
}

}  // namespace quire
