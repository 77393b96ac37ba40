"""The cases of differential_test.py: small templates for each construct, and whole chat templates of our own that
use the constructs of well-known families, each with many conversations."""
import itertools

import family_templates

VARIABLES = {
    "n": 7,
    "negative": -3,
    "big": 18446744073709551615,
    "half": 2.5,
    "tiny": 1e-7,
    "huge": 1e22,
    "flag": True,
    "nothing": None,
    "text": "Hello, World",
    "padded": "  \n padded\t ",
    "unicode": "Grüße, 世界 🚀 ß İ",
    "greek": "ΟΔΥΣΣΕΥΣ ΣΑΣ, Σ Α\u0301Σ. ΑΣ'Α (ΑΣ) ᾳᾼ ﬃ ŉ ΐ",
    "quotes": "it's \"quoted\" \\ back\x01\x7f\u2028",
    "lines": "one\ntwo\r\nthree\n\nfive\n",
    "numbers": [3, 1, 2],
    "mixed": [1, "two", None, True, 2.0, [3], {"k": "v"}],
    "words": ["banana", "Apple", "cherry", "apple"],
    "people": [
        {"name": "Zoe", "age": 31, "address": {"city": "Oslo"}},
        {"name": "adam", "age": 25, "address": {"city": "Bonn"}},
        {"name": "Ben", "age": 31},
    ],
    "mapping": {"b": 1, "a": [1, 2], "C": {"x": None}, "items": "shadow", "get": 5},
    "empty": {"list": [], "dict": {}, "text": ""},
    "nested": {"a": {"b": [{"c": "deep"}]}},
}

PRINT = """n negative big half tiny huge flag nothing text unicode quotes numbers mixed people mapping empty
1.0 1e16 1e15 123456789.123 0.1+0.2 -0.0 1e-5 0.0001 [] {} () (1,) (1,2) none true [1.5,'a',"it's"] ['"'] {'a':1}
1_000 1e3 3.5e-3 'a\\tb\\n\\x41\\u00e9\\\\' "it's" 'a' "b" """.split()

