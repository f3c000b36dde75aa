"""One run in a report: what is on disk of it, and what was seen with it."""

from dataclasses import dataclass

from instaaug.data import LabeledImages
from instaaug.report.page.runs import Observations
from instaaug.report.records import RunRecord
from instaaug.runs.subjects import Subject

__all__ = ["Column"]


@dataclass(frozen=True)
class Column:
    """A run in a report.

    Arguments:
        name: Short, and unlike that of any other run in the report.
        subject: Its model and augmenter.
        record: Its files.
        images: The inputs of the report as the run takes them.
        seen: What it makes of them.
    """

    name: str
    subject: Subject
    record: RunRecord
    images: LabeledImages
    seen: Observations
