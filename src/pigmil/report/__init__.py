"""Figures, and HTML or Markdown reports rendered from one summary."""

from pigmil.report.comparison import comparison_summary
from pigmil.report.figures import plot_bags, plot_faithfulness
from pigmil.report.heatmap import plot_heatmap, write_geojson
from pigmil.report.summary import detection_summary
from pigmil.report.write import render_html, render_markdown, write_report

__all__ = [
    "comparison_summary",
    "detection_summary",
    "plot_bags",
    "plot_faithfulness",
    "plot_heatmap",
    "render_html",
    "render_markdown",
    "write_geojson",
    "write_report",
]