EXPRESSIONS = """
n + 1|n - 10|n * 3|n / 2|n // 2|n % 3|negative // 2|negative % 5|7 // -2|7 % -2|2 ** 10|2 ** -1|half * 2|half // 1|-half % 1
n / 0|n // 0|n % 0|-n|+n|- -n|not n|not not n|1 + 2 * 3|(1 + 2) * 3|2 ** 3 ** 2|-2 ** 2|1 - 2 - 3|10 - 2 ~ 3|1 ~ 2 + 3|2 * 3 ~ 4
'a' + 'b'|'a' ~ 1 ~ none ~ true ~ 1.5|'a' + 1|'ab' * 3|3 * 'ab'|'ab' * -1|[1] + [2]|[1, 2] * 2|(1,) + (2,)|[1] + (2,)|1 + none|none + 'a'
n == 7|n == 7.0|true == 1|'a' == 'a'|'a' == 1|[1, 2] == [1, 2]|[1] == (1,)|{'a': 1} == {'a': 1.0}|none == none|none == false|missing == none
missing == missing2|n != 7|n < 8|n <= 7 < 9|1 < 2 < 3|1 < 3 < 2|'a' < 'b'|'a' < 1|[1, 2] < [1, 3]|[1] < [1, 0]|none < 1|1 < 2 == true|3 > 2 > 1
'ell' in text|'x' in text|'' in text|1 in numbers|9 not in numbers|'a' in mapping|'z' in mapping|not 'a' in mapping|none in mixed|1 in text|'a' in n
'a' in missing|[3] in mixed|(1 in numbers) in [true]|[1] in mapping|n in range(8)
flag and n|flag or n|nothing and n|nothing or n|'' or 'x' or 'y'|0 and 1|missing or 'default'|missing and 1|not missing|flag and not nothing
'yes' if flag else 'no'|'yes' if nothing else 'no'|'yes' if flag|'yes' if nothing|1 if flag else 2 if nothing else 3|('a' if nothing) is defined
text[0]|text[-1]|text[100]|text[1:4]|text[::-1]|text[:-7]|text[-5:]|text[::2]|text[5:2]|text[10:2:-3]|unicode[7:]|unicode[-1]|unicode[::-1]|unicode[11]
numbers[0]|numbers[-1]|numbers[5]|numbers[1:]|numbers[::-1]|numbers[:2]|numbers[::0]|numbers['a']|(1, 2, 3)[1:]|numbers[true]|numbers[1.0]|numbers[none:2]
mapping.a|mapping['a']|mapping.missing|mapping['missing']|mapping.missing.x|mapping['missing']['x']|mapping.C.x|mapping[1]|mapping[[1]]|mapping['items']
mapping.items()|mapping['get']|mapping.get('b')|mapping.get('zz')|mapping.get('zz', 'dd')|mapping.keys()|mapping.values()|mapping.keys()|list|mapping[1:]
none.x|none[0]|nothing.x.y|n.x|n[0]|text.x|text['x']|missing|missing.x|missing[0]|missing[1:]|missing()|missing ~ 'a'|nothing[1:]
people[0].name|people[0]['address'].city|people.0.name|people[-1].address is defined|nested.a.b[0].c|nested['a']['b'][0]['c']|people[2].address.city
[1, 'a', none, [true]]|(1, 'a')|{'a': 1, 'b': [2]}|{1: 2, none: 3, 'k': 'v'}|{'a': 1}.a|[[1, 2], [3]][0][1]|[1, 2,]|{'a': 1,}|{[1]: 2}|{'a': 1, 'a': 2}
range(3)|list|range(1, 6, 2)|list|range(5, 0, -2)|list|range(0)|list|range(3)|length|range(3)[1]|range(3, 1)|list|range(2) == range(2)|range(1, 2, 0)
dict(a=1, b='x')|dict({'a': 1}, b=2)|dict([('a', 1), ('b', 2)])|dict()|dict(a=1).a|namespace(a=1).a|namespace(a=1).b|namespace({'z': 3}).z
text.upper()|text.lower()|text.title()|'ab cd-ef'.title()|'hELLO wORLD'.capitalize()|unicode.upper()|unicode.lower()|'aBc'.swapcase()|"they're bill's".title()
padded.strip()|padded.lstrip()|padded.rstrip()|'xxhixx'.strip('x')|'abchiabc'.strip('cab')|'www.x.com'.lstrip('w.')|'\u3000a\u00a0'.strip()|'a\\n'.rstrip('\\n')|''.strip()
text.split(',')|text.split(', ')|'a b  c '.split()|'a b  c '.split(' ')|'a,b,c'.split(',', 1)|'a,b,c'.rsplit(',', 1)|' a b c '.split(none, 1)|' a b c '.rsplit(none, 1)|'a'.split('')
'abc'.split('x')|''.split()|''.split(',')|'aXXXb'.split('XX')|'aXXXb'.rsplit('XX')|lines.splitlines()|lines.splitlines(true)|'</think>x</think>y'.split('</think>')[-1]
text.startswith('Hello')|text.startswith('hello')|text.startswith(('x', 'H'))|text.endswith('World')|text.endswith(('d',))|text.startswith('ello', 1)|text.startswith('')|text.startswith(1)
text.find('o')|text.find('zz')|text.rfind('o')|unicode.find('世')|text.find('o', 5)|text.index('W')|text.index('zz')|text.count('l')|'aaaa'.count('aa')|text.count('')
text.replace('l', 'L')|text.replace('l', 'L', 1)|text.replace('', '-')|text.replace('o', '')|'aaa'.replace('aa', 'b')|text.replace('o', 1)|'abc'.replace('', '-', 2)
', '.join(words)|''.join(numbers)|'-'.join('abc')|', '.join({'a': 1, 'b': 2})|'{} and {}'.format(1, 'x')|'{0}{1}{0}'.format('a', 'b')|'{a}'.format(a=n)|'{{}}'.format()|'{}'.format()
'123'.isdigit()|'12a'.isdigit()|''.isdigit()|'abc'.isalpha()|'äß'.isalpha()|'a1'.isalnum()|' \\t'.isspace()|'ABC'.isupper()|'abc'.islower()|'Abc'.isupper()|'١٢'.isdigit()
'a-b-c'.partition('-')|'abc'.partition('-')|'a-b-c'.rpartition('-')|'prefix-x'.removeprefix('prefix-')|'x.txt'.removesuffix('.txt')|'abc'.removeprefix('x')
'%s is %d' % ('x', 3)|'%s' % 'a'|'%5.2f|' % half|'%-5s|' % 'ab'|'%05d' % 42|'%x' % 255|'%%' % ()|'%(a)s' % {'a': 1}|'%s' % (1, 2)|'%d' % 'x'|'%r' % 'q'|'%+d' % 5|'%s %s' % ('a',)
numbers.index(1)|numbers.index(9)|numbers.count(3)|numbers.append(4)|numbers.pop()|mapping.update({})|mapping.pop('a')|numbers.sort()|mapping.clear is defined
text.__class__|mapping.__class__|''.__class__.__mro__|text.nothing()|n()|'a'()|text.upper(1)|text.split(sep=',', maxsplit=1)|mapping.get()
strftime_now('%Y-%m-%d')|strftime_now('%d %b %Y')|strftime_now('%A, %B %d, %Y %H:%M:%S')|strftime_now('')|raise_exception('boom')|raise_exception()
range(10 ** 9)|range(100001)|10 ** 3|[1, 2, 3][1:][0]|(1)|(1,)|()|((1, 2), 3)|1 if 0 else 2 ~ 3|'a' in 'abc' and 'b' in 'abc'|not 1 == 2|1 in [1] == true
"""

