"""Tables: guessed columns, parts, numbers, and errors that name the row."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from instaaug.data.labeled import LabeledImages
from instaaug.data.table import read_table
from instaaug.errors import ArgumentError, DataError, UnknownNameError
from tests.support.picture_files import nothing, plain
from tests.support.unhooked import unhooked

Read = Callable[..., dict[str, LabeledImages]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    for i in range(4):
        plain(tmp_path / "images" / f"{i}.png", (60 * i, 0, 0))

    def call(text: str | bytes, **options: object) -> dict[str, LabeledImages]:
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "table.csv").write_bytes(data)
        settings = {"cache_dir": tmp_path / "cache", **options}
        return read_table(tmp_path / "table.csv", **settings)  # type: ignore[arg-type]

    return call


GOOD = "path,label\nimages/0.png,cat\nimages/1.png,dog\nimages/2.png,cat\n"


def test_rows_are_images_with_labels(read: Read) -> None:
    data = read(GOOD)["all"]
    assert data.classes == ("cat", "dog")
    assert data.targets.tolist() == [0, 1, 0]
    assert [int(data[i][0][0, 0, 0]) for i in range(3)] == [0, 60, 120]


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("path,label", "File, Class "),
        GOOD.replace("path,label", "image,target"),
        GOOD.replace("path,label", "filename,label"),
        GOOD.replace(",", ";"),
        GOOD.replace(",", "\t"),
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\n\n"),
        GOOD.replace("cat", '" cat"'),
        "\ufeff" + GOOD,
        GOOD.rstrip("\n"),
    ],
    ids=[
        "class",
        "target",
        "filename",
        "semicolons",
        "tabs",
        "crlf",
        "blank",
        "quotes",
        "bom",
        "unended",
    ],
)
def test_tables_are_written_in_many_ways(read: Read, text: str) -> None:
    data = read(text)["all"]
    assert data.classes == ("cat", "dog")
    assert data.targets.tolist() == [0, 1, 0]


def test_columns_can_be_named(read: Read) -> None:
    text = "a,b,c\nx,images/0.png,cat\ny,images/1.png,dog\n"
    assert read(text, path_column="b", target_column="C")["all"].classes == ("cat", "dog")


def test_absolute_paths_are_taken_as_they_are(read: Read, tmp_path: Path) -> None:
    text = GOOD.replace("images/0.png", str(tmp_path / "images" / "0.png"))
    assert len(read(text)["all"]) == 3


def test_a_split_column_keeps_parts_apart(read: Read) -> None:
    text = (
        "path,label,split\nimages/0.png,a,train\nimages/1.png,b,Train\n"
        "images/2.png,b,val\nimages/3.png,a,test\n"
    )
    parts = read(text)
    assert {name: part.targets.tolist() for name, part in parts.items()} == {
        "train": [0, 1],
        "validation": [1],
        "test": [0],
    }
    assert [int(parts["test"][0][0][0, 0, 0])] == [180]


def test_validation_images_are_the_test_set_if_there_is_no_other(read: Read) -> None:
    text = "path,label,split\nimages/0.png,a,train\nimages/1.png,b,train\nimages/2.png,b,val\n"
    assert {name: len(part) for name, part in read(text).items()} == {"train": 2, "test": 1}


def test_an_unknown_part_is_named_with_its_row(read: Read) -> None:
    text = "path,label,split\nimages/0.png,a,train\nimages/1.png,b,holdout\n"
    with pytest.raises(DataError, match=r"`split` must say train, .*: row 3 of .* says 'holdout'"):
        read(text)


def test_a_split_without_training_rows_is_refused(read: Read) -> None:
    with pytest.raises(DataError, match="must have training images: got only test"):
        read("path,label,split\nimages/0.png,a,test\nimages/1.png,b,test\n")


def test_numbers_are_regression_targets(read: Read) -> None:
    text = "path,target\nimages/0.png,1.5\nimages/1.png,-2e-1\n"
    data = read(text, task="regression")["all"]
    assert data.classes == ()
    torch.testing.assert_close(data.targets, torch.tensor([1.5, -0.2]))


def test_several_numbers_are_several_columns(read: Read) -> None:
    text = "path,x,y\nimages/0.png,1,2\nimages/1.png,3,4\n"
    data = read(text, task="regression", target_column="x, y")["all"]
    torch.testing.assert_close(data.targets, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize("cell", ["tall", "", "nan", "inf"])
def test_what_is_no_number_is_named_with_its_row(read: Read, cell: str) -> None:
    text = f"path,target\nimages/0.png,1\nimages/1.png,{cell}\n"
    with pytest.raises(DataError, match=rf"must be finite numbers: row 3 of .* has '{cell}'"):
        read(text, task="regression")


def test_unknown_columns_are_answered_with_the_known_ones(read: Read) -> None:
    with pytest.raises(ArgumentError, match=r"`path_column` must be .* columns are where, label"):
        read(GOOD.replace("path", "where"))
    with pytest.raises(ArgumentError, match=r"`target_column` .* no label or class or target;"):
        read(GOOD.replace("label", "kind"))
    with pytest.raises(ArgumentError, match=r"`target_column` must .*got 'kind', but the columns"):
        read(GOOD, target_column="kind")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("images/1.png", "Every row must have at least 2 cells: row 3 of .* has 1"),
        (",dog", "Every row must name a file: row 3 of .* names none"),
        ("images/1.png,", "Every row must have a label: row 3 of .* has none"),
    ],
)
def test_a_row_that_lacks_something_is_named(read: Read, row: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(f"path,label\nimages/0.png,cat\n{row}\n")


def test_missing_files_are_counted_and_the_first_three_named(read: Read) -> None:
    rows = "".join(f"gone/{i}.png,dog\n" for i in range(5))
    message = (
        r"5 of 8 are missing: '.*gone.0\.png', '.*gone.1\.png', '.*gone.2\.png' and 2 more\. Paths"
    )
    with pytest.raises(DataError, match=message):
        read(GOOD + rows)


def test_missing_files_can_be_left_out(read: Read) -> None:
    data = read(GOOD + "gone.png,cat\n", on_bad_image="skip")["all"]
    assert len(data) == 3
    assert len(data.skipped) == 1
    assert data.skipped[0].endswith("gone.png' was left out: there is no such file.")


def test_only_missing_files_are_refused_even_when_skipping(read: Read) -> None:
    with pytest.raises(DataError, match="1 of 1 are missing"):
        read("path,label\ngone.png,cat\n", on_bad_image="skip")


def test_bad_images_follow_the_policy(read: Read, tmp_path: Path) -> None:
    nothing(tmp_path / "images" / "0.png")
    with pytest.raises(DataError, match=r"0\.png' cannot .* 1 of 3 images are bad"):
        read(GOOD)
    assert read(GOOD, on_bad_image="skip")["all"].targets.tolist() == [1, 0]


@pytest.mark.parametrize("text", ["", "path,label\n", "\n\n"])
def test_a_table_without_rows_is_refused(read: Read, text: str) -> None:
    with pytest.raises(DataError, match="must have a header and at least one row"):
        read(text)


def test_another_encoding_is_refused(read: Read) -> None:
    with pytest.raises(DataError, match=r"must be text in UTF-8: byte .* Save the table again"):
        read(GOOD.replace("cat", "Käse").encode("latin-1"))


def test_what_is_no_table_is_refused(read: Read) -> None:
    with pytest.raises(DataError, match=r"must be a CSV file: field larger than field limit"):
        read("path,label\n" + "x" * 200_000 + ",a\n")


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`path` must be a CSV file: .*none\.csv' cannot be read"):
        read_table(tmp_path / "none.csv")


def test_an_unknown_task_is_refused(read: Read) -> None:
    with unhooked(), pytest.raises(UnknownNameError, match=r"no task called 'regress'\. Did you"):
        read(GOOD, task="regress")


def test_names_in_any_script_are_classes(read: Read) -> None:
    assert read(GOOD.replace("cat", "猫"))["all"].classes == ("dog", "猫")
