"""Distributions p(θ): torch's verbs, explicit randomness."""

from instaaug.distributions.categorical_theta import CategoricalTheta
from instaaug.distributions.combinations import enumerated
from instaaug.distributions.jittered_boxes import JitteredBoxes
from instaaug.distributions.joint import Joint, Samples
from instaaug.distributions.theta import FiniteTheta, ThetaDistribution
from instaaug.distributions.uniform_box import UniformBox

__all__ = [
    "CategoricalTheta",
    "FiniteTheta",
    "JitteredBoxes",
    "Joint",
    "Samples",
    "ThetaDistribution",
    "UniformBox",
    "enumerated",
]
