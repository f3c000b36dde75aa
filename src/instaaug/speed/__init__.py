"""How fast it is: what is timed, how, against what, and what it may cost."""

from instaaug.speed.questions import QUESTIONS, Question
from instaaug.speed.timing import ROUNDS, Tables, Timing, as_record, compare, problems

__all__ = [
    "QUESTIONS",
    "ROUNDS",
    "Question",
    "Tables",
    "Timing",
    "as_record",
    "compare",
    "problems",
]
