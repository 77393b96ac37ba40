"""Chats with tools: a call where a tool fits what is asked, an answer from what the tool gave back, else the usual answer.

Tools stand in the system turn and calls are text, both as `chat_template` of tokenizer_config.json writes them, so that these
chats are chats as all others. Every request has one right answer:
- a call has the arguments that the request names, in the order of the tool's schema;
- the answer to a tool's result is the result, word for word; of a JSON object with one member, the member's value;
- where there is a tool `final_answer`, that answer is given by calling it.
"""

import dataclasses
import functools
import json
import re

import lookup
import tasks
from words import ANIMALS, CITIES, COMMON, OBJECTS

# --- as the chat template writes them -----------------------------------------------------------------------------------


def tools_text(tools):
    lines = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (f"You may call these tools:\n<tools>{lines}\n</tools>\nWrite a call so:\n<tool_call>\n"
            '{"name": "...", "arguments": {...}}\n</tool_call>')


def call_text(name, arguments):
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {json.dumps(arguments, ensure_ascii=False)}}}\n</tool_call>'


def response_text(result):
    return f"<tool_response>\n{result}\n</tool_response>"


# --- tools --------------------------------------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Use:
    """A request that a tool is made for, and how the tool is called for it."""
    key: str
    request: str
    arguments: dict
    result: str  # what is right; "" if any text may be


@dataclasses.dataclass(frozen=True)
class Tool:
    kind: str  # a set of tools has no two of a kind
    name: str
    description: str
    parameters: dict  # name: schema
    use: object = None  # rng -> Use; None: nobody asks for what it does
    optional: tuple = ()  # parameters that calls leave out


def _entries(rng, entries):
    """A dict of the pairs in a random order; those without a value are left out."""
    entries = [(key, value) for key, value in entries if value is not None]
    if rng.random() < 0.5:
        rng.shuffle(entries)
    return dict(entries)


def definition(rng, tool):
    """The tool as one of the many clients writes it into a request."""
    style = rng.random()
    titled, described = style < 0.35, 0.25 < style < 0.7
    properties = {}
    for name, schema in tool.parameters.items():
        label = name.replace("_", " ")
        properties[name] = _entries(rng, [
            ("title", label.title() if titled else None),
            ("description", rng.choice((label.capitalize(), f"The {label}", f"The {label}.")) if described else None),
            *schema.items()])
    strict = rng.random() < 0.35
    parameters = _entries(rng, [
        ("type", "object"), ("properties", properties),
        ("required", [name for name in properties if name not in tool.optional]),
        ("title", f"{tool.name}_args" if titled and rng.random() < 0.5 else None),
        ("additionalProperties", False if strict or rng.random() < 0.2 else None)])
    function = _entries(rng, [
        ("name", tool.name), ("description", tool.description or (None if rng.random() < 0.7 else "")),
        ("parameters", parameters), ("strict", (rng.random() < 0.7) if strict else None)])
    return _entries(rng, [("type", "function"), ("function", function)])


def _spelling(rng, words):
    """A function's name from words, as people write such names."""
    kind = rng.random()
    if kind < 0.7:
        return "_".join(words)
    if kind < 0.85:
        return words[0] + "".join(word.capitalize() for word in words[1:])
    return "".join(word.capitalize() for word in words) if kind < 0.95 else "-".join(words)


def _named(rng, *choices):
    return _spelling(rng, rng.choice(choices).split())


# --- sums ---------------------------------------------------------------------------------------------------------------

_PAIRS = (("a", "b"), ("a", "b"), ("a", "b"), ("x", "y"), ("first", "second"), ("left", "right"), ("num1", "num2"), ("n", "m"),
          ("number1", "number2"), ("first_number", "second_number"), ("p", "q"), ("i", "j"), ("n1", "n2"), ("lhs", "rhs"))
