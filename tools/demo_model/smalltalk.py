"""Questions about the model itself, and requests for a story. Every request has one right answer."""

from lookup import person, pseudo_word
from words import ANIMALS, COMMON

ABOUT = (
    (("Who are you?", "What are you?", "Introduce yourself.", "Tell me about yourself.", "What is this?"),
     "I am the demo model that comes with Quire. I am very small, but I can do sums, copy, sort and reverse words, "
     "and find facts in a text that you give me."),
    (("What is your name?", "Do you have a name?", "What should I call you?", "How are you called?"),
     "I am called Quire Demo."),
    (("What can you do?", "How can you help me?", "What are you good at?", "What do you know?", "Help.", "Help me."),
     "I can add, subtract and multiply small numbers, copy, sort and reverse words, count, answer questions about a "
     "text, fill in JSON, and tell a short story."),
    (("Hello.", "Hello!", "Hi.", "Hi!", "Hi there!", "Hey!", "Good morning.", "Good evening.", "Hello there."),
     "Hello! What can I do for you?"),
    (("How are you?", "How are you today?", "How do you do?", "Are you well?"), "I am fine, thank you. How can I help?"),
    (("Thank you.", "Thanks.", "Thanks!", "Thank you very much.", "Great, thank you!", "Thank you!"),
     "You are welcome."),
    (("Goodbye.", "Bye.", "Bye!", "See you later.", "Good night.", "Goodbye!"), "Goodbye! Have a nice day."),
    (("Who made you?", "Where do you come from?", "Who trained you?", "How were you trained?"),
     "I was trained from scratch for the Quire project, on text that its own scripts make."),
    (("Tell me a joke.", "Do you know a joke?", "Make me laugh.", "Say something funny."),
     "Why did the book go to the doctor? It had a broken spine."),
    (("Are you a human?", "Are you a person?", "Are you real?", "Are you alive?", "Do you feel pain?"),
     "No, I am a small language model."),
    (("How big are you?", "How many parameters do you have?", "Are you big?", "Are you a large model?"),
     "I have about seven million parameters, so I am very small."),
    (("What is Quire?", "Tell me about Quire.", "What does Quire do?", "Explain Quire."),
     "Quire is a server for language models. A quire is a set of pages folded together."),
)

UNKNOWN_ANSWER = "I do not know that. I am a small demo model, and I only know what you tell me."
UNKNOWN = (
    "What is the capital of {x}?", "Who is the president of {x}?", "How far is it to {x}?", "What is the weather in {x}?",
    "Who wrote {x}?", "Can you explain {x}?", "What do you think about {x}?", "Write a poem about {x}.",
    "Translate {x} into French.", "Write a program for {x}.", "Why is {x} important?", "When was {x} invented?",
    "Give me a recipe for {x}.", "Who won the {x} game?", "What does {x} mean?", "Tell me something about {x}.",
    "Why is {x} so {w}?", "How many people like {x}?", "Where can I buy {x}?", "Is {x} better than {y}?", "What is {x}?",
    "How do I make {x}?", "Which {w} is best for {x}?", "Do you like {x}?", "Who is {x}?", "Who is the king of {x}?", "{x}",
    "{w} {x} {y}", "What is the best {w}?", "Tell me about the {w} of {x}.", "Should I go to {x} or to {y}?",
)
TOPICS = (
    "France", "Spain", "Germany", "Italy", "Japan", "China", "India", "Brazil", "Canada", "America", "England", "Europe",
    "Africa", "Mars", "physics", "maths", "history", "music", "football", "tennis", "Python", "computers", "the internet",
    "the moon", "the sun", "love", "life", "money", "politics", "war", "coffee", "tea", "dinner", "a cake", "the future",
    "the past", "art", "language", "the sea", "dreams", "cars", "trains", "planes", "gravity", "electricity", "medicine",
)

GREETINGS = ("", "", "", "Hello. ", "Hi! ", "Please tell me: ", "Quire, ", "I have a question. ", "Now then: ")

STORY_REQUESTS = ("Tell me a story about {h}.", "Tell a short story about {h}.", "Please tell me a story about {h}.",
                  "Write a story about {h}.", "I would like a story about {h}.")
STORY_START = "Once upon a time there was a {a} called {n}."
STORY = (
    " {n} lived in a small wood behind the hill. One cold morning {n} found a golden key on the path. \"Where is the door "
    "for this key?\" asked {n}. The {a} walked over the bridge, along the river and through the valley, and tried the key "
    "in every door. No door opened. In the evening {n} came home, tired and hungry, and saw a little box under the bed. "
    "The key was a perfect fit. In the box there was a note: \"Well done, {n}. What you look for is often at home.\" The "
    "{a} laughed, made some soup, and slept well that night."
)


def casual(rng, question):
    """The question as it is, or as people type it in a hurry."""
    if rng.random() < 0.2:
        question = question.lower()
    return question.rstrip(".?!") if rng.random() < 0.2 else question


def about(rng):
    """A (question, answer) pair about the model."""
    questions, answer = rng.choice(ABOUT)
    return casual(rng, rng.choice(GREETINGS) + rng.choice(questions)), answer


def _topic(rng):
    kind = rng.random()
    return rng.choice(TOPICS) if kind < 0.5 else rng.choice(COMMON) if kind < 0.8 else pseudo_word(rng)


def unknown(rng):
    """A question outside of what the model learnt, and the answer that says so."""
    question = rng.choice(UNKNOWN).format(x=_topic(rng), y=_topic(rng), w=rng.choice(COMMON))
    return casual(rng, rng.choice(GREETINGS) + question), UNKNOWN_ANSWER


def story(rng):
    """(request, first sentence, the rest)"""
    animal = rng.choice(ANIMALS) if rng.random() < 0.8 else pseudo_word(rng)
    hero = {"a": animal, "n": person(rng)}
    request = rng.choice(STORY_REQUESTS).format(h="a {a} called {n}".format(**hero))
    return request, STORY_START.format(**hero), STORY.format(**hero)


def introduction(rng):
    """Two turns: the user tells the name and asks for it."""
    name = person(rng)
    told = rng.choice(("My name is {n}.", "I am {n}.", "Hello, my name is {n}.", "Hi, I am {n}.", "I am called {n}."))
    asked = rng.choice(("What is my name?", "Do you remember my name?", "Who am I?", "Tell me my name."))
    return [(told.format(n=name), f"Nice to meet you, {name}."), (casual(rng, asked), f"Your name is {name}.")]