FILTERS = """
text|upper text|lower text|length text|count text|first text|last text|reverse text|list text|trim padded|trim 'xxaxx'|trim('x') text|title 'foo-bar (baz) {x'|title
text|capitalize greek|upper greek|lower greek|title greek|capitalize greek.title() greek.swapcase() text|replace('l','L') text|replace('l','L',1) n|string n|string|length 1.5|int '42'|int '42.7'|int '0x1A'|int(base=16) 'zz'|int 'zz'|int(5) none|int '\\t12_000 '|int
'12'|int(default=3) '1e3'|int '3.5'|float 'x'|float 'x'|float(1.5) n|float none|float 'inf'|float true|int 2.7|int -2.7|int '-5'|int '+5'|int '5-'|int [1]|int missing|int missing|float
-5|abs 5.5|abs 'a'|abs half|round 3.5|round 2.675|round(2) 1234.5|round(-2) 42.55|round(1,'floor') 42.51|round(1,'ceil') 42|round 42|round(2) 1.5|round('x') 1250|round(-2)
numbers|sort words|sort words|sort(case_sensitive=true) words|sort(reverse=true) people|sort(attribute='age')|map(attribute='name')|list people|sort(attribute='age,name')|map(attribute='name')|list mixed|sort [{},{}]|sort [1,2]|map(attribute='q')|sort [1,2]|map(attribute='q')|max [1]|map(attribute='q')|min
numbers|min numbers|max words|min words|max []|min []|max|default('none') people|max(attribute='age') numbers|sum numbers|sum(start=10) people|sum(attribute='age') words|sum [[1],[2]]|sum(start=[])
numbers|join numbers|join(', ') words|join('-') people|join(', ',attribute='name') mixed|join('|') 'abc'|join('.') [none,1]|join missing|join numbers|join(1)
numbers|first numbers|last []|first []|last|default('x') missing|first mapping|first mapping|last numbers|reverse|list mapping|reverse|list text|reverse n|first none|length missing|length
words|unique|list words|unique(case_sensitive=true)|list [1,1.0,true,2]|unique|list [[1],[1]]|unique|list people|unique(attribute='age')|map(attribute='name')|list
mapping|dictsort mapping|dictsort(true) mapping|dictsort(reverse=true) {'a':2,'b':1}|dictsort(by='value') {'a':2,'b':1}|dictsort(false,'value') numbers|dictsort mapping|dictsort(by='x')
mapping|items|list {}|items|list missing|items|list mapping|length mapping|list empty.list|length
people|map(attribute='name')|list people|map(attribute='address.city')|list people|map(attribute='address.city',default='?')|list words|map('upper')|list words|map('replace','a','A')|list words|map('length')|list
people|map(attribute='zip',default='none')|list [[1,2],[3]]|map('first')|list [[1,2],[3]]|map(attribute=0)|list words|map('nosuch')|list words|map|list ['1','2']|map('int')|sum words|map('upper')|join(',')
people|selectattr('age','equalto',31)|map(attribute='name')|list people|selectattr('age','eq',25)|list people|rejectattr('age','gt',30)|map(attribute='name')|join people|selectattr('address')|list|length
people|selectattr('address','defined')|list|length people|rejectattr('address','defined')|list|length people|selectattr('name','in',['Ben'])|list|length people|selectattr('address.city','equalto','Oslo')|list|length
numbers|select('odd')|list numbers|reject('odd')|list numbers|select|list [0,1,none,'a','']|select|list [0,1,none]|reject|list numbers|select('gt',1)|list numbers|select('>=',2)|list numbers|select('divisibleby',2)|list
numbers|select('nosuch')|list mixed|select('string')|list mixed|select('mapping')|list mixed|select('none')|list|length mixed|select('number')|list numbers|select('in',[1,2])|list
numbers|batch(2)|list numbers|batch(2,'x')|list missing|default('d') nothing|default('d') nothing|default('d',true) ''|default('d',boolean=true) missing|d missing|d(1) flag|default(1) missing|default
numbers|tojson mapping|tojson mixed|tojson quotes|tojson unicode|tojson unicode|tojson(ensure_ascii=true) mapping|tojson(indent=2) mapping|tojson(indent=4) people|tojson(indent=4) empty|tojson(indent=2) mapping|tojson(sort_keys=true)
mapping|tojson(separators=(',',':')) mapping|tojson(indent=2,separators=(',',': ')) half|tojson tiny|tojson huge|tojson big|tojson none|tojson true|tojson 'a/b<c>&\\''|tojson missing|tojson range(2)|tojson mapping.items()|tojson
{1:2,true:3,none:4,1.5:5}|tojson (1,2)|tojson [[]]|tojson(indent=1) {'a':{}}|tojson(indent=0) numbers|tojson(indent='--') numbers|tojson(false,2) '\\u00e9\\U0001F600\\x7f'|tojson(ensure_ascii=true) numbers|map('string')|list|tojson
text|string|tojson lines|indent lines|indent(2) lines|indent(2,true) lines|indent(2,blank=true) lines|indent('> ') 'a'|indent 'a\\nb'|indent(width=1,first=true) '<a href="x">&\\'</a>'|escape '<b>'|e '<b>'|safe n|safe
'%s-%d'|format('a',3) '%(x)s'|format(x=1) text|attr('upper') is_callable mapping|attr('a')|default('none') text|nosuch text|wordcount is_defined text|upper|lower|title text|upper|length - 2 -n|abs (-n)|abs n|string ~ 'x'
""".replace("text|attr('upper') is_callable", "").replace("text|wordcount is_defined", "")