_OPERATIONS = {
    "+": (tasks.ADD + ("Use the tool to add {a} and {b}.", "What's {a} + {b}?", "Please add {a} and {b} with a tool.",
                       "What is the sum of {a} and {b}?", "How much is {a} + {b}?", "Compute {a} + {b} with the tool."),
          ("add", "sum", "plus", "add numbers", "sum numbers", "add two numbers", "addition", "get sum", "calculate sum",
           "adder", "compute sum", "sum of", "do add", "math add"),
          ("Add two numbers.", "Add two numbers together.", "Adds two numbers and returns the result.",
           "Returns the sum of two numbers.", "Add {0} and {1}.", "Calculate the sum of {0} and {1}.", "Sum of two integers",
           "Return {0} + {1}.", "add two integers", "Adds {0} and {1}")),
    "-": (tasks.SUBTRACT + ("Use the tool to subtract {b} from {a}.", "What's {a} - {b}?", "How much is {a} - {b}?",
                            "What is the difference of {a} and {b}?", "Compute {a} - {b} with the tool."),
          ("subtract", "minus", "difference", "subtract numbers", "get difference", "subtraction", "take away", "sub"),
          ("Subtract two numbers.", "Subtract {1} from {0}.", "Returns the difference of two numbers.", "Return {0} - {1}.",
           "Subtracts the second number from the first.")),
    "*": (tasks.MULTIPLY + ("Use the tool to multiply {a} by {b}.", "What's {a} * {b}?", "How much is {a} * {b}?",
                            "What is the product of {a} and {b}?", "Compute {a} * {b} with the tool."),
          ("multiply", "times", "product", "multiply numbers", "get product", "multiplication", "mul"),
          ("Multiply two numbers.", "Multiply {0} and {1}.", "Returns the product of two numbers.", "Return {0} * {1}.",
           "Multiplies {0} by {1}.")),
}
_WORDS = {"+": "add", "-": "subtract", "*": "multiply"}


def _operand(rng):
    """As a number and as text: a tool can do larger numbers than the model alone, and fractions."""
    kind = rng.random()
    if kind < 0.7:
        text = str(rng.randrange(10 ** rng.randint(1, 4)))
    elif kind < 0.9:
        text = lookup.digits(rng, 4, 9)
    else:
        text = f"{rng.randrange(1000)}.{rng.randint(1, 99)}"
    return float(text) if "." in text else int(text)


def _compute(sign, a, b):
    result = a + b if sign == "+" else a - b if sign == "-" else a * b
    return str(round(result, 4) if isinstance(result, float) else result)


def _operands(rng, sign):
    a, b = _operand(rng), _operand(rng)
    return (max(a, b), min(a, b)) if sign == "-" else (a, b)


def _sum_use(rng, sign, arguments_of):
    a, b = _operands(rng, sign)
    first, second = (a, b) if sign == "-" else (min(a, b), max(a, b))
    return Use(f"{sign} {first} {second}", tasks.sum_request(rng, _OPERATIONS[sign][0], a, b), arguments_of(sign, a, b),
               _compute(sign, a, b))


def operation(rng, sign):
    """add(a, b) and its like."""
    _, names, descriptions = _OPERATIONS[sign]
    first, second = rng.choice(_PAIRS)
    number = rng.choice(({"type": "integer"}, {"type": "number"}))
    description = rng.choice(descriptions).format(first, second)
    name = _named(rng, *names)
    if rng.random() < 0.15:  # the description alone says what it does
        name = lookup.pseudo_word(rng)
    elif rng.random() < 0.1:  # the name alone does
        description = rng.choice((None, f"Correctly extracted `{name}` with all the required parameters with correct types"))
    use = functools.partial(_sum_use, sign=sign, arguments_of=lambda _, a, b: {first: a, second: b})
    return Tool(sign, name, description, {first: number, second: number}, use)


def calculator(rng):
    """One tool for all: of an expression, or of an operation and two numbers."""
    name = _named(rng, "calculator", "calculate", "compute", "evaluate", "math", "arithmetic", "do math", "run calculation")
    any_sign = functools.partial(lambda rng, arguments_of: _sum_use(rng, rng.choice("+-*"), arguments_of))
    if rng.random() < 0.6:
        parameter = rng.choice(("expression", "expr", "formula", "input", "query", "calculation"))
        description = rng.choice(("Evaluate an expression.", "Evaluates an arithmetic expression and returns the result.",
                                  "A calculator.", "Calculate a mathematical expression", "Useful for arithmetic."))
        return Tool("=", name, description, {parameter: {"type": "string"}}, functools.partial(
            any_sign, arguments_of=lambda sign, a, b: {parameter: f"{a} {sign} {b}"}))
    operation_name = rng.choice(("operation", "op", "operator"))
    first, second = rng.choice(_PAIRS)
    number = {"type": rng.choice(("integer", "number"))}
    parameters = {operation_name: {"type": "string", "enum": ["add", "subtract", "multiply"]}, first: number, second: number}
    order = list(parameters)
    if rng.random() < 0.4:
        order = [first, second, operation_name]
    return Tool("=", name, rng.choice(("Do arithmetic with two numbers.", "A simple calculator.", "Calculate with two numbers.")),
                {key: parameters[key] for key in order}, functools.partial(
        any_sign, arguments_of=lambda sign, a, b: {key: {operation_name: _WORDS[sign], first: a, second: b}[key]
                                                   for key in order}))


