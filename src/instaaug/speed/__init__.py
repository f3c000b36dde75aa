"""How fast it is: what is timed, how, against what, and what it may cost."""

from instaaug.speed.questions import QUESTIONS, Question
from instaaug.speed.record import as_record, problems
from instaaug.speed.timing import ROUNDS, Row, Tables, compare

__all__ = [
    "QUESTIONS",
    "ROUNDS",
    "Question",
    "Row",
    "Tables",
    "as_record",
    "compare",
    "problems",
]
