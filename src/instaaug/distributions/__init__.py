"""Distributions p(θ): torch's verbs, explicit randomness."""

from instaaug.distributions.categorical_theta import CategoricalTheta
from instaaug.distributions.decoded_gaussian import DecodedGaussian
from instaaug.distributions.jittered_boxes import JitteredBoxes
from instaaug.distributions.joint import Joint, Samples, enumerate_choices
from instaaug.distributions.theta import FiniteTheta, ThetaDistribution
from instaaug.distributions.uniform_box import RandomBoxes, UniformBox

__all__ = [
    "CategoricalTheta",
    "DecodedGaussian",
    "FiniteTheta",
    "JitteredBoxes",
    "Joint",
    "RandomBoxes",
    "Samples",
    "ThetaDistribution",
    "UniformBox",
    "enumerate_choices",
]