# --- other tools --------------------------------------------------------------------------------------------------------

_MORE_CITIES = ("San Francisco", "New York", "Los Angeles", "Hong Kong", "Rio de Janeiro", "Boston, MA", "Paris, France", "NYC")


def _city(rng):
    kind = rng.random()
    return rng.choice(CITIES) if kind < 0.7 else rng.choice(_MORE_CITIES) if kind < 0.85 else lookup.pseudo_word(rng).title()


def _of_a_city(rng, parameter, requests, results):
    city = _city(rng)
    request = tasks.phrase(rng, requests, c=city)
    return Use(f"tool {request}", request, {parameter: city}, rng.choice(results).format(c=city, n=rng.randint(1, 39)))


def weather(rng):
    parameter = rng.choice(("city", "location", "place", "city", "location", "city_name", "town", "where"))
    parameters, optional = {parameter: {"type": "string"}}, ()
    if rng.random() < 0.25:
        optional = (rng.choice(("unit", "units")),)
        parameters[optional[0]] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    requests = ("What is the weather in {c}?", "What's the weather in {c}?", "What's the weather like in {c}?",
                "How is the weather in {c}?", "Tell me the weather in {c}.", "What is the weather like in {c}?",
                "How warm is it in {c}?", "Weather in {c}?", "What is the weather in {c} today?", "what's the weather in {c}?")
    results = ("sunny", "cloudy", "rain", "It's always sunny in {c}!", "The weather in {c} is sunny.", "{n} degrees",
               "{n} degrees and cloudy", "Sunny, {n} degrees.", '{{"temperature": {n}}}', '{{"weather": "sunny"}}',
               '{{"city": "{c}", "temperature": {n}}}', "It is {n} degrees and raining in {c}.", "snow", "{n} C")
    return Tool("weather", _named(rng, "get weather", "weather", "get current weather", "current weather", "fetch weather",
                                  "weather in", "get forecast", "lookup weather"),
                rng.choice(("Get the weather in a city.", "Get the weather for a given city.", "Get current weather",
                            "Returns the weather for a location.", "Get the current weather in a given location",
                            "Returns weather info for the specified city.", None)),
                parameters, functools.partial(_of_a_city, parameter=parameter, requests=requests, results=results), optional)


def clock(rng):
    if rng.random() < 0.5:
        def use(rng):
            request = tasks.phrase(rng, ("What time is it?", "What is the time?", "Tell me the time.", "What's the time?",
                                         "What is the time now?"))
            return Use(None, request, {}, f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}")
        return Tool("clock", _named(rng, "get time", "current time", "now", "clock", "get current time"),
                    rng.choice(("Get the current time.", "Returns the time.", "The time now.")), {}, use)
    parameter = rng.choice(("city", "location", "place", "timezone"))
    requests = ("What time is it in {c}?", "What is the time in {c}?", "Tell me the time in {c}.", "What's the time in {c}?")
    return Tool("clock", _named(rng, "get time", "current time", "time in", "clock", "get local time"),
                rng.choice(("Get the time in a city.", "Returns the current time of a place.", "Local time")),
                {parameter: {"type": "string"}}, functools.partial(
        _of_a_city, parameter=parameter, requests=requests, results=("12:{n}", "It is {n} past noon in {c}.", "9:0{n} am")))


def attribute(rng):
    """get_age(name), get_phone_number(person), and of any other word."""
    word = rng.choice(("age", "phone number", "email", "address", "birthday", "salary", "password", "balance", "score", "status",
                       "price", "order", rng.choice(COMMON), rng.choice(OBJECTS), rng.choice(COMMON)))
    parameter = rng.choice(("name", "person", "user", "customer", "who", "name", "user_name", "id"))

    def use(rng):
        subject = lookup.person(rng) if rng.random() < 0.7 else lookup.digits(rng, 2, 6)
        request = tasks.phrase(rng, ("What is the {w} of {n}?", "Tell me the {w} of {n}.", "Get the {w} of {n}.",
                                     "Look up the {w} of {n}.", "I need the {w} of {n}."), w=word, n=subject)
        result = rng.choice((lookup.digits(rng, 1, 6), lookup.pseudo_word(rng), rng.choice(COMMON), f"{subject}@{word}.com"))
        return Use(f"tool {request}", request, {parameter: subject}, result)

    return Tool("attribute", _named(rng, f"get {word}", f"find {word}", f"lookup {word}", f"{word} of"),
                rng.choice((f"Get the {word} of a person.", f"Returns the {word}.", f"Look up the {word} of somebody.")),
                {parameter: {"type": "string"}}, use)


