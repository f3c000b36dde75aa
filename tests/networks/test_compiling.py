"""Compiled in training, the same in all else; and a plain way on where nothing can be compiled."""

import copy
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import InstaAugWarning
from instaaug.networks.compiling import compile_training
from tests.support.models import images, small_classifier

ROOT = Path(__file__).parents[2]
NO_COMPILER = """
import warnings
import torch
from instaaug.networks import SmallCNN
from instaaug.networks.compiling import compile_training

model, x = SmallCNN(3, channels=2), torch.rand(2, 3, 16, 16)
expected = model(x)
compile_training(model)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert torch.equal(model(x), expected)
print(*(w.message for w in caught if w.category.__name__ == "InstaAugWarning"), sep="\\n")
"""


class Own(nn.Module):
    """A module as people write them."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_classifier()

    @override
    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 99:
            raise ValueError("Too many images for me.")
        return 2 * self.inner(x)


class Counting:
    """A backend that compiles nothing and counts how often it was asked to."""

    def __init__(self) -> None:
        self.n_graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        self.n_graphs += 1
        return graph.forward


class Failing:
    """A backend that cannot."""

    def __init__(self, words: str = "no C++ compiler\nand more") -> None:
        self.words, self.n_calls = words, 0

    def __call__(self, *_: object) -> NoReturn:
        self.n_calls += 1
        raise OSError(self.words)


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


# What stays the same


@pytest.mark.parametrize("make", [Own, small_classifier])
def test_a_compiled_module_computes_and_learns_the_same(make: Callable[[], nn.Module]) -> None:
    plain = make()
    model = copy.deepcopy(plain)
    compile_training(model, backend="aot_eager")
    for batch in (4, 3):
        x = images(batch)
        outputs = [m(x) for m in (plain, model)]
        torch.testing.assert_close(outputs[1], outputs[0])
        for output in outputs:
            output.square().sum().backward()
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad)
    torch.testing.assert_close(model.state_dict(), plain.state_dict())  # BatchNorm's as well


def test_keys_copies_and_pickles_know_nothing_of_it() -> None:
    model, backend = Own(), Counting()
    keys = list(model.state_dict())
    compile_training(model, backend=backend)
    model(images())
    assert list(model.state_dict()) == keys
    assert [name for name, _ in model.named_modules()][:2] == ["", "inner"]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        before = backend.n_graphs
        twin(images(3))
        assert backend.n_graphs == before


def test_hooks_are_heard() -> None:
    model, seen = Own(), []
    model.register_forward_hook(lambda *_: seen.append("outer"))
    compile_training(model, backend="eager")
    model(images())
    assert seen == ["outer"]


# What is compiled, and how often


@pytest.mark.parametrize("make", [Own, small_classifier])
def test_training_is_compiled_and_evaluation_is_not(make: Callable[[], nn.Module]) -> None:
    model, backend = make(), Counting()
    compile_training(model, backend=backend)
    model.eval()(images())
    assert backend.n_graphs == 0
    model.train()(images())
    assert backend.n_graphs == 1


def test_a_smaller_last_batch_is_compiled_once_for_all_sizes() -> None:
    model, backend = Own(), Counting()
    compile_training(model, backend=backend)
    counts = []
    for batch in (8, 8, 5, 8, 5, 3):
        model(images(batch))
        counts.append(backend.n_graphs)
    assert counts == [1, 1, 2, 2, 2, 2]


def test_many_modules_of_one_process_are_all_compiled() -> None:
    backend = Counting()
    for n in range(1, 12):  # torch stops after 8 of one code
        model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(n)))
        compile_training(model, backend=backend)
        model(torch.ones(3, 2))
        assert backend.n_graphs == n


def test_within_something_compiled_it_is_a_part_like_any_other() -> None:
    model, inner, outer = Own(), Counting(), Counting()
    compile_training(model, backend=inner)
    whole = torch.compile(lambda x: model(x) + 1, backend=outer, fullgraph=True)
    twin = copy.deepcopy(model)
    torch.testing.assert_close(whole(images()), twin(images()) + 1)
    assert (inner.n_graphs, outer.n_graphs) == (0, 1)


# Where it fails


def test_a_failure_is_one_sentence_and_all_goes_on_without() -> None:
    model, backend = Own(), Failing()
    plain = copy.deepcopy(model)
    compile_training(model, what="the teacher", backend=backend)
    words = r"^The teacher could not be compiled and runs without: OSError: no C\+\+ compiler$"
    with pytest.warns(InstaAugWarning, match=words) as caught:
        first = model(images())
    assert len(caught) == 1
    assert torch.equal(first, plain(images()))
    assert torch.equal(model(images(3)), plain(images(3)))
    torch.testing.assert_close(model.state_dict(), plain.state_dict())
    assert backend.n_calls == 1


def test_a_torch_that_cannot_compile_at_all_is_no_reason_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("torch.compile is not supported on this Python")

    monkeypatch.setattr(torch, "compile", refuse)
    model = Own()
    compile_training(model)
    with pytest.warns(InstaAugWarning, match="RuntimeError: torch.compile is not supported on"):
        assert model(images()).shape == (4, 3)


@pytest.mark.parametrize(("words", "end"), [("", "OSError$"), ("x" * 500, "OSError: x{110}…$")])
def test_the_reason_is_short(words: str, end: str) -> None:
    model = Own()
    compile_training(model, backend=Failing(words))
    with pytest.warns(InstaAugWarning, match=f"runs without: {end}"):
        model(images())


@pytest.mark.parametrize(
    ("x", "kind", "words"),
    [
        (images(channels=2), RuntimeError, "expected input.* to have 3 channels"),
        (images(100), ValueError, r"Too many images for me\."),
    ],
    ids=["shape", "own"],
)
def test_an_error_of_the_module_is_raised_as_without(
    x: Tensor, kind: type[Exception], words: str
) -> None:
    model = Own()
    compile_training(model, backend="eager")
    with pytest.raises(kind, match=words) as caught:
        model(x)
    assert type(caught.value) is kind  # none of torch's wrappers
    assert model(images()).shape == (4, 3)  # and no warning: the compiler was not to blame


# With a real compiler, and without one


@pytest.mark.slow
def test_a_real_compiler_agrees() -> None:
    model = small_classifier()
    plain = copy.deepcopy(model)
    compile_training(model)
    x = images()
    with warnings.catch_warnings():
        warnings.simplefilter("error", InstaAugWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        torch.testing.assert_close(model(x), plain(x))


@pytest.mark.slow
def test_without_a_compiler_training_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", NO_COMPILER],
        cwd=ROOT,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "CXX": "/nonexistent",
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The model could not be compiled and runs without: Invalid")
    assert done.stdout.count("\n") == 1
