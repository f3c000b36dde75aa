"""Networks: images to feature maps, images to logits; none of them knows of augmentation."""

from instaaug.networks.classifiers import MODELS, make_model, pretrained_maker
from instaaug.networks.frozen_features import FrozenFeatures
from instaaug.networks.phi import NETWORKS, FeatureNetwork, feature_channels, make_network
from instaaug.networks.preact import PreActResNet18, PreActTrunk
from instaaug.networks.receptive_field import ReceptiveField, receptive_fields
from instaaug.networks.small_cnn import SmallCNN

__all__ = [
    "MODELS",
    "NETWORKS",
    "FeatureNetwork",
    "FrozenFeatures",
    "PreActResNet18",
    "PreActTrunk",
    "ReceptiveField",
    "SmallCNN",
    "feature_channels",
    "make_model",
    "make_network",
    "pretrained_maker",
    "receptive_fields",
]
