"""What is minimized: gradient estimators and the entropy band, on plain tensors."""

from instaaug.objectives.entropy_band import Band, EntropyBand, Rule, band_limits
from instaaug.objectives.estimators import Baseline, ScoreFactor, exact_risk, score_risk

__all__ = [
    "Band",
    "Baseline",
    "EntropyBand",
    "Rule",
    "ScoreFactor",
    "band_limits",
    "exact_risk",
    "score_risk",
]
