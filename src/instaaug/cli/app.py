"""The ``instaaug`` command and its sub-commands."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer
from rich.console import Console

from instaaug.cli.settings import with_settings
from instaaug.errors import InstaAugError, InstaAugWarning
from instaaug.experiments.config import TrainConfig
from instaaug.experiments.frozen_config import FrozenConfig

__all__ = ["app", "main"]

Kind = Literal["transforms", "models", "data", "methods"]
Run = Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)]
Fit = Annotated[Path, typer.Argument(help="The folder of `tta fit`.", show_default=False)]
Samples = Annotated[
    Optional[int],  # noqa: UP045  # typer reads it
    typer.Option(min=0, help="Samples per image; 0 for none.", show_default="as in training"),
]

OnBadImage = Annotated[
    Literal["error", "skip"],
    typer.Option(help="Stop at a file that cannot be read, or list it without a prediction."),
]
Images = Annotated[
    list[Path], typer.Argument(help="Image files, or folders of them.", show_default=False)
]
Predictions = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help="A .csv or .jsonl file.", show_default="CSV to the terminal"),
]

app = typer.Typer(
    help="Learn, for every single input, which augmentations are safe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
tta = typer.Typer(no_args_is_help=True)
app.add_typer(tta, name="tta")


@app.callback()
def root() -> None:
    """Learn, for every single input, which augmentations are safe."""


@app.command()
@with_settings(TrainConfig)
def train(
    *,
    given: dict[str, Any],
    config: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="A YAML file with settings; options on the command line win."),
    ] = None,
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


@tta.callback()
def frozen() -> None:
    """Learn which views of an image to average, for a model that stays as it is."""


@tta.command("fit")
@with_settings(FrozenConfig, ("model", "data"))
def tta_fit(
    *,
    given: dict[str, Any],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="The fit's folder; an interrupted fit goes on there.",
            show_default="runs/DATA-tta",
        ),
    ] = None,
) -> None:
    """Learn which views of DATA help MODEL; its outputs are DATA's classes, sorted by name."""
    from instaaug.cli.tta import run_fit

    run_fit(given, out=out)


@tta.command("eval")
def tta_eval(
    run: Fit,
    data: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="Other images with the same classes.", show_default="held-out images"),
    ] = None,
    samples: Annotated[str, typer.Option(help="Numbers of views.")] = "1,4,10",
    baselines: Annotated[
        str,
        typer.Option(
            help="all, none, or some of image, center, flips, five_crop, ten_crop, random, grid, "
            "image_and_grid, auto_augment, rand_augment."
        ),
    ] = "all",
    certainty: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Stop at this probability of the top class; several with commas."),
    ] = None,
    max_views: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Views per image on average over 64; several with commas."),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Fit a temperature for every row on the images of the fit, which asks the model "
            "as often again.",
        ),
    ] = False,
) -> None:
    """Score a fit beside other ways to average views, with intervals and a paired test."""
    from instaaug.cli.tta import run_eval

    run_eval(
        run,
        data=data,
        samples=samples,
        baselines=baselines,
        certainty=certainty,
        max_views=max_views,
        calibrate=calibrate,
    )


@tta.command("predict")
def tta_predict(
    run: Fit,
    images: Images,
    out: Predictions = None,
    samples: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1, help="Views per image, at most.", show_default="the most it was fitted for"
        ),
    ] = None,
    certainty: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Stop at this probability of the top class; adds the column views."),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", "--top-k", min=1, help="Most probable classes to list.")
    ] = 1,
    on_bad_image: OnBadImage = "error",
) -> None:
    """Predict images with a frozen model and the views that were fitted for it."""
    from instaaug.cli.tta import run_predict

    run_predict(
        run,
        images,
        out=out,
        n_views=samples,
        certainty=certainty,
        n_top=top,
        skip_bad=on_bad_image == "skip",
    )


@tta.command("export")
def tta_export(
    run: Fit,
    file: Annotated[
        Path,
        typer.Argument(
            help="A .onnx or .pt2 file for φ, a .json file for the best views on average.",
            show_default=False,
        ),
    ],
) -> None:
    """Write φ, or the same few views for all images, for other programs."""
    from instaaug.cli.tta import run_export

    run_export(run, file)


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
