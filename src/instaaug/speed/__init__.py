"""Speed: what `instaaug bench` times, against what, and the budgets."""

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
