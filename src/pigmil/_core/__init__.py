"""Ground floor without any multiple-instance notion: errors, scikit-learn door, segments."""
