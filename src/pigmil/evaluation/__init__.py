"""Comparison of methods: folds, tuning, results, statistics, the paper's experiments."""
