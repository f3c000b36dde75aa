"""Networks: images to feature maps, images to logits; none of them knows of augmentation."""

from instaaug.networks.classifiers import (
    MODELS,
    ExpectedImages,
    SmallCNN,
    expected_images,
    make_model,
    pretrained_maker,
)
from instaaug.networks.feature_networks import (
    NETWORKS,
    FeatureNetwork,
    PreActResNet18,
    PreActTrunk,
    feature_channels,
    make_network,
)
from instaaug.networks.frozen_features import FrozenFeatures
from instaaug.networks.model_maps import ModelMaps
from instaaug.networks.receptive_field import ReceptiveField, receptive_fields

__all__ = [
    "MODELS",
    "NETWORKS",
    "ExpectedImages",
    "FeatureNetwork",
    "FrozenFeatures",
    "ModelMaps",
    "PreActResNet18",
    "PreActTrunk",
    "ReceptiveField",
    "SmallCNN",
    "expected_images",
    "feature_channels",
    "make_model",
    "make_network",
    "pretrained_maker",
    "receptive_fields",
]