TESTS = """
n is defined|missing is defined|missing is undefined|mapping.zz is defined|mapping.a is defined|people[2].address is defined|nothing is defined
nothing is none|n is none|missing is none|n is not none|n is number|half is number|flag is number|text is number|n is integer|flag is integer|half is integer|half is float|n is float
flag is boolean|n is boolean|flag is true|flag is false|1 is true|nothing is false|text is string|n is string|mapping is mapping|numbers is mapping|numbers is iterable|text is iterable
n is iterable|nothing is iterable|missing is iterable|mapping is iterable|numbers is sequence|text is sequence|mapping is sequence|n is sequence|missing is sequence|missing is mapping
n is odd|n is even|4 is even|n is divisibleby 7|n is divisibleby(2)|'a' is odd|n is eq 7|n is equalto(7)|n is ne 8|n is lt 8|n is gt 8|n is le 7|n is ge 7|n is sameas n|flag is sameas true|1 is sameas true
'a' is in ['a']|'b' is in 'abc'|n is not in numbers|'abc' is lower|'ABC' is upper|'Abc' is lower|text.upper is callable|range is callable|n is callable|namespace is callable
not n is odd|n is odd and n is defined|n is not odd|n is odd or x|missing is not defined and n == 7|n is nosuch|'upper' is filter|'nosuch' is filter|'odd' is test|n + 1 is even
numbers is string or numbers is sequence|(numbers|map('string')) is iterable|mapping.items() is sequence|mapping.items is callable|n is lessthan 9|n is greaterthan 3|mapping.get is defined
""" 