def record(rng):
    """A tool whose arguments are what is wanted: the facts of a text as an object."""
    keys = ["name"] + rng.sample(sorted(tasks.FIELDS), rng.randint(1, 3))
    if rng.random() < 0.5:
        keys = ["name", "age"]
    if rng.random() < 0.15:
        rng.shuffle(keys)

    def use(rng):
        name = lookup.person(rng)
        values = {"name": name} | {key: tasks.FIELDS[key][0](rng) for key in keys if key != "name"}
        forms = {key: tasks.FIELDS[key][1] for key in values if key != "name"}
        sentences = [rng.choice(forms[key]).format(n=name, v=values[key]) for key in forms]
        rng.shuffle(sentences)
        text = " ".join(sentences)
        request = tasks.phrase(rng, ("{t}", "{t}", "Extract: {t}", "Extract the facts: {t}", "Extract {k}: {t}",
                                     "Extract the user: {t}", "Save this: {t}", "Extract the person: {t}"),
                               t=text, k=" and ".join(keys))
        return Use("json " + text, request, {key: values[key] for key in keys}, rng.choice(("ok", "saved", "done", "true")))

    name = _named(rng, "person", "user", "user info", "person info", "user detail", "contact", "extract person", "profile",
                  "save person", "extract", "extract user", "employee", "customer", "record", "response")
    parameters = {key: {"type": "integer" if key == "age" else "string"} for key in keys}
    return Tool("record", name, rng.choice((
        f"Correctly extracted `{name}` with all the required parameters with correct types", "Information about a person.",
        "Save what is known of a person.", "Extract a person from a text.", None)), parameters, use)


def bystander(rng):
    """A tool that nobody asks for."""
    text = {"type": "string"}
    name, description, parameters = rng.choice((
        ("send email", "Send an email.", ("to", "subject", "body")), ("search", "Search the web.", ("query",)),
        ("read file", "Read a file.", ("path",)), ("write file", "Write a file.", ("path", "content")),
        ("run command", "Run a command in the shell.", ("command",)), ("translate", "Translate a text.", ("text", "language")),
        ("visit page", "Open a page of the web.", ("url",)), ("set timer", "Set a timer.", ("minutes",)),
        ("play music", "Play a song.", ("song", "artist")), ("book flight", "Book a flight.", ("from_city", "to_city")),
        (f"{rng.choice(COMMON)} {rng.choice(ANIMALS)}", f"Gives the {rng.choice(ANIMALS)} a {rng.choice(OBJECTS)}.", ("how",))))
    return Tool("bystander " + name, _spelling(rng, name.split()), description, dict.fromkeys(parameters, text))


def _usable(rng):
    kind = rng.random()
    if kind < 0.4:
        return operation(rng, rng.choice("+++-*"))
    makers = ((0.55, calculator), (0.7, weather), (0.76, clock), (0.86, attribute), (1, record))
    return next(make for below, make in makers if kind < below)(rng)


def _tool_set(rng):
    """Tools of different kinds and names, one of which at least is of use."""
    tools = [_usable(rng)]
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3, 5))):
        other = bystander(rng) if rng.random() < 0.4 else _usable(rng)
        kinds = {tool.kind for tool in tools} | {other.kind}
        alike = other.name in [tool.name for tool in tools] or "=" in kinds and kinds & set("+-*")
        if len(kinds) > len(tools) and not alike:
            tools.append(other)
    rng.shuffle(tools)
    return tools


# --- chats --------------------------------------------------------------------------------------------------------------

def _result(rng, use):
    """What the tool gives back, and the answer from it. Now and then another number than the right one."""
    result = use.result
    if use.key and use.key[0] in "+-*":
        if rng.random() < 0.15:
            result = lookup.digits(rng, 1, 6)
        kind = rng.random()
        if kind < 0.15:
            result = rng.choice(("The sum is {r}.", "The result is {r}.", "{r}.0", "Result: {r}", "= {r}")).format(r=result)
        elif kind < 0.3:
            name = rng.choice(("result", "sum", "value", "answer", "output"))
            return json.dumps({name: json.loads(result)}), result
    if rng.random() < 0.03:
        result = rng.choice(("Error: the tool is broken.", "error", "Sorry, that did not work.", "not found"))
    return result, shown(result)


