"""The ragged container for bags of instances, and what turns other things into it."""

from pigmil.bags.container import Bags
from pigmil.bags.convert import as_bags
from pigmil.bags.transform import BagScaler, OnInstances

__all__ = ["BagScaler", "Bags", "OnInstances", "as_bags"]
