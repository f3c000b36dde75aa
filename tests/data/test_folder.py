"""Folders: one class per sub-folder, parts, and every way to lay one out wrongly."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from instaaug.data.folder import read_folder
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