# Arguments after * and **.
MACRO = "{% macro m(a, b='B') %}{{ a }}/{{ b }}/{{ varargs }}/{{ kwargs }}{% endmacro %}"
FEW = "{% macro m(a, b='B') %}{{ a }}/{{ b }}{% endmacro %}"
CALLS = [
    *(macro + "{{ m(" + arguments + ") }}" for macro in (MACRO, FEW) for arguments in (
        "*numbers", "*[1]", "*[]", "*(1, 2)", "*'xy'", "*{'k': 1}", "*missing", "*nothing", "*n", "*range(2)", "1, *[2]",
        "1, *[2, 3, 4]", "*[1], b=2", "b=2, *[1]", "b=2, *[1, 3]", "*[1], 2", "*[1], *[2]", "**{'a': 1}", "**{'a': 1, 'c': 2}",
        "**{'a': 1}, b=2", "**{'a': 1}, *[2]", "1, **{'a': 1}", "a=1, **{'a': 1}", "a=1, **{'b': 1}", "*[1], **{'b': 2}",
        "*[1, 2], **{'b': 2}", "**{}", "**missing", "**nothing", "**numbers", "**{1: 2}", "*[1] + [2]", "*[1] if n else [2]",
        "*numbers, **mapping", "*words|map('upper')", "1, *[2],", "*", "**")),
    "{{ text.replace(*['l', 'L']) }}{{ text.split(**{'sep': ','}) }}",
    "{{ numbers|join(*[', ']) }}{{ numbers|join(**{'d': ', '}) }}{{ '%s-%s'|format(*['a', 'b']) }}",
    "{{ '{}{}{x}'.format(*[1, 2], **{'x': 3}) }}{{ dict(**{'a': 1}) }}{{ dict({'a': 1}, **{'b': 2}) }}",
    "{{ namespace(**{'a': 1}).a }}{{ range(*[1, 4])|list }}{{ n is divisibleby(*[7]) }}{{ n is eq(*[7]) }}",
    "{% macro m() %}{{ caller(*[1]) }}{% endmacro %}{% call(x) m(*[]) %}{{ x }}{% endcall %}",
    "{% set calls = [range, dict] %}{{ calls[0](*[3])|list }}{{ calls[1](**{'a': 1}) }}",
]

