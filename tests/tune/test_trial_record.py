"""A row of ``trials.json`` comes back as it was, and a damaged one is refused in words."""

import json
from typing import Any

import pytest

from instaaug.tune.trial_record import TrialRecord, parsed_trials

GOOD = TrialRecord(
    0,
    "complete",
    {"crop/center": 0.1},
    {"crop": (0.05, 0.2)},
    1e-3,
    rungs=((1, 0.25), (2, 0.5)),
    scores=(1.0, 0.0),
    seconds=2.5,
    memory={"completed_rung_0": 0.25, "fixed_params": {"crop/center": 0.1}},
)


def text_of(**changes: Any) -> str:
    return json.dumps([{**vars(GOOD), **changes}])


def test_a_record_comes_back_as_it_was() -> None:
    assert parsed_trials(text_of()) == [GOOD]
    assert parsed_trials("[]") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 1},
        {"state": "running"},
        {"state": []},
        {"point": [0.1]},
        {"point": {"crop/center": "0.1"}},
        {"bands": {"crop": [0.1]}},
        {"bands": {"crop": [0.1, None]}},
        {"phi_learning_rate": True},
        {"rungs": 3},
        {"rungs": [[1.5, 0.5]]},
        {"rungs": [[1, float("nan")]]},
        {"scores": []},
        {"scores": None},
        {"scores": [1.0, float("nan")]},
        {"scores": [1.0, "x"]},
        {"state": "pruned"},
        {"seconds": -1.0},
        {"seconds": float("inf")},
        {"memory": None},
        {"memory": {"completed_rung_0": "x"}},
        {"reason": 3},
        {"phi_learning_rate": 10**400},
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, Any]) -> None:
    (name,) = changes
    named = "scores" if changes == {"state": "pruned"} else name
    with pytest.raises(ValueError, match=f"the `{named}` of trial 0 is "):
        parsed_trials(text_of(**changes))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Expecting property name"),
        ("{}", "it is no list of trials"),
        ("[3]", "trial 0 is 3"),
        ("[{}]", "trial 0 has no `number`"),
        (text_of(extra=1), "trial 0 has 'extra', which is not known"),
        ("[" * 100_000, "too deep"),
    ],
)
def test_what_is_no_list_of_trials_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parsed_trials(text)


def test_complete_trials_have_scores_of_the_same_images() -> None:
    rows = [{**vars(GOOD), "number": i, "scores": [1.0] * (2 + i)} for i in range(2)]
    with pytest.raises(ValueError, match=r"scores of \[2, 3\] images, not of the same"):
        parsed_trials(json.dumps(rows))
