"""The ``instaaug`` command and its sub-commands."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer
from rich.console import Console

from instaaug.cli.arguments import Images, OnBadImage, Predictions
from instaaug.cli.settings import SettingsCommand, with_settings
from instaaug.cli.tta_app import tta
from instaaug.errors import InstaAugError, InstaAugWarning
from instaaug.runs.settings import TrainSettings

__all__ = ["app", "main"]

Kind = Literal["transforms", "models", "data", "methods"]
Run = Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)]
Config = Annotated[
    Optional[Path],  # noqa: UP045  # typer reads it
    typer.Option(help="A YAML file with settings; options on the command line win."),
]
Samples = Annotated[
    Optional[int],  # noqa: UP045  # typer reads it
    typer.Option(min=0, help="Samples per image; 0 for none.", show_default="as in training"),
]

app = typer.Typer(
    help="Learn, for every single input, which augmentations are safe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(tta, name="tta")


@app.callback()
def root() -> None:
    """Learn, for every single input, which augmentations are safe."""


@app.command(cls=SettingsCommand)
@with_settings(TrainSettings)
def train(
    *,
    given: dict[str, Any],
    config: Config = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="The run's folder.", show_default="runs/DATA-METHOD"),
    ] = None,
) -> None:
    """Train a model with learned augmentation; without DATA, on the built-in sprites."""
    from instaaug.cli.train import run_train

    run_train(given, config=config, out=out)


@app.command()
def resume(run: Run) -> None:
    """Go on with a run that was interrupted, as if nothing had happened."""
    from instaaug.cli.train import run_resume

    run_resume(run)


@app.command(cls=SettingsCommand)
@with_settings(TrainSettings)
def compare(
    *,
    given: dict[str, Any],
    methods: Annotated[
        str,
        typer.Option(
            help="Names from `instaaug list methods` with commas; a YAML list of names and "
            "settings, such as [none, {method: {name: random, sizes: [0.5, 1.0]}}]; or a YAML "
            "file that maps labels to settings."
        ),
    ] = "none,random,augerino,adaaug,mixup,cutmix,instaaug",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method.")] = 3,
    budget: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Training time of a run without augmentation, such as 10m; it decides how many "
            "epochs all have.",
            show_default="as many epochs as set",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    reference: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="What others are compared with.", show_default="the best baseline"),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Begin failed runs again.")] = False,
    config: Config = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder of all runs.", show_default="runs/DATA-comparison"),
    ] = None,
) -> None:
    """Compare methods with the same model, images, seeds and epochs; ends with a leaderboard."""
    from instaaug.cli.compare import run_compare

    run_compare(
        given, methods=methods, seeds=seeds, budget=budget, jobs=jobs, reference=reference,
        retry=retry, config=config, out=out,
    )  # fmt: skip


@app.command(cls=SettingsCommand)
@with_settings(TrainSettings)
def tune(
    *,
    given: dict[str, Any],
    trials: Annotated[int, typer.Option(min=1, help="Settings to try.")] = 20,
    budget: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Stop after this time, such as 30m.", show_default="no limit"),
    ] = None,
    config: Config = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder of the search.", show_default="runs/DATA-tuning"),
    ] = None,
) -> None:
    """Find InstaAug's entropy band and φ's learning rate on validation images."""
    from instaaug.cli.tune import run_tune

    run_tune(given, config=config, out=out, trials=trials, budget=budget)


@app.command()
def evaluate(
    run: Run,
    data: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="Other images with the same classes.", show_default="the test images"),
    ] = None,
    samples: Samples = None,
    json: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--json", help="Write the scores to this file as well."),
    ] = None,
) -> None:
    """Score a trained model with and without test-time augmentation."""
    from instaaug.cli.predict import run_evaluate

    run_evaluate(run, data=data, n_samples=samples, json_file=json)


@app.command()
def predict(
    run: Run,
    images: Images,
    out: Predictions = None,
    samples: Samples = None,
    top: Annotated[int, typer.Option(min=1, help="Most probable classes to list.")] = 1,
    on_bad_image: OnBadImage = "error",
) -> None:
    """Predict images with a trained model and its learned test-time augmentation."""
    from instaaug.cli.predict import run_predict

    run_predict(
        run, images, out=out, n_samples=samples, n_top=top, skip_bad=on_bad_image == "skip"
    )


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of finished runs, of `train` or `tta fit`.", show_default=False
        ),
    ],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Folder for the page and its figures.",
            show_default="RUN/report, or report for several runs",
        ),
    ] = None,
    inputs: Annotated[int, typer.Option(min=1, max=5000, help="Most test images to show.")] = 200,
    views: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1, max=500, help="Views of each image to ask about.", show_default="as in the test"
        ),
    ] = None,
) -> None:
    """Write a page to explore what was learned, input by input; several runs side by side."""
    from instaaug.cli.report import run_report

    run_report(runs, out=out, n_inputs=inputs, n_views=views)


@app.command()
def inspect(
    run: Run,
    images: Images,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="A .png, .svg or .jpg file.", show_default="RUN/report/inspect.png"),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Samples of each image to draw.")] = 8,
) -> None:
    """Draw images with their learned distributions and samples of them."""
    from instaaug.cli.report import run_inspect

    run_inspect(run, images, out=out, n_samples=samples)


@app.command()
def bench(
    questions: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            help="startup, color, warp, at_test_time, training_step.", show_default="all"
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Turns of each contender.")] = 20,
    json: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--json", help="Write what was measured to this file as well."),
    ] = None,
) -> None:
    """Measure what learning costs on this machine, against its budgets (20 minutes)."""
    from instaaug.cli.bench import run_bench

    run_bench(questions or (), rounds=rounds, json_file=json)


@app.command("list")
def list_things(
    kind: Annotated[
        Optional[Kind],  # noqa: UP045
        typer.Argument(help="What to list.", show_default="everything"),
    ] = None,
) -> None:
    """List transforms, models, data sets and methods, with a sentence on each."""
    from instaaug.cli.listing import run_list

    run_list(kind)


@app.command()
def show(
    config: Annotated[
        Path, typer.Argument(help="A YAML file, or the folder of a run.", show_default=False)
    ],
) -> None:
    """Show every setting of a configuration, and which differ from the defaults."""
    from instaaug.cli.listing import run_show

    run_show(config)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path(
        "runs/demo"
    ),
    seed: Annotated[int, typer.Option(help="Decides data, weights and draws.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each method.")] = 1500,
    sprites: Annotated[
        Path | None,
        typer.Option(help="The original images.npz (Mario and Iggy) instead of our sprites."),
    ] = None,
) -> None:
    """Learn how far each sprite may be turned, beside one range for all; draw Figure 5."""
    from instaaug.cli.demo import run_demo

    run_demo(out, seed=seed, n_steps=steps, sprites=sprites)


def main() -> None:
    """Run the command line; an error of ours is a sentence, not a traceback."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    warnings.showwarning = _showing(console, warnings.showwarning)
    try:
        app()
    except (InstaAugError, OSError) as error:
        console.print("error:", style="bold red", end=" ")
        console.print(_sentence(error), markup=False)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("lightning", "yaml", "PIL"):
            raise
        console.print("error:", style="bold red", end=" ")
        console.print(
            f"This command needs {error.name}, which is not installed. "
            "Run `pip install 'instaaug[train]'`.",
            markup=False,
        )
        sys.exit(2)


def _showing(console: Console, others: Callable[..., None]) -> Callable[..., None]:
    """A warning of ours is a sentence as well, without the place in the code."""

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, InstaAugWarning):
            others(message, category, *rest)
            return
        console.print("warning:", style="bold yellow", end=" ")
        console.print(str(message), markup=False)

    return show


def _sentence(error: Exception) -> str:
    """What went wrong; in the system's words if they are not ours."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{str(error.filename)!r} cannot be used: {error.strerror}."
    return str(error)