STATEMENTS = [
    "{% for x in numbers %}{{ x }},{% endfor %}",
    "{% for x in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for x in numbers %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "{% for x in numbers %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.changed(x > 1) }}{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in nothing %}x{% endfor %}",
    "{% for x in n %}x{% endfor %}",
    "{% for c in unicode %}[{{ c }}]{% endfor %}",
    "{% for k in mapping %}{{ k }} {% endfor %}",
    "{% for k, v in mapping.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in mapping|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for a, (b, c) in [[1, [2, 3]], [4, [5, 6]]] %}{{ a }}{{ b }}{{ c }};{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}x{% endfor %}",
    "{% for a, b in [1] %}x{% endfor %}",
    "{% for x in numbers if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }} {% endfor %}",
    "{% for x in numbers if x > 5 %}{{ x }}{% else %}none{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in [1, 2, 3] if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in [1, 2, 3, 4] if not ns.stop %}{{ x }}{{ loop.last }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{% if x % 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [1, 2, 3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {{ loop.index }}{% endfor %}|{{ loop.index }}{% endfor %}",
    "{% break %}",
    "{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for item in tree recursive %}[{{ item.v }}{% if item.c %}{{ loop(item.c) }}{% endif %}{{ loop.depth }}]{% endfor %}",
    "{% for x in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% for x in range(3) %}{% set y = x %}{{ y }}{% endfor %}{{ y }}",
    "{% set y = 0 %}{% for x in range(3) %}{% set y = y + x %}{{ y }}{% endfor %}{{ y }}",
    "{% set ns = namespace(total=0, seen=[]) %}{% for x in numbers %}{% set ns.total = ns.total + x %}{% set ns.seen = ns.seen + [x] %}{% endfor %}{{ ns.total }}{{ ns.seen }}",
    "{% set ns = namespace() %}{{ ns.x is defined }}{% set ns.x = 1 %}{{ ns.x }}",
    "{% set d = {'a': 1} %}{% set d.a = 2 %}{{ d }}",
    "{% set missing.a = 2 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}",
    "{% set a, b = [1] %}{{ a }}",
    "{% set x %}block {{ n }}{% endset %}{{ x|upper }}",
    "{% set x | upper | trim %}  block {{ n }} {% endset %}[{{ x }}]",
    "{% set x %}{% set inner = 5 %}{{ inner }}{% endset %}{{ x }}{{ inner is defined }}",
    "{% set ns = namespace() %}{% set ns.x %}cap{% endset %}{{ ns.x }}",
    "{% if flag %}a{% elif n %}b{% else %}c{% endif %}",
    "{% if nothing %}a{% elif n == 7 %}b{% elif true %}d{% else %}c{% endif %}",
    "{% if missing %}a{% else %}c{% endif %}",
    "{% if missing.x %}a{% endif %}",
    "{% if false %}{% set z = 1 %}{% endif %}{{ z }}",
    "{% set z = 1 %}{% if true %}{% set z = 2 %}{% endif %}{{ z }}",
    "{% if n is nosuch %}a{% endif %}",
    "{% if false %}{{ n|nosuch }}{% endif %}ok",
    "{{ n|nosuch if false else 'ok' }}", "{{ (n|nosuch) ~ (1 if true else 2) }}", "{{ n|map('x' if true else 1)|nosuch }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='z') }}{{ m(b=1, a=2) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ caller(a) }}{% endmacro %}{% call(x) m(5) %}<{{ x }}>{% endcall %}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}hi {{ n }}{% endcall %}",
    "{% macro m() %}[{{ caller is defined }}]{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro fact(k) %}{{ k }}{% if k > 1 %}*{{ fact(k - 1) }}{% endif %}{% endmacro %}{{ fact(5) }}",
    "{% macro m() %}{{ outer }}{% endmacro %}{% set outer = 1 %}{{ m() }}{% set outer = 2 %}{{ m() }}",
    "{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ m() }}{{ inner is defined }}",
    "{% macro m() %}a{% endmacro %}{% set x = m() %}{{ x|length }}{{ m.name }}{{ m is callable }}",
    "{% filter upper %}abc {{ text }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}a{% set q = 1 %}{% endfilter %}{{ q is defined }}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}",
    "{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{% endwith %}",
    "{% generation %}gen {{ n }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}",
    "{% raw %}{{ not }} {% evaluated %} {# kept #}{% endraw %}",
    "a{# comment {{ x }} {% if %} #}b",
    "{# a #}{#- b -#}  c",
    "{{ 1, 2 }}|{{ (1, 2) }}|{{ 'a', }}",
    "{{ }}", "{{ 1 + }}", "{% if %}{% endif %}", "{% if 1 %}", "{% endif %}", "{% for x in %}{% endfor %}", "{% for x %}{% endfor %}", "{{ 'a }}", "{{ a", "{% a", "{# a",
    "{% unknown %}", "{{ a b }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% if 1 %}{% endfor %}", "{{ x is }}", "{{ x | }}", "{{ x. }}",
    "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}", "{{ 1 is odd is odd }}", "{% elif %}", "{{ a ? b }}", "{% endset %}", "{% set %}",
    "{{ {'a': {'b': {}}} }}", "{{ {'a': 1}['a'] }}", "{{ '}}' }}{{ '%}' }}{{ \"{{\" }}", "{% set a = '{% x %}' %}{{ a }}", "{{ '{# x #}' }}",
    "{{ true and {'a': 1} }}", "{{-1}}", "{{+1}}", "{{ - 1 }}", "{{ 5-3 }}", "{{5 -3}}", "{%if 1%}x{%endif%}", "{%- if 1 -%} x {%- endif -%}", "{{- 'a' -}}  b", "x  {{- 'a' }}",
]

