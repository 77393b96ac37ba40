"""Documents with facts in them, and questions about the facts.

A document is a list of sentences: facts ("Anna lives in Oslo.") scattered among filler that never states a fact. Many
facts share the person, the thing or the relation with the one that is asked for, so that an answer has to match all
of it. The distance from fact to question is anything up to the length of the document.
"""

import dataclasses

from words import (ADJECTIVES, ADVERBS, ANIMALS, CITIES, COLOURS, COMMON, FOODS, JOBS, NAMES, NATURE,
                   OBJECTS, PLACES)

LOCKED = ["locker", "safe", "garage", "suitcase", "office", "account", "bike", "cabin", "phone", "desk"]


def pseudo_word(rng, longest=8):
    """A word that is in no dictionary, such as `tolika`."""
    word = "".join(rng.choice("bcdfghjklmnpqrstvwxz") + rng.choice("aeiouy") + rng.choice(("", "", rng.choice("lmnrst")))
                   for _ in range(rng.randint(1, 4)))
    return word[:longest]


def person(rng):
    """A name, now and then one that is not in the list."""
    return rng.choice(NAMES) if rng.random() < 0.92 else pseudo_word(rng).capitalize()


def digits(rng, shortest, longest):
    """A string of digits whose first is not zero."""
    return str(rng.randint(1, 9)) + "".join(rng.choices("0123456789", k=rng.randint(shortest, longest) - 1))


@dataclasses.dataclass(frozen=True)
class Relation:
    """`{s}` is the subject, which is unique in a document for its relation; `{v}` is the value."""
    subject: object  # rng -> str
    value: object  # rng -> str
    statements: tuple
    questions: tuple
    answer: str = "{v}"


def _secret(rng):
    kind = rng.random()
    return digits(rng, 2, 6) if kind < 0.4 else pseudo_word(rng) if kind < 0.7 else rng.choice(COMMON)


def _named(rng):
    kind = rng.choice(("password", "code word", "secret number", "magic word", "key", "name", "answer", "pin", ""))
    owner = rng.choice((f"the {rng.choice(ANIMALS)}", f"the {rng.choice(OBJECTS)}", f"the {rng.choice(PLACES)}"))
    return f"the {kind} of {owner}" if kind and rng.random() < 0.5 else f"the {kind}" if kind else owner


RELATIONS = (
    Relation(lambda rng: f"{person(rng)}'s {rng.choice(LOCKED)}", lambda rng: digits(rng, 3, 6),
             ("The code of {s} is {v}.", "The code for {s} is {v}.", "{s} has the code {v}.",
              "To open {s}, use the code {v}."),
             ("What is the code of {s}?", "Which code opens {s}?", "Tell me the code for {s}.")),
    Relation(person, lambda rng: rng.choice(CITIES),
             ("{s} lives in {v}.", "The home of {s} is in {v}.", "{s} has a house in {v}."),
             ("Where does {s} live?", "In which city does {s} live?", "What is the home city of {s}?")),
    Relation(person, lambda rng: rng.choice(JOBS),
             ("{s} works as a {v}.", "The job of {s} is {v}.", "{s} makes a living as a {v}."),
             ("What is the job of {s}?", "What does {s} work as?", "Which job does {s} have?")),
    Relation(person, lambda rng: rng.choice(COLOURS),
             ("The favourite colour of {s} is {v}.", "{s} likes the colour {v} best.", "{s} always wears {v}."),
             ("What is the favourite colour of {s}?", "Which colour does {s} like best?")),
    Relation(person, lambda rng: rng.choice(FOODS),
             ("{s} likes to eat {v}.", "The favourite food of {s} is {v}.", "{s} eats {v} every day."),
             ("What does {s} like to eat?", "What is the favourite food of {s}?")),
    Relation(person, lambda rng: rng.choice(ANIMALS),
             ("{s} has a pet {v}.", "The pet of {s} is a {v}.", "{s} lives with a {v}."),
             ("What pet does {s} have?", "Which animal does {s} have?")),
    Relation(lambda rng: f"the {rng.choice(OBJECTS)} of {person(rng)}", lambda rng: rng.choice(PLACES),
             ("You can find {s} in the {v}.", "Somebody put {s} in the {v}.", "Right now {s} is in the {v}."),
             ("Where is {s}?", "Where can I find {s}?", "In which place is {s}?"), "in the {v}"),
    Relation(lambda rng: f"the {rng.choice(ADJECTIVES)} {rng.choice(OBJECTS)}", lambda rng: digits(rng, 1, 3),
             ("The price of {s} is {v} coins.", "You pay {v} coins for {s}.", "In the shop {s} costs {v} coins."),
             ("How much does {s} cost?", "What is the price of {s}?"), "{v} coins"),
    Relation(_named, _secret,
             ("{s} is {v}.", "Remember that {s} is {v}.", "They say that {s} is {v}."),
             ("What is {s}?", "Tell me {s}.", "Do you know {s}?")),
    Relation(lambda rng: f"room {digits(rng, 2, 3)}", lambda rng: f"{rng.choice(ADJECTIVES)} {rng.choice(OBJECTS)}",
             ("In {s} there is a {v}.", "The guests of {s} found a {v}.", "A {v} stands in {s}."),
             ("What is in {s}?", "Which thing is in {s}?"), "a {v}"),
)

