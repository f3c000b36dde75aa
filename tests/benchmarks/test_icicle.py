"""Pictures of times are to scale, and no word leaves its block."""

import json
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.icicle import COLORS, MERGED, SLIVER, Block, Panel, draw, lightness, main, merged
from benchmarks.where_time_goes import PHASES

matplotlib = pytest.importorskip("matplotlib")


def step(scale: float) -> Block:
    """A step of 200 ms plus 100 ms times the scale, of which color and sampling are slivers."""
    phi = Block("φ forward", 60 * scale, [Block("convolution", 50 * scale), Block("add", 1.0)])
    back = Block("backward of φ", 40 * scale, [Block("convolution_backward", 30 * scale)])
    small = [Block("sampling", 0.25), Block("color", 0.25)]
    model = Block("model forward", 199.5, [Block("batch_norm", 150.0), Block("relu", 0.3)])
    return Block("step", 200 + 100 * scale, [phi, *small, back, model])


def panels() -> tuple[Panel, Panel]:
    return Panel("before", step(1.0), "(all)"), Panel("after", step(0.5), "(all)")


def drawing() -> Any:
    return draw(*panels(), title="What one sees", subject="Toys.")


def test_the_same_names_are_one_block_at_every_depth() -> None:
    twice = [Block("conv", 4.0, [Block("copy", 2.0)]), Block("conv", 3.0, [Block("copy", 2.5)])]
    assert merged(twice, least=1.0) == [Block("conv", 7.0, [Block("copy", 4.5)])]


def test_slivers_are_one_block_and_no_time_is_lost() -> None:
    blocks = [Block("a", 5.0), Block("b", 0.5), Block(MERGED, 0.25), Block("c", 0.25)]
    assert merged(blocks, least=1.0) == [Block("a", 5.0), Block(MERGED, 1.0)]


def test_merging_again_changes_nothing() -> None:
    once = merged(step(1.0).children, least=1.0)
    assert merged(once, least=1.0) == once


def test_blocks_survive_a_file() -> None:
    assert Block.from_json(json.loads(json.dumps(step(1.0).to_json()))) == step(1.0)


def test_widths_are_times_on_one_scale() -> None:
    (axes,) = drawing().axes
    assert axes.get_xlim() == (0, 300)
    widths = sorted(patch.get_width() for patch in axes.patches)
    phases = [60, 40, 199.5, 0.5, 30, 20, 199.5, 0.5]  # the slivers are 0.5 ms together
    operators = [50, 1.0, 30, 150, 0.3, 25, 1.0, 15, 150, 0.3]
    assert widths == pytest.approx(sorted([300, 250, *phases, *operators]))


def test_no_label_leaves_its_block() -> None:
    picture = drawing()
    (axes,) = picture.axes
    boxes = [patch.get_window_extent() for patch in axes.patches]
    texts = [text for text in axes.texts if "saved" not in text.get_text()]
    assert len(texts) >= 10
    for text in texts:
        extent = text.get_window_extent()
        holders = [
            box for box in boxes
            if box.x0 <= extent.x0 and extent.x1 <= box.x1
            and box.y0 <= extent.y0 and extent.y1 <= box.y1
        ]  # fmt: skip
        assert len(holders) == 1, text.get_text()


def test_the_words_at_the_margin_stay_within_the_picture() -> None:
    picture = drawing()
    for text in picture.texts:
        extent = text.get_window_extent()
        assert extent.x0 >= 0
        assert extent.x1 <= picture.bbox.x1
        assert extent.y0 >= 0
        assert extent.y1 <= picture.bbox.y1


def test_what_was_saved_is_said_if_anything_was() -> None:
    before, after = panels()
    words = [text.get_text() for text in drawing().axes[0].texts]
    assert "50 ms saved" in words
    (axes,) = draw(after, before, title="Slower", subject="Toys.").axes
    assert not any("saved" in text.get_text() for text in axes.texts)


def test_the_key_says_the_times_of_what_is_drawn() -> None:
    words = [text.get_text() for text in drawing().texts]
    assert "φ forward:  60 → 30 ms" in words
    assert "phases under 0.4%:  0.5 → 0.5 ms" in words
    assert not any(word.startswith("color") for word in words)


def test_a_phase_that_shrinks_to_a_sliver_keeps_its_name() -> None:
    before, after = panels()
    after.step.children[0].ms = SLIVER * 300 / 2
    words = [t.get_text() for t in draw(before, after, title="Less", subject="Toys.").texts]
    assert "φ forward:  60 → 0.6 ms" in words


def test_every_phase_has_a_color_in_the_order_of_the_tables() -> None:
    assert tuple(COLORS) == (*PHASES, MERGED)


def test_colors_differ_in_gray() -> None:
    for one, other in combinations(COLORS.values(), 2):
        assert abs(lightness(one) - lightness(other)) > 0.02


@pytest.mark.parametrize(
    "absent",
    [(), ("color", "backward of warp and color"), ("color",), ("warp",)],
    ids=["all", "crop", "rotation", "color"],
)
def test_neighbors_are_far_apart_in_gray(absent: tuple[str, ...]) -> None:
    drawn = [lightness(color) for name, color in COLORS.items() if name not in absent]
    assert min(abs(a - b) for a, b in pairwise(drawn[:-1])) > 0.14


@pytest.mark.parametrize("is_published", [False, True])
@pytest.mark.parametrize("enlarged", [False, True])
def test_files_become_a_small_picture(
    tmp_path: Path, *, enlarged: bool, is_published: bool
) -> None:
    paths = []
    for panel in panels():
        case = {"tree": panel.step.to_json(), "plain_ms": 100.0}
        findings = {"label": panel.label, "models": {"m": {"crop": case}}}
        paths.append(tmp_path / f"{panel.label}.json")
        paths[-1].write_text(json.dumps({"findings": findings} if is_published else findings))
    out = tmp_path / "out.png"
    main(paths[0], paths[1], out, model="m", transform="crop", enlarged=enlarged)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size < 300_000