WHITESPACE_PIECES = ["{% if true %}", "{%- if true %}", "{% if true -%}", "{%+ if true %}", "{% if true +%}", "{%- if true -%}"]
WHITESPACE_ENDS = ["{% endif %}", "{%- endif %}", "{% endif -%}", "{%+ endif %}", "{% endif +%}"]
WHITESPACE = [
    "a\n  {% if true %}\n  b\n  {% endif %}\n  c\n", "a\n\t{# c #}\n b", "  {{ 1 }}  \n", "a {% if true %} b {% endif %} c", "\n\n{% set a = 1 %}\n\nx\n\n",
    "a\n  {#- c -#}\n b", "a\n  {#+ c +#}\n b", "x\r\n{% set a = 1 %}\r\ny\r\n", "x\r{% set a = 1 %}\ry", "\u00a0{%- set a = 1 -%}\u3000x", "a\n", "a\n\n", "\n", "",
    "{% raw %}\n a \n{% endraw %}\n b", "{%- raw -%}\n a \n{%- endraw -%}\n b", "x\n  {% raw %}y{% endraw %}", "{% raw %}  \n  {% endraw %}x", "{{ 'a\nb' }}", "{{ 'a\r\nb' }}",
    "  {% set a = 1 %}  {% set b = 2 %}\n  x", "{% for x in [1,2] %}\n  {{ x }}\n{% endfor %}\n", "{% for x in [1,2] -%}\n  {{ x }}\n{%- endfor %}\n",
    "{%- for x in [1,2] %}\n    {%- if x == 1 %}\n        {{- 'a' }}\n    {%- else %}\n        {{- 'b' }}\n    {%- endif %}\n{%- endfor %}\n", "a{% if true %}\n\n  b{% endif %}\n\n c",
    "{% if true %}\n{% if true %}\nx\n{% endif %}\n{% endif %}\n", "a\n  {{- 1 }}\n", "a\n  {{ 1 -}}\n b", "  {#a#}  {#b#}\n x", "x {#- a #} y", "{{ 1 }}\n{{ 2 }}", "{%+ set a=1 %}  x",
]


def split_cases(block):
    """Expressions of a table: by lines, then by '|' where that is not a filter."""
    return [entry for entry in block.strip().splitlines() if entry]


def expressions():
    for line in split_cases(EXPRESSIONS):
        # A '|' with a filter behind it belongs to the entry before.
        entries = []
        for part in line.split("|"):
            if entries and part in ("list", "length", "' % half", "' % 'ab'"):
                entries[-1] += "|" + part
            else:
                entries.append(part)
        yield from entries
    for line in split_cases(TESTS):
        joined = line.replace("(numbers|map", "(numbers\0map")
        yield from (entry.replace("\0", "|") for entry in joined.split("|"))
    for line in split_cases(FILTERS):
        yield from (entry for entry in split_outside(line) if entry.strip())
    yield from PRINT


def split_outside(line):
    """Splits at spaces that are outside of brackets and quotes."""
    entries, current, depth, quote = [], "", 0, ""
    for c in line:
        if quote:
            quote = "" if c == quote and not current.endswith("\\") else quote
        elif c in "'\"":
            quote = c
        depth += (c in "([{") - (c in ")]}") if not quote else 0
        if c == " " and depth == 0 and not quote:
            entries.append(current)
            current = ""
        else:
            current += c
    return entries + [current]


def all_cases():
    variables = {"kwargs": {**VARIABLES, "tree": [{"v": 1, "c": [{"v": 2, "c": [{"v": 3}]}, {"v": 4}]}]}}
    for expression in expressions():
        yield {"name": "expression", "template": "{{ " + expression + " }}", "input": variables}
    for template in [*STATEMENTS, *CALLS]:
        yield {"name": "statement", "template": template, "input": variables}
    for template in WHITESPACE:
        yield {"name": "white space", "template": template, "input": variables}
    for begin, end in itertools.product(WHITESPACE_PIECES, WHITESPACE_ENDS):
        template = f"a \n  {begin} \n  b\n\n {end}\n\n  c\n"
        yield {"name": "white space", "template": template, "input": variables}
    yield from family_templates.cases()