# Filler talks of weather, animals and roads; it never names a person, a price, a code or a place of a thing.
_FILLER = (
    lambda r: f"The {r.choice(ADJECTIVES)} {r.choice(ANIMALS)} walked {r.choice(ADVERBS)} over the {r.choice(NATURE)}.",
    lambda r: f"A {r.choice(ADJECTIVES)} {r.choice(NATURE)} lay behind the {r.choice(NATURE)}.",
    lambda r: f"It was a {r.choice(ADJECTIVES)} {r.choice(('morning', 'evening', 'day', 'night', 'winter', 'summer'))}.",
    lambda r: f"Nobody saw the {r.choice(ANIMALS)} near the {r.choice(NATURE)}.",
    lambda r: f"The {r.choice(NATURE)} was {r.choice(ADJECTIVES)} and {r.choice(ADJECTIVES)}.",
    lambda r: f"We talked about the {r.choice(NATURE)} and the {r.choice(NATURE)}.",
    lambda r: f"Every {r.choice(ANIMALS)} likes a {r.choice(ADJECTIVES)} {r.choice(NATURE)}.",
    lambda r: f"The wind came {r.choice(ADVERBS)} from the {r.choice(NATURE)}.",
    lambda r: f"Then the {r.choice(ANIMALS)} and the {r.choice(ANIMALS)} went home.",
    lambda r: f"There was {r.choice(ADJECTIVES)} light on the {r.choice(NATURE)}, but no sound.",
)


def filler(rng):
    """One sentence that states no fact."""
    return rng.choice(_FILLER)(rng)


def _sentence(text):
    return text[0].upper() + text[1:]


@dataclasses.dataclass(frozen=True)
class Document:
    text: str
    questions: list  # of (question, answer), in the order in which the facts stand


def prose(rng, num_chars, facts_per_sentence):
    """About `num_chars` of text in which each sentence is a fact with the given probability (at least one is)."""
    sentences, facts, seen, length = [], [], set(), 0
    few = [person(rng) for _ in range(rng.randint(2, 12))]  # a small cast makes facts that share a person
    while length < num_chars or not facts:
        sentence = None
        if rng.random() < facts_per_sentence or (length >= num_chars and not facts):
            relation = rng.choice(RELATIONS)
            subject = rng.choice(few) if relation.subject is person and rng.random() < 0.7 else relation.subject(rng)
            if (relation, subject) not in seen:
                seen.add((relation, subject))
                value = relation.value(rng)
                sentence = _sentence(rng.choice(relation.statements).format(s=subject, v=value))
                facts.append((len(sentences), rng.choice(relation.questions).format(s=subject),
                              relation.answer.format(v=value)))
        sentence = sentence or filler(rng)
        sentences.append(sentence)
        length += len(sentence) + 1
    gap = "\n" if rng.random() < 0.15 else " "
    return Document(gap.join(sentences), [(question, answer) for _, question, answer in facts])


def records(rng, num_chars):
    """A list of `key: value` lines, and questions for the value of a key."""
    number_keys = rng.random() < 0.5
    lines, facts, seen, length = [], [], set(), 0
    while length < num_chars or len(lines) < 2:
        if number_keys:
            key = f"{rng.choice(OBJECTS)}-{rng.randint(1, 99)}"
        else:
            key = f"{rng.choice(ADJECTIVES)} {rng.choice(OBJECTS)}"
        if key in seen:
            continue
        seen.add(key)
        value = digits(rng, 2, 5) if rng.random() < 0.6 else rng.choice(COLOURS)
        lines.append(f"{key}: {value}")
        length += len(lines[-1]) + 1
        question = rng.choice(("What is the value of {k}?", "Which value does {k} have?", "Give me the value of {k}."))
        facts.append((question.format(k=key), value))
    return Document("\n".join(lines), facts)


def ask(rng, document, question):
    """The first user message about a document."""
    form = rng.random()
    if form < 0.15:
        return f"{question}\n\n{document.text}"
    if form < 0.4:
        return f"Text:\n{document.text}\n\nQuestion: {question}"
    if form < 0.7:
        return f"Read the text and answer the question.\n\n{document.text}\n\n{question}"
    return f"{document.text}\n\n{question}"
