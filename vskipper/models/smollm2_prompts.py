"""Chat prompts on which SmolLM2's untrained router is calibrated; every second one is held out to measure it."""

from __future__ import annotations

_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
_EXCHANGES = (
    ("What is the capital of Italy?", "The capital of Italy is Rome."),
    ("Name three colours of the rainbow.", "Red, green and violet are three colours of the rainbow."),
    (
        "A baker sells 12 rolls in the morning and 30 in the afternoon. How many rolls is that?",
        "In the morning the baker sells 12 rolls and in the afternoon 30, so 12 + 30 = 42 rolls.",
    ),
    (
        "Tom has 3 boxes with 8 pencils each. He gives 5 pencils away. How many are left?",
        "Tom starts with 3 * 8 = 24 pencils. After giving 5 away he has 24 - 5 = 19 pencils.",
    ),
    ("Write a short poem about the sea.", "The grey sea sings against the stone, a song of salt, of wind and foam."),
    ("Explain why the sky is blue.", "Air scatters short waves of sunlight more than long ones, so blue reaches us."),
    (
        "Write a Python function that adds two numbers.",
        "def add(first, second):\n    return first + second\n",
    ),
    (
        "What does this program print?\nfor i in range(3):\n    print(i * i)",
        "It prints the squares of 0, 1 and 2, each on a line of its own: 0, 1 and 4.",
    ),
    ("Translate into French: good morning, my friend.", "Bonjour, mon ami."),
    ("Which is heavier, a kilogram of iron or a kilogram of wool?", "Neither: both weigh one kilogram."),
    (
        "Sort these words by the alphabet: pear, apple, quince, fig.",
        "In alphabetical order the words are apple, fig, pear and quince.",
    ),
    (
        "Is the following sentence plausible? The goalkeeper scored a home run.",
        "It is not plausible: a home run belongs to baseball, and a goalkeeper plays football.",
    ),
    ("How do I boil an egg?", "Put the egg into boiling water for eight minutes, then cool it under the tap."),
    ("Give me a name for a black cat.", "You could call her Midnight, or Soot if she likes the fireplace."),
    (
        "A train leaves at 9:40 and arrives at 11:05. How long is the journey?",
        "From 9:40 to 10:40 is one hour, and from there to 11:05 is 25 minutes: 1 hour and 25 minutes.",
    ),
    (
        "If today is Wednesday, what day will it be in ten days?",
        "Seven days from Wednesday is Wednesday again, and three more days make it a Saturday.",
    ),
)


def _chat(question: str, answer: str) -> str:
    turns = (("system", _SYSTEM), ("user", question), ("assistant", answer))
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns)


PROMPTS = tuple(_chat(question, answer) for question, answer in _EXCHANGES)