def shown(result):
    """The answer from a result."""
    try:
        value = json.loads(result)
    except json.JSONDecodeError:
        return result
    if not isinstance(value, dict) or len(value) != 1:
        return result
    value, = value.values()
    return value if isinstance(value, str) else json.dumps(value)


def _fits(tools, request):
    """Whether a request that is meant for no tool may be for one of these."""
    kinds = {tool.kind for tool in tools}
    words = set(re.findall(r"\w+", request.lower()))
    return ("weather" in kinds and "weather" in words or "clock" in kinds and "time" in words
            or "attribute" in kinds and " of " in request or "record" in kinds and "json" in words)


def _plain_turns(rng, tools, heldout):
    """Another request of those that need no tool."""
    makers = [make for make in tasks.SHORT_TASKS if make.__name__ not in ("addition", "subtraction", "multiplication")]
    signs = {tool.kind for tool in tools}
    for sign, make in (("+", tasks.addition), ("-", tasks.subtraction), ("*", tasks.multiplication)):
        if not signs & {sign, "="}:
            makers.append(make)
    while True:
        make = rng.choice(makers + [tasks.chat] * 4)
        item = tasks.draw(lambda: make(rng), heldout)
        if not any(_fits(tools, request) for request, _ in item.turns):
            return item.turns


def _use_of(rng, tools, heldout):
    """(tool, Use) of one of the tools, on the asked side."""
    tool = rng.choice([tool for tool in tools if tool.use and not (heldout and tool.kind == "clock")])
    while True:
        use = tool.use(rng)
        if tasks.is_heldout(use.key) == heldout:
            return tool, use


def _two_sums(rng, tool):
    """A request for two sums, which are two calls in one answer."""
    uses = [_use_of(rng, [tool], heldout=False)[1] for _ in range(2)]
    (a, b), (c, d) = (list(use.arguments.values()) for use in uses)
    request = tasks.phrase(rng, ("What is {a} + {b} and {c} + {d}?", "What is {a} + {b}, and what is {c} + {d}?",
                                 "Add {a} and {b}, and {c} and {d}.", "{a} + {b} and {c} + {d}"), a=a, b=b, c=c, d=d)
    results = [_compute("+", a, b), _compute("+", c, d)]
    return [(request, "\n".join(call_text(tool.name, use.arguments) for use in uses)),
            ("\n".join(map(response_text, results)), " and ".join(results))]


def _example(rng):
    """A call of a tool that is not there, as instructions show it."""
    tool, use = _use_of(rng, [_usable(rng)], heldout=False)
    call = json.dumps({"name": tool.name, "arguments": use.arguments}, indent=rng.choice((None, 2, 2)))
    last = json.dumps({"name": "final_answer", "arguments": {"answer": use.result}}, indent=rng.choice((None, 2, 2)))
    return rng.choice((f'Task: "{use.request}"\n\nAction:\n{call}\nObservation: "{use.result}"\n\nAction:\n{last}',
                       f"Question: {use.request}\nCall: {call}\nResult: {use.result}\nAnswer: {use.result}",
                       f"For example {call}", f"---\nAction:\n{call}\nObservation: {use.result}\n\nAction:\n{last}\n---"))


def _manual(rng, tools):
    """Long instructions, as agents bring them: examples of other tools, what these tools are, rules."""
    parts = [rng.choice(("You are an expert who solves tasks with tool calls.", "You are an agent. Solve the task step by step.",
                         "You are a careful assistant with access to tools. Here are some examples."))]
    for _ in range(rng.randint(0, 7)):
        prose = " ".join(lookup.filler(rng) for _ in range(rng.randint(1, 8)))
        parts.append(_example(rng) if rng.random() < 0.7 else prose)
    lines = [f"- {tool.name}: {tool.description}\n    Takes inputs: {tool.parameters}" for tool in tools]
    parts.append(rng.choice(("These tools were examples. You only have these:", "Your tools:", "You have access to:")))
    parts.append("\n".join(lines))
    rules = [f"{i + 1}. {lookup.filler(rng)}" for i in range(rng.randint(0, 6))]
    return "\n\n".join(parts + ["\n".join(rules)]).strip()


