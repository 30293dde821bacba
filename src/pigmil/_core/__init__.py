"""Code without multiple-instance learning: errors, files, text, segments, private scikit-learn."""

__version__ = "0.1.0"
