"""Code without multiple-instance learning: errors, files, text, segments, private scikit-learn."""
