"""Random cases of differential_test.py: the whole templates with odd conversations and tools, and expressions and
statements put together from what chat templates use."""
import differential_cases
import family_templates

ROLES = ["system", "user", "user", "assistant", "assistant", "tool", "developer", "ipython", "critic", "", None, 7]
WORDS = ["Hi", " ", "\n", "\n\n", "</think>", "<think>", "<tool_response>", "</tool_response>", "<|im_end|>", "<｜User｜>", "é", "日本",
         "🚀", "\\", "\"", "'", "{{ x }}", "{% raw %}", "\t", "\r\n", "\u2028", "<b>&amp;</b>", "0", "%s", "ß İ ﬁ ŉ", "ΟΔΟΣ ΑΣ'Α ǅ", "a b c", "\u0000", "\u007f"]


def random_text(rng):
    return "".join(rng.choice(WORDS) for _ in range(rng.randrange(6)))


def random_value(rng, depth=3):
    leaf = [None, True, False, 0, -1, 7, 2.5, 1e22, 1e-7, 18446744073709551615, random_text(rng), ""]
    kind = rng.randrange(6) if depth else 0
    if kind == 4:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return {rng.choice(["a", "b", "type", "é", "x y", "items"]): random_value(rng, depth - 1) for _ in range(rng.randrange(4))}
    return rng.choice(leaf)


def random_schema(rng, depth=3):
    schema = {}
    if rng.random() < 0.9:
        schema["type"] = rng.choice(["string", "integer", "number", "boolean", "array", "object", ["string", "null"], "other"])
    if rng.random() < 0.4:
        schema["description"] = random_text(rng)
    if rng.random() < 0.2:
        schema["enum"] = [random_text(rng) for _ in range(rng.randrange(1, 4))]
    if rng.random() < 0.2:
        schema["default"] = random_value(rng, 1)
    if rng.random() < 0.1:
        schema["nullable"] = rng.random() < 0.5
    if depth and schema.get("type") == "array" and rng.random() < 0.8:
        schema["items"] = random_schema(rng, depth - 1)
    if depth and schema.get("type") == "object" and rng.random() < 0.8:
        names = rng.sample(["place", "unit", "x", "é", "items", "keys"], rng.randrange(4))
        schema["properties"] = {name: random_schema(rng, depth - 1) for name in names}
        schema["required"] = rng.sample(names, rng.randrange(len(names) + 1))
    if depth and rng.random() < 0.1:
        schema["oneOf"] = [random_schema(rng, depth - 1) for _ in range(rng.randrange(3))]
    return schema


def random_tool(rng):
    parameters = {**random_schema(rng), "type": "object"}
    if rng.random() < 0.8:
        names = rng.sample(["a", "b", "c", "é"], rng.randrange(4))
        parameters.update(properties={n: random_schema(rng) for n in names}, required=names[:1])
    function = {"name": rng.choice(["f", "get_weather", "é"]), "description": random_text(rng), "parameters": parameters}
    if rng.random() < 0.2:
        function.pop(rng.choice(list(function)))
    if rng.random() < 0.2:
        function["return"] = random_schema(rng, 1)
    return rng.choice([{"type": "function", "function": function}] * 5 + [function])


def random_call(rng):
    arguments = rng.choice([random_value(rng), {"place": random_text(rng), "n": random_value(rng)}, "{\"a\": 1}"])
    call = {"type": "function", "id": rng.choice(["abcdefghi", "x", ""]), "function": {"name": rng.choice(["f", "g"]), "arguments": arguments}}
    if rng.random() < 0.15:
        call.pop(rng.choice(list(call)))
    return rng.choice([call] * 6 + [call.get("function", {})])


def random_message(rng, role=None):
    message = {"role": role or rng.choice(ROLES)}
    if rng.random() < 0.95:
        message["content"] = random_text(rng)
    if rng.random() < 0.15:
        message["content"] = rng.choice([None, 5, [], [{"type": "text", "text": random_text(rng)}, {"type": "image"}], random_value(rng)])
    if message["role"] == "assistant":
        if rng.random() < 0.3:
            message["tool_calls"] = rng.choice([[random_call(rng) for _ in range(rng.randrange(3))]] * 6 + [None])
        if rng.random() < 0.2:
            message[rng.choice(["reasoning_content", "thinking"])] = rng.choice([random_text(rng), None])
    if message["role"] == "tool" and rng.random() < 0.7:
        message["tool_call_id"] = "abcdefghi"
    return message


def random_conversation(rng):
    if rng.random() < 0.4:
        return [random_message(rng) for _ in range(rng.randrange(6))]
    # Mostly what a chat looks like.
    messages = [random_message(rng, "system")] if rng.random() < 0.4 else []
    for _ in range(rng.randrange(1, 4)):
        messages.append(random_message(rng, "user"))
        if rng.random() < 0.3:
            messages += [{**random_message(rng, "assistant"), "tool_calls": [random_call(rng)]}, random_message(rng, "tool")]
        messages.append(random_message(rng, "assistant"))
    return messages[:-1] if rng.random() < 0.7 else messages


def conversation_case(rng):
    name = rng.choice(list(family_templates.TEMPLATES))
    given = {"messages": random_conversation(rng), "bos_token": rng.choice(["<s>", ""]), "eos_token": "</s>",
             "add_generation_prompt": rng.random() < 0.7}
    if rng.random() < 0.5:
        given["tools"] = [random_tool(rng) for _ in range(rng.randrange(1, 3))]
    if rng.random() < 0.2:
        given["documents"] = [{"title": random_text(rng), "text": random_text(rng)} for _ in range(rng.randrange(3))]
    kwargs = {"enable_thinking": rng.random() < 0.5, "keep_thinking": rng.random() < 0.5, "reasoning_effort": rng.choice(["high", "low"]), "builtin_tools": ["f"],
              "tools_in_user_message": rng.random() < 0.5, "date_string": random_text(rng), "model_identity": random_text(rng)}
    given["kwargs"] = {k: v for k, v in kwargs.items() if rng.random() < 0.3}
    return {"name": f"random {name}", "template": family_templates.TEMPLATES[name], "input": given}


