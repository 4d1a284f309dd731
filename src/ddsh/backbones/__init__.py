"""Pretrained networks that turn images into features."""

from ddsh.backbones.registry import BACKBONES, BackboneCard, build_network

__all__ = ["BACKBONES", "BackboneCard", "build_network"]
