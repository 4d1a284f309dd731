"""Backbones: pretrained networks that turn images into features."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddsh.backbones.base import Backbone
    from ddsh.backbones.custom import CustomNetwork
    from ddsh.backbones.network import Network
    from ddsh.backbones.registry import BACKBONES, BackboneCard, build_network
else:
    import lazy_loader

    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "base": ["Backbone"],
            "custom": ["CustomNetwork"],
            "network": ["Network"],
            "registry": ["BACKBONES", "BackboneCard", "build_network"],
        },
    )

__all__ = ["BACKBONES", "Backbone", "BackboneCard", "CustomNetwork", "Network", "build_network"]
