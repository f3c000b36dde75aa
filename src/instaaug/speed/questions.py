"""What ``instaaug bench`` asks: the budgets of the design, question by question."""

from collections.abc import Callable
from dataclasses import dataclass

from instaaug.speed import at_test_time, color, startup, training_step, warp
from instaaug.speed.timing import Tables

__all__ = ["QUESTIONS", "Question"]


@dataclass(frozen=True)
class Question:
    """Something to time.

    Arguments:
        asked: In words.
        answer: Times it, in so many rounds.
        others: What others need for the same, as far as is known.
    """

    asked: str
    answer: Callable[..., Tables]
    others: str = ""


QUESTIONS = {
    "startup": Question("How fast does the command start?", startup.main),
    "color": Question(
        "How fast is HSV jitter?", color.main, "a plain rgb→hsv→rgb copies the images 63 times"
    ),
    "warp": Question(
        "How fast are a crop and a composition?",
        warp.main,
        "a crop by separable matrix products 0.8 and 1.8",
    ),
    "at_test_time": Question(
        "What does test-time augmentation cost?", at_test_time.main, "the authors' code 1.40"
    ),
    "training_step": Question(
        "What does learning cost in a training step?",
        training_step.main,
        "the authors' code 2.0, their paper 1.67",
    ),
}
