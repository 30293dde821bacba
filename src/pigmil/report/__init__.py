"""What a person looks at: figures, and reports made from one plain summary."""

from pigmil.report.figures import plot_bags

__all__ = ["plot_bags"]
