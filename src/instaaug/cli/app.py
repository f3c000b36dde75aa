"""The ``instaaug`` command and its sub-commands."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer
from rich.console import Console

from instaaug import __version__
from instaaug.cli.settings import SettingsCommand, with_settings
from instaaug.cli.wording import name_options
from instaaug.errors import InstaAugError, InstaAugWarning
from instaaug.runs.settings import EvaluateSettings, TrainSettings, TransferSettings, TtaSettings

__all__ = ["app", "main"]

Kind = Literal["transforms", "models", "data", "methods"]
RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)]
OnBadImage = Annotated[
    Literal["error", "skip"],
    typer.Option(
        "--on_bad_image",
        help="Stop at a file that cannot be read, or list it without a prediction.",
    ),
]
Images = Annotated[
    list[Path], typer.Argument(help="Image files, or folders of them.", show_default=False)
]
Predictions = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help="A .csv or .jsonl file.", show_default="CSV to the terminal"),
]
Config = Annotated[
    Optional[Path],  # noqa: UP045  # typer reads it
    typer.Option(help="A YAML file with settings; options on the command line win."),
]
Views = Annotated[
    Optional[int],  # noqa: UP045  # typer reads it
    typer.Option(
        min=0, help="Views per image, at most; 0 for the image alone.",
        show_default="what the run was made for",
    ),
]  # fmt: skip
Certainty = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(help="Stop at this probability of the top class; adds the column views."),
]

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the run in this folder, and nothing else.")
]

app = typer.Typer(
    help="Learn, for every single input, which augmentations are safe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
tta = typer.Typer(no_args_is_help=True)
app.add_typer(tta, name="tta")


def _print_version(asked: bool) -> bool:
    if asked:
        print(f"instaaug {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
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
    overwrite: Overwrite = False,
    verdict: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Then train what is free, for at most this time, such as 30m, and say whether "
            "learned augmentation pays.",
            show_default="no verdict",
        ),
    ] = None,
) -> None:
    """Train a model with learned augmentation; without DATA, on the built-in sprites."""
    from instaaug.cli.train import run_train

    run_train(given, config=config, out=out, overwrite=overwrite, verdict=verdict)


@tta.callback()
def tta_root() -> None:
    """Learn which views of an image to average for a trained model, which is not changed."""


@tta.command("fit", cls=SettingsCommand)
@with_settings(TtaSettings, ("model", "data"))
def tta_fit(
    *,
    given: dict[str, Any],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="The run's folder; an interrupted fit goes on there.",
            show_default="runs/DATA-tta",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Learn which views of DATA help MODEL; its outputs are DATA's classes, sorted by name."""
    from instaaug.cli.train import run_fit

    run_fit(given, out=out, overwrite=overwrite)


