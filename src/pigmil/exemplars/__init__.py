"""One classifier per instance against shared negatives: linear SVM, LDA and RBF exemplars."""

from pigmil.exemplars._model import Confidence, ExemplarClassifiers
from pigmil.exemplars.lda import exemplar_lda
from pigmil.exemplars.rbf import KernelExemplars
from pigmil.exemplars.svm import exemplar_svms

__all__ = [
    "Confidence",
    "ExemplarClassifiers",
    "KernelExemplars",
    "exemplar_lda",
    "exemplar_svms",
]