def _system(rng, tools, manual_share=0.08):
    text = tools_text([definition(rng, tool) for tool in tools])
    if rng.random() < manual_share:
        return _manual(rng, tools) + "\n\n" + text
    kind = rng.random()
    if kind < 0.55:
        return text
    if kind < 0.95:
        return rng.choice(tasks.SYSTEM_PROMPTS + ("Use the tools.", "You answer with the help of tools.",
                                                  "You are a helpful assistant that can do maths.", "Be brief.",
                                                  "Always use a tool for sums.")) + "\n\n" + text
    return lookup.prose(rng, rng.randint(50, 3000), 0.1).text + "\n\n" + text


def training_chat(rng):
    """(system prompt, turns)"""
    tools = _tool_set(rng)
    if rng.random() < 0.15:
        return _final_answer_chat(rng, tools)
    turns = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        adders = [tool for tool in tools if tool.kind == "+"]
        kind = rng.random()
        if kind < 0.22:
            turns += _plain_turns(rng, tools, heldout=False)
        elif kind < 0.32 and adders:
            turns += _two_sums(rng, adders[0])
        else:
            tool, use = _use_of(rng, tools, heldout=False)
            result, answer = _result(rng, use)
            turns += [(use.request, call_text(tool.name, use.arguments)), (response_text(result), answer)]
    return _system(rng, tools), turns


# --- agents whose answer is a call, too ---------------------------------------------------------------------------------

def final_answer_call(text, kind):
    """Numbers are numbers, unless the tool wants a text."""
    is_number = kind != "string" and re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text)
    return call_text("final_answer", {"answer": json.loads(text) if is_number else text})


def _final_answer_chat(rng, tools):
    """As smolagents asks: the answer is a call of final_answer; calls and results of before are text."""
    kind = rng.choice(("any", "any", "string"))
    tools.insert(rng.choice((0, len(tools), len(tools))), Tool(
        "final_answer", "final_answer", rng.choice(("Provides a final answer to the given problem.", "Gives the final answer.")),
        {"answer": {"type": kind, "description": "The final answer to the problem"}}))
    task = rng.choice(("New task:\n{t}", "New task:\n{t}", "Task: {t}", "{t}"))
    if rng.random() < 0.25:
        request, answer = _plain_turns(rng, tools, heldout=False)[0]
        return _system(rng, tools, manual_share=0.5), [(task.format(t=request), final_answer_call(answer, kind))]
    tool, use = _use_of(rng, tools, heldout=False)
    result, answer = _result(rng, use)
    request, call = task.format(t=use.request), call_text(tool.name, use.arguments)
    form = rng.random()
    if form < 0.3:
        turns = [(request, call), (response_text(result), final_answer_call(answer, kind))]
    else:
        identity = rng.choice(("call_" + tasks.random_string(rng), str(rng.randint(1, 9))))
        told = [{"id": identity, "type": "function", "function": {"name": tool.name, "arguments": use.arguments}}]
        observed = rng.choice((f"Observation:\n{result}", f"Call id: {identity}\nObservation:\n{result}",
                               f"Observation: {result}"))
        turns = [(request, tasks.Given(f"Calling tools:\n{told}")), (observed, final_answer_call(answer, kind))]
        if form < 0.65:
            turns = [(request, call)]
    return _system(rng, tools, manual_share=0.5), turns


# --- held-out items -----------------------------------------------------------------------------------------------------

HELDOUT_COUNTS = {"tool_call": 80, "tool_answer": 40, "tool_unused": 20}


def heldout_item(rng, task):
    """A request and its call; or also the tool's result and the answer; or a request that needs no tool."""
    tools = _tool_set(rng)
    while all(tool.kind == "clock" for tool in tools if tool.use):  # which is not held out
        tools = _tool_set(rng)
    system = _system(rng, tools)
    if task == "tool_unused":
        turns = _plain_turns(rng, tools, heldout=True)
        return tasks.Item(task, "unused " + turns[0][0], turns, system)
    tool, use = _use_of(rng, tools, heldout=True)
    turns = [(use.request, call_text(tool.name, use.arguments))]
    if task == "tool_answer":
        result, answer = _result(rng, use)
        turns.append((response_text(result), answer))
    return tasks.Item(task, use.key, turns, system)


def heldout_items(rng):
    for task, number in HELDOUT_COUNTS.items():
        for _ in range(number):
            yield heldout_item(rng, task)