@app.command(cls=SettingsCommand)
@with_settings(TransferSettings)
def transfer(
    *,
    given: dict[str, Any],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="The run's folder; an interrupted run goes on there.",
            show_default="runs/DATA-transfer",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Learn to tell the classes of DATA apart on a frozen backbone, in minutes on a CPU."""
    from instaaug.cli.transfer import run_transfer

    run_transfer(given, out=out, overwrite=overwrite)


@app.command()
def resume(run: RunFolder) -> None:
    """Continue an interrupted run; it ends with the numbers it would have had."""
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
    tune: Annotated[
        int,
        typer.Option(
            min=0,
            help="Trials with which each method first chooses its settings on validation images.",
            show_default="none",
        ),
    ] = 0,
    timing: Annotated[
        bool, typer.Option(help="Time steps of all methods first, in turns.")
    ] = True,
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
        retry=retry, trials=tune, timing=timing, config=config, out=out,
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
    """Find the settings of a learned or random method on validation images."""
    from instaaug.cli.tune import run_tune

    run_tune(given, config=config, out=out, trials=trials, budget=budget)


@app.command()
def verdict(
    run: RunFolder,
    budget: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Most time for the baselines, such as 30m.", show_default="no limit"),
    ] = None,
) -> None:
    """Say whether what a run has learned beats no augmentation and random ranges."""
    from instaaug.cli.verdict import run_verdict

    run_verdict(run, budget=budget)


@app.command(cls=SettingsCommand)
@with_settings(EvaluateSettings, ())
def evaluate(
    *,
    given: dict[str, Any],
    run: RunFolder,
    data: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="Other images with the same classes.", show_default="the test images"),
    ] = None,
    views: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Views per image; several numbers with commas for a frozen model.",
            show_default="as in training; 1,4,10 for a frozen model",
        ),
    ] = None,
    baselines: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="For a frozen model: all, none, or some of image, center, flips, five_crop, "
            "ten_crop, random, grid, image_and_grid, crops_and_mirror, most_certain, "
            "auto_augment, fast_autoaugment, rand_augment, trivial_augment.",
            show_default="all",
        ),
    ] = None,
    certainty: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="For a frozen model: stop at this probability of the top class; several with "
            "commas."
        ),
    ] = None,
    mean_views: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--mean_views",
            help="For a frozen model: views per image on average over 64; several with commas.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="For a frozen model: fit a temperature for every row on the images of the fit, "
            "which doubles the time.",
        ),
    ] = False,
    json: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--json", help="Write the scores to this file as well."),
    ] = None,
) -> None:
    """Score a run with and without views; a frozen model also with other ways to choose them."""
    from instaaug.cli.use import run_evaluate

    run_evaluate(
        run, data=data, model=given, views=views, baselines=baselines, certainty=certainty,
        mean_views=mean_views, calibrate=calibrate, json_file=json,
    )  # fmt: skip


@app.command()
def predict(
    run: RunFolder,
    images: Images,
    out: Predictions = None,
    views: Views = None,
    certainty: Certainty = None,
    top: Annotated[
        int, typer.Option(min=1, help="How many of the most probable classes to list.")
    ] = 1,
    on_bad_image: OnBadImage = "error",
) -> None:
    """Predict images with the model of a run and its views."""
    from instaaug.cli.use import run_predict

    run_predict(
        run, images, out=out, n_views=views, certainty=certainty, n_top=top,
        skip_bad=on_bad_image == "skip",
    )  # fmt: skip


@app.command()
def embed(
    run: RunFolder,
    images: Images,
    out: Annotated[Path, typer.Option(help="Ends in .npz or .parquet.")] = Path("features.npz"),
    views: Annotated[
        int, typer.Option(min=0, help="Views to average; 0 for the image alone.")
    ] = 0,
    on_bad_image: OnBadImage = "error",
) -> None:
    """Write features of images: those of an encoder, or what a last linear layer reads."""
    from instaaug.cli.embed import run_embed

    run_embed(run, images, out=out, n_views=views, skip_bad=on_bad_image == "skip")


@app.command()
def export(
    run: RunFolder,
    file: Annotated[
        Path,
        typer.Argument(
            help="Ends in .onnx or .pt2, or in .json for the best views on average.",
            show_default=False,
        ),
    ],
    part: Annotated[
        Literal["predictor", "phi"],
        typer.Option(help="Images in [0, 1] to calibrated logits, or φ alone."),
    ] = "predictor",
    views: Views = None,
    tolerance: Annotated[
        float,
        typer.Option(help="Largest difference of an output, relative to its largest value."),
    ] = 1e-4,
) -> None:
    """Export the predictor for other programs; the file is read back and checked."""
    from instaaug.cli.use import run_export

    run_export(run, file, part=part, n_views=views, tolerance=tolerance)


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of finished runs; with --live, of one that trains.", show_default=False
        ),
    ],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Folder for the page and its figures.",
            show_default="RUN/report, or report for several runs",
        ),
    ] = None,
    inputs: Annotated[
        int, typer.Option(min=1, max=5000, help="Test images to show, at most.")
    ] = 200,
    views: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, max=500, help="Views per image.", show_default="as in the test"),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Follow a run while it trains, on a page of this machine."),
    ] = False,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Of the page of --live.", show_default="a free one"),
    ] = 0,
) -> None:
    """Write a page to explore what was learned, input by input; several runs side by side."""
    if live:
        from instaaug.cli.live import run_live

        run_live(runs, port=port)
        return
    from instaaug.cli.use import run_report

    run_report(runs, out=out, n_inputs=inputs, n_views=views)


@app.command()
def inspect(
    run: RunFolder,
    images: Images,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="A .png, .svg or .jpg file.", show_default="RUN/report/inspect.png"),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Samples of each image to draw.")] = 8,
) -> None:
    """Draw images with their learned distributions and samples of them."""
    from instaaug.cli.use import run_inspect

    run_inspect(run, images, out=out, n_samples=samples)


@app.command()
def bench(
    questions: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            help="startup, color, warp, at_test_time, training_step.", show_default="all"
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, help="How often each contender is timed.")] = 20,
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
def cache(
    clear: Annotated[
        bool,
        typer.Option(
            "--clear", help="Remove all of it; not while another command decodes images."
        ),
    ] = False,
) -> None:
    """Say where decoded images are kept and how large they are; they can be made again."""
    from instaaug.cli.listing import run_cache

    run_cache(clear=clear)


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
    """Learn how far each sprite may be rotated, and draw the paper's Figure 5."""
    from instaaug.cli.demo import run_demo

    run_demo(out, seed=seed, n_steps=steps, sprites=sprites)


def main() -> None:
    """Run the command line; an error of ours is a sentence, not a traceback."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    warnings.showwarning = _warning_printer(console, warnings.showwarning)
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


def _warning_printer(console: Console, others: Callable[..., None]) -> Callable[..., None]:
    """Print our warnings as sentences, without the place in the code; leave others as they are."""

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
    return name_options(str(error), sys.argv[1:])