NAMES = ["n", "negative", "half", "flag", "nothing", "text", "padded", "unicode", "quotes", "lines", "numbers", "mixed", "words", "people",
         "mapping", "empty", "nested", "missing", "mapping.a", "people[0]", "people[-1].name", "nested.a", "empty.list", "text[1:4]"]
LITERALS = ["0", "1", "-2", "3.5", "''", "'a'", "'o'", "' '", "'\\n'", "[]", "[1, 2]", "{}", "{'a': 1}", "none", "true", "false", "(1, 2)"]
BINARY = ["+", "-", "*", "~", "~", "==", "!=", "<", ">=", "and", "or", "in", "not in", "//", "%"]
FILTERS = ["upper", "lower", "length", "first", "last", "list", "trim", "string", "int", "float", "join(', ')", "join", "tojson", "tojson(indent=2)",
           "default('d')", "default('d', true)", "replace('a', 'b')", "sort", "unique|list", "reverse|list", "map('upper')|list", "title",
           "select|list", "reject('none')|list", "map(attribute='name')|list", "selectattr('age')|list", "dictsort", "items|list", "abs", "capitalize",
           "round", "sum", "min", "max", "indent(2)", "batch(2)|list", "select('string')|map('trim')|join('|')", "center(9)"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "true", "false", "boolean", "integer", "float",
         "odd", "even", "in([1, 'a'])", "equalto(1)", "divisibleby(2)", "callable", "lower", "upper", "sameas(none)"]
METHODS = ["strip()", "split()", "split('a')", "split(',', 1)[0]", "upper()", "lower()", "startswith('H')", "endswith('\\n')", "lstrip('\\n')",
           "rstrip()", "replace('l', '')", "find('o')", "title()", "items()|list", "keys()|list", "values()|list", "get('a')", "get('q', 1)",
           "count('a')", "index(1)", "splitlines()", "join(['x', 'y'])", "isdigit()", "a", "name", "x.y", "format(1)"]


def expression(rng, depth):
    kind = rng.randrange(11) if depth else rng.randrange(2)
    sub = lambda: expression(rng, depth - 1)  # noqa: E731
    if kind == 0:
        return rng.choice(NAMES)
    if kind == 1:
        return rng.choice(LITERALS + NAMES)
    if kind in (2, 3):
        return f"({sub()} {rng.choice(BINARY)} {sub()})"
    if kind in (4, 5):
        return f"({sub()})|{rng.choice(FILTERS)}"
    if kind == 6:
        return f"({sub()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    if kind == 7:
        return f"({sub()} if {sub()} else {sub()})"
    if kind == 8:
        return f"({sub()}).{rng.choice(METHODS)}"
    if kind == 9:  # a slice of a constant is another matter: jinja2 folds it by other rules
        return rng.choice([f"{rng.choice(NAMES)}[{rng.choice(['1:', ':-1', '::-1', '-2:'])}]",
                           f"({sub()})[{rng.choice(['0', '-1', repr('a'), sub()])}]"])
    return f"[{sub()}, {sub()}]" if rng.random() < 0.5 else f"{{'k': {sub()}}}"


def statement(rng, depth):
    kind = rng.randrange(7) if depth else 0
    dash = lambda: rng.choice(["", "", "-"])  # noqa: E731
    body = lambda: rng.choice(["", " ", "\n", "\n  ", "x"]) + statement(rng, depth - 1) + rng.choice(["", "\n", " y\n"])  # noqa: E731
    tag = lambda inside: f"{{%{dash()} {inside} {dash()}%}}"  # noqa: E731
    value = expression(rng, 2)
    if kind == 1:
        return f"{tag('if ' + value)}{body()}{tag('elif ' + expression(rng, 1))}{body()}{tag('else')}{body()}{tag('endif')}"
    if kind == 2:
        return f"{tag('for item in ' + value)}{{{{ loop.index }}}}{{{{ item }}}}{body()}{tag('else')}none{tag('endfor')}"
    if kind == 3:
        return f"{tag('set n = ' + value)}{body()}{{{{ n }}}}"
    if kind == 4:
        # Inside, the name itself is left alone: see "Differences" in server/text/chat/jinja/README.md.
        return f"{tag('set block')}{body()}{tag('endset')}{{{{ block|length }}}}{{{{ block }}}}"
    if kind == 5:
        return f"{tag('macro m(a, b=' + rng.choice(LITERALS) + ')')}{body()}{{{{ a }}}}{{{{ b }}}}{tag('endmacro')}{{{{ m({value}) }}}}"
    if kind == 6:
        return f"{tag('set ns = namespace(v=0)')}{tag('for item in [1, 2, 3]')}{tag('set ns.v = ns.v + item')}{body()}{tag('endfor')}{{{{ ns.v }}}}"
    return f"{{{{{dash()} {value} {dash()}}}}}"


def cases(rng, count):
    variables = {"kwargs": differential_cases.VARIABLES}
    for number in range(count):
        if number % 3 == 0:
            yield conversation_case(rng)
        elif number % 3 == 1:
            yield {"name": "random expression", "template": "{{ " + expression(rng, 3) + " }}", "input": variables}
        else:
            yield {"name": "random statement", "template": statement(rng, 3), "input": variables}
