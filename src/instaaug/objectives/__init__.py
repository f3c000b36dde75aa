"""What is minimized: gradient estimators and the entropy band, on plain tensors."""

from instaaug.objectives.entropy_band import Band, EntropyBand, Rule, band_limits
from instaaug.objectives.estimators import (
    Baseline,
    ScoreFactor,
    closed_form_risk,
    exact_risk,
    score_risk,
)
from instaaug.objectives.usefulness import Usefulness
from instaaug.objectives.view_losses import (
    Loss,
    ViewObjective,
    ensemble_loss,
    n_views_loss,
    soft_top,
)

__all__ = [
    "Band",
    "Baseline",
    "EntropyBand",
    "Loss",
    "Rule",
    "ScoreFactor",
    "Usefulness",
    "ViewObjective",
    "band_limits",
    "closed_form_risk",
    "ensemble_loss",
    "exact_risk",
    "n_views_loss",
    "score_risk",
    "soft_top",
]
