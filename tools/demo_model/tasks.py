"""Tasks whose answers can be checked, as chats. Pure Python; the same seed gives the same items.

Training and held-out items never meet: every item has a key (what is asked, whatever the wording), and a hash of the key
says which side it is on. `training_chat` only makes chats of the one side, `heldout_items` only items of the other.
"""

import dataclasses
import hashlib
import json
import math

import lookup
import smalltalk
from words import ANIMALS, CITIES, COLOURS, COMMON, JOBS, OBJECTS

HELDOUT_ONE_IN = 50
MAX_LOOKUP_CHARS = 15000  # less than 4,000 tokens: question and answer still fit in a context of 4,096


@dataclasses.dataclass
class Item:
    task: str
    key: str  # None: always on the training side
    turns: list  # of (user text, assistant text); lookups and small talk may have several
    system: str = None


class Given(str):
    """What the assistant says in a chat that is not learnt: history that another program wrote."""


def is_heldout(key):
    if key is None:
        return False
    digest = hashlib.blake2b(key.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") % HELDOUT_ONE_IN == 0


def phrase(rng, forms, **fields):
    """One of the forms, filled in; now and then as people type it in a hurry."""
    form = rng.choice(forms)
    if rng.random() < 0.15:
        form = form[0].lower() + form[1:]
    if rng.random() < 0.15:
        form = form.rstrip(".?")
    return form.format(**fields)


# --- arithmetic ---------------------------------------------------------------------------------------------------------

ADD = (
    "What is {a} + {b}?", "{a} + {b} =", "{a} + {b}", "{a}+{b}", "{a}+{b}=", "What is {a}+{b}?", "Add {a} and {b}.",
    "What is {a} plus {b}?", "Calculate {a} + {b}.",
    "{n} has {a} {o} coins and gets {b} more. How many coins does {n} have now?",
    "There are {a} books on the table and {b} on the floor. How many books are there?",
)
SUBTRACT = (
    "What is {a} - {b}?", "{a} - {b} =", "{a} - {b}", "{a}-{b}", "{a}-{b}=", "What is {a}-{b}?", "Subtract {b} from {a}.",
    "What is {a} minus {b}?", "Calculate {a} - {b}.",
    "{n} has {a} {o} coins and gives {b} away. How many coins are left?",
    "There are {a} books on the table. {n} takes {b} of them. How many books are left?",
)
MULTIPLY = (
    "What is {a} * {b}?", "{a} * {b} =", "{a} * {b}", "{a}*{b}", "{a}*{b}=", "What is {a}*{b}?", "Multiply {a} by {b}.",
    "What is {a} times {b}?", "Calculate {a} * {b}.", "There are {a} boxes with {b} books each. How many books are there?",
)


def _number(rng, most_digits):
    return rng.randrange(10 ** rng.randint(1, most_digits))


def sum_request(rng, forms, a, b):
    return phrase(rng, forms, a=a, b=b, n=lookup.person(rng), o=rng.choice(COLOURS))


def addition(rng):
    a, b = _number(rng, 4), _number(rng, 4)
    return Item("addition", f"+ {min(a, b)} {max(a, b)}", [(sum_request(rng, ADD, a, b), str(a + b))])


def subtraction(rng):
    """The result is never negative."""
    a, b = _number(rng, 4), _number(rng, 4)
    a, b = max(a, b), min(a, b)
    return Item("subtraction", f"- {a} {b}", [(sum_request(rng, SUBTRACT, a, b), str(a - b))])


def multiplication(rng):
    """The times table up to 12, and up to three digits times one digit."""
    a, b = (rng.randint(0, 12), rng.randint(0, 12)) if rng.random() < 0.2 else (_number(rng, 3), rng.randint(2, 9))
    if rng.random() < 0.3:
        a, b = b, a
    return Item("multiplication", f"* {min(a, b)} {max(a, b)}", [(sum_request(rng, MULTIPLY, a, b), str(a * b))])


# --- words and lists ----------------------------------------------------------------------------------------------------

def random_string(rng):
    alphabet = rng.choice(("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "0123456789abcdef",
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"))
    return "".join(rng.choices(alphabet, k=rng.randint(3, 16)))


def _words(rng, least, most):
    """Different words; about one in ten is in no list."""
    words = rng.sample(COMMON, rng.randint(least, most))
    words = [lookup.pseudo_word(rng) if rng.random() < 0.1 else word for word in words]
    return list(dict.fromkeys(words))


def copy(rng):
    kind = rng.random()
    if kind < 0.3:
        text = " ".join(_words(rng, 1, 12))
    elif kind < 0.6:
        text = " ".join(random_string(rng) for _ in range(rng.randint(1, 2)))
    elif kind < 0.85:
        text = " ".join(lookup.filler(rng) for _ in range(rng.choice((1, 1, 1, 2, 3, 5, 8))))
    else:
        text = ", ".join(lookup.pseudo_word(rng) for _ in range(rng.randint(1, 8)))
    forms = ("Repeat: {t}", "Copy this text: {t}", "Say this again: {t}", "Repeat after me: {t}",
             "Write the same text once more.\n{t}", "Copy exactly:\n{t}")
    return Item("copy", "copy " + text, [(phrase(rng, forms, t=text), text)])


def reverse_letters(rng):
    """Words of the lists are never held out: their letters can't be seen in their tokens, only learnt one by one."""
    known = rng.random() < 0.4
    word = rng.choice(COMMON) if known else lookup.pseudo_word(rng)
    if len(word) < 3:
        return reverse_letters(rng)
    forms = ("Reverse the word {t}.", "Write {t} backwards.", "Spell {t} backwards.", "Reverse the letters of {t}.",
             "What is {t} backwards?", "Reverse the word: {t}", "Reverse: {t}")
    return Item("reverse_letters", None if known else "letters " + word, [(phrase(rng, forms, t=word), word[::-1])])


def _list_request(rng, forms, words):
    return phrase(rng, forms, t=rng.choice((", ", ", ", ", ", " ")).join(words))


def reverse_list(rng):
    words = _words(rng, 2, 8)
    forms = ("Reverse the list: {t}", "Reverse this list: {t}", "Write the list in reverse order: {t}",
             "Put these words in the opposite order: {t}", "Reverse the order of these words.\n{t}")
    return Item("reverse_list", "list " + " ".join(words),
                [(_list_request(rng, forms, words), ", ".join(reversed(words)))])


def sort(rng):
    words = _words(rng, 2, 8)
    forms = ("Sort these words: {t}", "Sort the words alphabetically: {t}", "Put these words in alphabetical order: {t}",
             "Sort this list from A to Z: {t}", "Write the words in alphabetical order.\n{t}", "Sort: {t}", "Sort {t}")
    return Item("sort", "sort " + " ".join(words), [(_list_request(rng, forms, words), ", ".join(sorted(words)))])


def count(rng):
    first, length = rng.randint(0, 150), rng.randint(2, 40)
    numbers = list(range(first, first + length))
    forms = ("Count from {a} to {b}.", "Count up from {a} to {b}.", "Write the numbers from {a} to {b}.",
             "List all numbers from {a} to {b}.")
    if rng.random() < 0.3:
        numbers.reverse()
        forms = ("Count down from {a} to {b}.", "Count backwards from {a} to {b}.")
    return Item("count", f"count {numbers[0]} {numbers[-1]}",
                [(phrase(rng, forms, a=numbers[0], b=numbers[-1]), ", ".join(map(str, numbers)))])


# --- JSON ---------------------------------------------------------------------------------------------------------------

FIELDS = {
    "age": (lambda rng: rng.randint(3, 99),
            ("{n} is {v} years old.", "{n} turned {v} last week.", "The age of {n} is {v}.")),
    "city": (lambda rng: rng.choice(CITIES), ("{n} lives in {v}.", "The home of {n} is in {v}.", "{n} moved to {v}.")),
    "job": (lambda rng: rng.choice(JOBS), ("{n} works as a {v}.", "The job of {n} is {v}.")),
    "pet": (lambda rng: rng.choice(ANIMALS), ("{n} has a pet {v}.", "The pet of {n} is a {v}.")),
    "colour": (lambda rng: rng.choice(COLOURS), ("The favourite colour of {n} is {v}.", "{n} likes the colour {v} best.")),
    "item": (lambda rng: rng.choice(OBJECTS), ("{n} bought a new {v}.", "{n} ordered one {v}.")),
}


def json_record(rng):
    """Extract the asked fields of the one person in a short text, in the asked order."""
    name = lookup.person(rng)
    told = rng.sample(sorted(FIELDS), rng.randint(1, 5))
    values = {"name": name} | {field: FIELDS[field][0](rng) for field in told}
    sentences = [rng.choice(FIELDS[field][1]).format(n=name, v=values[field]) for field in told]
    for _ in range(rng.choice((0, 0, 1, 2))):
        sentences.insert(rng.randint(0, len(sentences)), lookup.filler(rng))
    asked = ["name"] + rng.sample(told, rng.randint(1, len(told)))
    text = " ".join(sentences)
    forms = ("{t}\n\nAnswer in JSON with the keys {k}.", "Extract {k} as JSON: {t}",
             "Text: {t}\n\nGive me a JSON object with {k}.", "Fill in a JSON object with the keys {k}.\n\n{t}")
    return Item("json", "json " + text,
                [(phrase(rng, forms, t=text, k=", ".join(asked)), json.dumps({key: values[key] for key in asked}))])


# --- looking up ---------------------------------------------------------------------------------------------------------

def lookup_in_text(rng, num_chars, most_questions):
    """Questions about one document; the first message holds the document.

    `num_chars` is its length if it is prose; records have as many tokens in fewer characters.
    """
    if rng.random() < 0.25:
        document = lookup.records(rng, num_chars * 2 // 5)
    else:
        document = lookup.prose(rng, num_chars, rng.choice((0.03, 0.1, 0.3, 0.6)))
    asked = rng.sample(document.questions, min(most_questions, len(document.questions)))
    turns = [(lookup.ask(rng, document, asked[0][0]), asked[0][1])] + asked[1:]
    return Item("lookup", "lookup " + document.text, turns)


def _lookup_chars(rng, longest):
    """A document length, spread evenly over the logarithm, so that short ones are not rare."""
    return int(math.exp(rng.uniform(math.log(40), math.log(longest))))


# --- small talk ---------------------------------------------------------------------------------------------------------

def chat(rng):
    kind = rng.random()
    if kind < 0.1:
        request, start, rest = smalltalk.story(rng)
        return Item("chat", "story " + start, [(request, start + rest)])
    if kind < 0.25:
        turns = smalltalk.introduction(rng)
    else:
        turns = [smalltalk.about(rng) if kind < 0.6 else smalltalk.unknown(rng)]
    return Item("chat", "chat " + turns[0][0], turns)


# --- training chats and held-out items ----------------------------------------------------------------------------------

SHORT_TASKS = {  # weight in training
    addition: 4, subtraction: 4, multiplication: 4, copy: 2.5, reverse_letters: 5, reverse_list: 2, sort: 5, count: 1,
    json_record: 2, chat: 2,
}
HELDOUT_COUNTS = {
    addition: 60, subtraction: 60, multiplication: 40, copy: 50, reverse_letters: 50, reverse_list: 40, sort: 50, count: 20,
    json_record: 50, chat: 40,
}
HELDOUT_LOOKUPS = 120

SYSTEM_PROMPTS = ("You are a helpful assistant.", "You are Quire Demo, a small model.", "Answer briefly.",
                  "You are a careful assistant. Answer with the result only.")


def draw(make, heldout):
    """The first item from `make` that is on the asked side."""
    while True:
        item = make()
        if is_heldout(item.key) == heldout:
            return item


def _short_item(rng):
    task, = rng.choices(list(SHORT_TASKS), weights=list(SHORT_TASKS.values()))
    return draw(lambda: task(rng), heldout=False)


def training_chat(rng, longest_lookup_chars, lookup_share):
    """(system prompt or None, turns) of a chat of one lookup (with that chance) or of one to nine short items."""
    if rng.random() < lookup_share:
        turns = draw(lambda: lookup_in_text(rng, _lookup_chars(rng, longest_lookup_chars), 24), heldout=False).turns
    else:
        turns = [turn for _ in range(rng.choice((1, 1, 2, 3, 5, 9))) for turn in _short_item(rng).turns]
    system = rng.choice(SYSTEM_PROMPTS) if rng.random() < 0.15 else None
    return system, turns


def training_completion(rng):
    """(prompt, completion) of plain text: a story, or a question and its answer."""
    if rng.random() < 0.3:
        story = smalltalk.story(rng)
        while is_heldout("story " + story[1]):
            story = smalltalk.story(rng)
        return story[1:]
    user, assistant = _short_item(rng).turns[0]
    return f"Q: {user}\nA:", " " + assistant


def heldout_items(rng):
    """(system prompt or None, item): `HELDOUT_COUNTS` of the short tasks, then lookups of evenly spread lengths.

    Only the answer of the last turn is asked for; the turns before it are history.
    """
    seen = set()
    for task, number in HELDOUT_COUNTS.items():
        for i in range(number):
            item = draw(lambda: task(rng), heldout=True)
            while item.key in seen:
                item = draw(lambda: task(rng), heldout=True)
            seen.add(item.key)
            yield SYSTEM_PROMPTS[i // 10 % len(SYSTEM_PROMPTS)] if i % 10 == 9 else None, item
    for i in range(HELDOUT_LOOKUPS):
        num_chars = 60 + (MAX_LOOKUP_CHARS - 60) * i // (HELDOUT_LOOKUPS - 1)
        yield None, draw(lambda: lookup_in_text(rng, num_chars, 3 if i % 5 == 4 else 1), heldout=True)
