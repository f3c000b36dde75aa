"""The commands of ``instaaug tta``."""

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from instaaug.cli.arguments import Images, OnBadImage, Predictions
from instaaug.cli.settings import SettingsCommand, with_settings
from instaaug.runs.settings import TtaSettings

__all__ = ["tta"]

Fit = Annotated[Path, typer.Argument(help="The folder of `tta fit`.", show_default=False)]

tta = typer.Typer(no_args_is_help=True)


@tta.callback()
def frozen() -> None:
    """Learn which views of an image to average, for a model that stays as it is."""


@tta.command("fit", cls=SettingsCommand)
@with_settings(TtaSettings, ("model", "data"))
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
    mean_views: Annotated[
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
        mean_views=mean_views,
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
