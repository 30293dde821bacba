"""One classifier per instance against shared negatives: linear SVM, LDA and RBF exemplars."""

from pigmil.exemplars._model import ExemplarClassifiers
from pigmil.exemplars.closed_form import KernelExemplars, exemplar_lda
from pigmil.exemplars.svm import exemplar_svms

__all__ = [
    "ExemplarClassifiers",
    "KernelExemplars",
    "exemplar_lda",
    "exemplar_svms",
]
