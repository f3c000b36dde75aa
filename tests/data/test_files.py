"""Folders and tables of image files, and every way to lay one out wrongly."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image

from instaaug.data.files import read_folder, read_table
from instaaug.data.labeled import LabeledImages
from instaaug.errors import ArgumentError, DataError, UnknownNameError
from tests.support.picture_files import class_folders, nothing, plain
from tests.support.unhooked import unhooked

Read = Callable[..., dict[str, LabeledImages]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pets").mkdir()
    return tmp_path / "pets"


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def call(path: Path, **options: object) -> dict[str, LabeledImages]:
        return read_folder(path, cache_dir=tmp_path / "cache", **options)  # type: ignore[arg-type]

    return call


def files_of(data: LabeledImages) -> list[str]:
    return [Path(data.name(i)).name for i in range(len(data))]


def test_every_sub_folder_is_a_class(root: Path, read: Read) -> None:
    parts = read(class_folders(root, {"dog": 3, "cat": 2}))
    assert list(parts) == ["all"]
    data = parts["all"]
    assert data.classes == ("cat", "dog")
    assert data.targets.tolist() == [0, 0, 1, 1, 1]
    assert data.image_shape == (3, 32, 32)
    red = 0 if data.classes[int(data[0][1])] == "dog" else 20
    assert int(data[0][0][0, 0, 0]) == red
    assert data.fingerprint


def test_numbers_sort_as_numbers(root: Path, read: Read) -> None:
    data = read(class_folders(root, {"10": 12, "9": 1}))["all"]
    assert data.classes == ("9", "10")
    assert files_of(data) == ["0.png", *(f"{i}.png" for i in range(12))]


def test_classes_are_searched_deeply_and_other_files_passed_over(root: Path, read: Read) -> None:
    class_folders(root, {"a": 1, "b": 1})
    plain(root / "a" / "images" / "deep" / "x.JPEG")
    plain(root / "a" / ".hidden.png")
    plain(root / "a" / ".thumbnails" / "t.png")
    plain(root / "__MACOSX" / "x.png")
    plain(root / ".git" / "x.png")
    (root / "a" / "boxes.txt").write_text("1 2 3 4")
    (root / "a" / "folder.png").mkdir()
    data = read(root)["all"]
    assert files_of(data) == ["0.png", "x.JPEG", "0.png"]
    assert data.classes == ("a", "b")


def test_a_link_in_a_circle_does_not_hang(root: Path, read: Read) -> None:
    class_folders(root, {"a": 2, "b": 1})
    (root / "a" / "again").symlink_to(root / "a", target_is_directory=True)
    (root / "a" / "itself.png").symlink_to(root / "a" / "itself.png")
    with pytest.raises(DataError, match=r"itself\.png' cannot be read"):
        read(root)
    assert files_of(read(root, on_bad_image="skip")["all"]) == ["0.png", "1.png", "0.png"]


def test_linked_classes_are_followed(root: Path, read: Read, tmp_path: Path) -> None:
    class_folders(tmp_path / "elsewhere", {"a": 2})
    class_folders(root, {"b": 1})
    (root / "a").symlink_to(tmp_path / "elsewhere" / "a", target_is_directory=True)
    assert read(root)["all"].targets.tolist() == [0, 0, 1]


def test_a_dangling_link_is_a_bad_image(root: Path, read: Read) -> None:
    class_folders(root, {"a": 1, "b": 1})
    (root / "a" / "gone.png").symlink_to(root / "nowhere.png")
    with pytest.raises(DataError, match=r"gone\.png' cannot be read as an image: no such file"):
        read(root)


@pytest.mark.parametrize("name", ["val", "valid", "Validation", "test"])
def test_the_second_part_is_the_test_set(root: Path, read: Read, name: str) -> None:
    class_folders(root / "train", {"a": 3, "b": 2})
    class_folders(root / name, {"a": 1, "b": 1})
    parts = read(root)
    assert {key: len(part) for key, part in parts.items()} == {"train": 5, "test": 2}
    assert parts["test"].targets.tolist() == [0, 1]
    assert Path(parts["test"].name(0)).parts[-3:] == (name, "a", "0.png")


def test_three_parts_are_kept_apart(root: Path, read: Read) -> None:
    for name, count in {"train": 3, "val": 2, "test": 1}.items():
        class_folders(root / name, {"a": count, "b": count})
    parts = read(root)
    assert {key: len(part) for key, part in parts.items()} == {
        "train": 6,
        "validation": 4,
        "test": 2,
    }
    assert len({part.classes for part in parts.values()}) == 1


def test_a_training_part_alone_is_everything(root: Path, read: Read) -> None:
    class_folders(root / "train", {"a": 1, "b": 1})
    assert list(read(root)) == ["all"]


def test_a_train_may_be_a_class(root: Path, read: Read) -> None:
    class_folders(root, {"train": 1, "car": 1})
    assert read(root)["all"].classes == ("car", "train")


def test_a_class_may_be_absent_from_the_test_set(root: Path, read: Read) -> None:
    class_folders(root / "train", {"a": 1, "b": 1, "c": 1})
    class_folders(root / "test", {"a": 1, "c": 1})
    parts = read(root)
    assert parts["test"].classes == ("a", "b", "c")
    assert parts["test"].targets.tolist() == [0, 2]


def test_a_class_only_in_the_test_set_is_named(root: Path, read: Read) -> None:
    class_folders(root / "train", {"a": 1, "b": 1})
    class_folders(root / "test", {"a": 1, "unheard of": 1})
    with pytest.raises(DataError, match="Every class must have training images: 'unheard of' has"):
        read(root)


def test_a_test_part_without_training_part_is_refused(root: Path, read: Read) -> None:
    class_folders(root / "test", {"a": 1, "b": 1})
    with pytest.raises(DataError, match=r"pets' must have training images: got only test\. Add"):
        read(root)


def test_two_folders_for_one_part_are_refused(root: Path, read: Read) -> None:
    for name in ("train", "val", "valid"):
        class_folders(root / name, {"a": 1, "b": 1})
    with pytest.raises(DataError, match="must have one folder per part: got train, val, valid"):
        read(root)


def test_a_missing_folder_is_named(root: Path, read: Read) -> None:
    with pytest.raises(DataError, match=r"`path` must be a folder .*: there is no '.*dogs'"):
        read(root / "dogs")


def test_a_file_is_no_folder(root: Path, read: Read) -> None:
    with pytest.raises(DataError, match=r"`path` must be a folder of images: .*x\.png' is a file"):
        read(plain(root / "x.png"))


def test_an_empty_folder_is_told_the_layout(root: Path, read: Read) -> None:
    with pytest.raises(DataError, match=r"per class: got no folder at all\. Expected is"):
        read(root)


def test_images_without_class_folders_are_told_the_layout(root: Path, read: Read) -> None:
    plain(root / "x.png")
    plain(root / "y.jpg")
    with pytest.raises(DataError, match=r"got 2 images directly in it\. Expected is .*<class>"):
        read(root)


def test_one_class_is_not_enough(root: Path, read: Read) -> None:
    with pytest.raises(DataError, match=r"needs at least two classes: got 1 \('cat'\)"):
        read(class_folders(root, {"cat": 3}))


def test_an_empty_class_is_named(root: Path, read: Read) -> None:
    class_folders(root, {"a": 1, "b": 1, "void": 0})
    with pytest.raises(DataError, match=r"void' must hold images: got none\. Remove it, or leave"):
        read(root)


def test_several_empty_classes_are_counted(root: Path, read: Read) -> None:
    class_folders(root, {"a": 1, "b": 1, "void": 0, "waste": 0})
    with pytest.raises(DataError, match=r"void' must hold .* 2 class folders are empty\."):
        read(root)


def test_an_empty_class_can_be_left_out(root: Path, read: Read) -> None:
    data = read(class_folders(root, {"a": 1, "b": 1, "void": 0}), on_bad_image="skip")["all"]
    assert data.classes == ("a", "b")
    assert len(data.skipped) == 1
    assert "void' was left out: it has no image." in data.skipped[0]


def test_only_empty_classes_are_refused_even_when_skipping(root: Path, read: Read) -> None:
    with pytest.raises(DataError, match=r"pets' must hold images: got none\. Expected is one"):
        read(class_folders(root, {"a": 0, "b": 0}), on_bad_image="skip")


def test_bad_images_are_left_out_and_listed(root: Path, read: Read) -> None:
    class_folders(root, {"a": 2, "b": 2})
    nothing(root / "a" / "0.png")
    with pytest.raises(DataError, match=r"a/0\.png' cannot .* 1 of 4 images are bad"):
        read(root)
    data = read(root, on_bad_image="skip")["all"]
    assert files_of(data) == ["1.png", "0.png", "1.png"]
    assert data.targets.tolist() == [0, 1, 1]
    assert len(data.skipped) == 1


def test_a_class_of_bad_images_only_is_left_out(root: Path, read: Read) -> None:
    class_folders(root, {"a": 1, "b": 1, "c": 1})
    nothing(root / "b" / "0.png")
    data = read(root, on_bad_image="skip")["all"]
    assert data.classes == ("a", "c")
    assert data.targets.tolist() == [0, 1]
    assert data.skipped[-1] == "The class 'b' was left out: none of its images can be read."


def test_a_part_of_bad_images_only_is_refused(root: Path, read: Read) -> None:
    class_folders(root / "train", {"a": 1, "b": 1})
    class_folders(root / "test", {"a": 1})
    nothing(root / "test" / "a" / "0.png")
    with pytest.raises(DataError, match=r"Every part of .* none of test can be read\. The first"):
        read(root, on_bad_image="skip")


def test_what_was_skipped_is_told_once(root: Path, read: Read) -> None:
    class_folders(root / "train", {"a": 2, "b": 1})
    class_folders(root / "test", {"a": 2, "b": 1})
    nothing(root / "test" / "a" / "0.png")
    parts = read(root, on_bad_image="skip")
    assert len(parts["train"].skipped) == 1
    assert parts["test"].skipped == ()


@pytest.mark.parametrize(
    ("natural", "chosen"),
    [((28, 28), 32), ((100, 64), 64), ((500, 375), 224), ((1, 1), 32), ((150, 150), 160)],
)
def test_the_size_suits_the_images(
    root: Path, read: Read, natural: tuple[int, int], chosen: int
) -> None:
    data = read(class_folders(root, {"a": 2, "b": 2}, size=natural))["all"]
    assert data.image_shape == (3, chosen, chosen)


def test_gray_images_have_one_channel_unless_one_has_color(root: Path, read: Read) -> None:
    for name in ("a", "b"):
        (root / name).mkdir()
        Image.new("L", (32, 32), 9).save(root / name / "x.png")
    assert read(root)["all"].image_shape == (1, 32, 32)
    plain(root / "b" / "y.png")
    assert read(root)["all"].image_shape == (3, 32, 32)


def test_size_and_channels_can_be_chosen(root: Path, read: Read) -> None:
    data = read(class_folders(root, {"a": 1, "b": 1}), size=20, channels=1)["all"]
    assert data.image_shape == (1, 20, 20)


def test_only_bad_headers_give_the_first_error(root: Path, read: Read) -> None:
    class_folders(root, {"a": 1, "b": 1})
    for name in ("a", "b"):
        nothing(root / name / "0.png")
    with pytest.raises(DataError, match=r"a/0\.png' cannot be read as an image: it is empty"):
        read(root)


def test_bad_arguments_are_refused_at_the_door(root: Path, read: Read) -> None:
    class_folders(root, {"a": 1, "b": 1})
    with pytest.raises(ArgumentError, match="`size` must be at least 1 pixel: got 0"):
        read(root, size=0)
    with (
        unhooked(),
        pytest.raises(UnknownNameError, match="`on_bad_image` called 'ignore'"),
    ):
        read(root, on_bad_image="ignore")


def test_a_folder_that_cannot_be_listed_is_named(
    root: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    class_folders(root, {"a": 1, "b": 1})
    true_listing = Path.iterdir

    def listing(path: Path) -> Iterator[Path]:
        if path == root / "b":
            raise PermissionError(errno.EACCES, "Permission denied")
        return iter(list(true_listing(path)))

    monkeypatch.setattr(Path, "iterdir", listing)
    with pytest.raises(DataError, match=r"b' must be a folder that can be listed: Permission de"):
        read(root)


def test_the_fingerprint_follows_labels_and_pixels(root: Path, read: Read) -> None:
    class_folders(root, {"a": 2, "b": 2})
    first = read(root)["all"].fingerprint
    assert read(root)["all"].fingerprint == first
    plain(root / "a" / "0.png", (1, 2, 3))
    second = read(root)["all"].fingerprint
    (root / "a" / "1.png").rename(root / "b" / "2.png")
    assert len({first, second, read(root)["all"].fingerprint}) == 3


@pytest.fixture
def read_csv(tmp_path: Path) -> Read:
    for i in range(4):
        plain(tmp_path / "images" / f"{i}.png", (60 * i, 0, 0))

    def call(text: str | bytes, **options: object) -> dict[str, LabeledImages]:
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "table.csv").write_bytes(data)
        settings = {"cache_dir": tmp_path / "cache", **options}
        return read_table(tmp_path / "table.csv", **settings)  # type: ignore[arg-type]

    return call


GOOD = "path,label\nimages/0.png,cat\nimages/1.png,dog\nimages/2.png,cat\n"


def test_rows_are_images_with_labels(read_csv: Read) -> None:
    data = read_csv(GOOD)["all"]
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
def test_tables_are_written_in_many_ways(read_csv: Read, text: str) -> None:
    data = read_csv(text)["all"]
    assert data.classes == ("cat", "dog")
    assert data.targets.tolist() == [0, 1, 0]


def test_columns_can_be_named(read_csv: Read) -> None:
    text = "a,b,c\nx,images/0.png,cat\ny,images/1.png,dog\n"
    assert read_csv(text, path_column="b", target_column="C")["all"].classes == ("cat", "dog")


def test_absolute_paths_are_taken_as_they_are(read_csv: Read, tmp_path: Path) -> None:
    text = GOOD.replace("images/0.png", str(tmp_path / "images" / "0.png"))
    assert len(read_csv(text)["all"]) == 3


def test_a_split_column_keeps_parts_apart(read_csv: Read) -> None:
    text = (
        "path,label,split\nimages/0.png,a,train\nimages/1.png,b,Train\n"
        "images/2.png,b,val\nimages/3.png,a,test\n"
    )
    parts = read_csv(text)
    assert {name: part.targets.tolist() for name, part in parts.items()} == {
        "train": [0, 1],
        "validation": [1],
        "test": [0],
    }
    assert [int(parts["test"][0][0][0, 0, 0])] == [180]


def test_validation_images_are_the_test_set_if_there_is_no_other(read_csv: Read) -> None:
    text = "path,label,split\nimages/0.png,a,train\nimages/1.png,b,train\nimages/2.png,b,val\n"
    assert {name: len(part) for name, part in read_csv(text).items()} == {"train": 2, "test": 1}


def test_an_unknown_part_is_named_with_its_row(read_csv: Read) -> None:
    text = "path,label,split\nimages/0.png,a,train\nimages/1.png,b,holdout\n"
    with pytest.raises(DataError, match=r"`split` must say train, .*: row 3 of .* says 'holdout'"):
        read_csv(text)


def test_a_split_without_training_rows_is_refused(read_csv: Read) -> None:
    with pytest.raises(DataError, match="must have training images: got only test"):
        read_csv("path,label,split\nimages/0.png,a,test\nimages/1.png,b,test\n")


def test_numbers_are_regression_targets(read_csv: Read) -> None:
    text = "path,target\nimages/0.png,1.5\nimages/1.png,-2e-1\n"
    data = read_csv(text, task="regression")["all"]
    assert data.classes == ()
    torch.testing.assert_close(data.targets, torch.tensor([1.5, -0.2]))


def test_several_numbers_are_several_columns(read_csv: Read) -> None:
    text = "path,x,y\nimages/0.png,1,2\nimages/1.png,3,4\n"
    data = read_csv(text, task="regression", target_column="x, y")["all"]
    torch.testing.assert_close(data.targets, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize("cell", ["tall", "", "nan", "inf"])
def test_what_is_no_number_is_named_with_its_row(read_csv: Read, cell: str) -> None:
    text = f"path,target\nimages/0.png,1\nimages/1.png,{cell}\n"
    with pytest.raises(DataError, match=rf"must be finite numbers: row 3 of .* has '{cell}'"):
        read_csv(text, task="regression")


def test_unknown_columns_are_answered_with_the_known_ones(read_csv: Read) -> None:
    with pytest.raises(ArgumentError, match=r"`path_column` must be .* columns are where, label"):
        read_csv(GOOD.replace("path", "where"))
    with pytest.raises(ArgumentError, match=r"`target_column` .* no label or class or target;"):
        read_csv(GOOD.replace("label", "kind"))
    with pytest.raises(ArgumentError, match=r"`target_column` must .*got 'kind', but the columns"):
        read_csv(GOOD, target_column="kind")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("images/1.png", "Every row must have at least 2 cells: row 3 of .* has 1"),
        (",dog", "Every row must name a file: row 3 of .* names none"),
        ("images/1.png,", "Every row must have a label: row 3 of .* has none"),
    ],
)
def test_a_row_that_lacks_something_is_named(read_csv: Read, row: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_csv(f"path,label\nimages/0.png,cat\n{row}\n")


def test_missing_files_are_counted_and_the_first_three_named(read_csv: Read) -> None:
    rows = "".join(f"gone/{i}.png,dog\n" for i in range(5))
    message = (
        r"5 of 8 are missing: '.*gone.0\.png', '.*gone.1\.png', '.*gone.2\.png' and 2 more\. Paths"
    )
    with pytest.raises(DataError, match=message):
        read_csv(GOOD + rows)


def test_missing_files_can_be_left_out(read_csv: Read) -> None:
    data = read_csv(GOOD + "gone.png,cat\n", on_bad_image="skip")["all"]
    assert len(data) == 3
    assert len(data.skipped) == 1
    assert data.skipped[0].endswith("gone.png' was left out: there is no such file.")


def test_only_missing_files_are_refused_even_when_skipping(read_csv: Read) -> None:
    with pytest.raises(DataError, match="1 of 1 are missing"):
        read_csv("path,label\ngone.png,cat\n", on_bad_image="skip")


def test_bad_images_follow_the_policy(read_csv: Read, tmp_path: Path) -> None:
    nothing(tmp_path / "images" / "0.png")
    with pytest.raises(DataError, match=r"0\.png' cannot .* 1 of 3 images are bad"):
        read_csv(GOOD)
    assert read_csv(GOOD, on_bad_image="skip")["all"].targets.tolist() == [1, 0]


@pytest.mark.parametrize("text", ["", "path,label\n", "\n\n"])
def test_a_table_without_rows_is_refused(read_csv: Read, text: str) -> None:
    with pytest.raises(DataError, match="must have a header and at least one row"):
        read_csv(text)


def test_another_encoding_is_refused(read_csv: Read) -> None:
    with pytest.raises(DataError, match=r"must be text in UTF-8: byte .* Save the table again"):
        read_csv(GOOD.replace("cat", "Käse").encode("latin-1"))


def test_what_is_no_table_is_refused(read_csv: Read) -> None:
    with pytest.raises(DataError, match=r"must be a CSV file: field larger than field limit"):
        read_csv("path,label\n" + "x" * 200_000 + ",a\n")


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`path` must be a CSV file: .*none\.csv' cannot be read"):
        read_table(tmp_path / "none.csv")


def test_an_unknown_task_is_refused(read_csv: Read) -> None:
    with unhooked(), pytest.raises(UnknownNameError, match=r"no task called 'regress'\. Did you"):
        read_csv(GOOD, task="regress")


def test_names_in_any_script_are_classes(read_csv: Read) -> None:
    assert read_csv(GOOD.replace("cat", "猫"))["all"].classes == ("dog", "猫")


def test_names_may_lack_their_endings(read_csv: Read) -> None:
    full = read_csv("path,label\nimages/0.png,cat\nimages/1.png,dog\n")["all"]
    data = read_csv("id,label\nimages/0,cat\nimages/1,dog\n")["all"]
    assert (data.images == full.images).all()
    assert torch.equal(data.targets, full.targets)


def test_a_name_of_several_images_is_refused(read_csv: Read, tmp_path: Path) -> None:
    (tmp_path / "images" / "0.jpg").write_bytes(b"another")
    words = r"of one image: row 2 of .* has '0', and there are 0\.jpg, 0\.png\. Add the ending"
    with pytest.raises(DataError, match=words):
        read_csv("id,label\nimages/0,cat\nimages/1,dog\n", on_bad_image="skip")


def test_a_name_without_any_image_is_missing(read_csv: Read) -> None:
    with pytest.raises(DataError, match=r"1 of 2 are missing: '.*nobody'"):
        read_csv("id,label\nimages/0,cat\nelsewhere/nobody,dog\n")
