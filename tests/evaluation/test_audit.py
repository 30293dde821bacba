"""Every finding of the audit, on bags made to show it, and on real ones."""

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil import Bags, datasets
from pigmil.evaluation import Finding, audit
from pigmil.evaluation._splits import duplicate_groups


def found(bags, **changes):
    return {finding.kind: finding for finding in audit(bags, **{"folds": 4, **changes})}


def with_column(bags, column):
    return bags.with_instances(np.column_stack([bags.instances, column]))


def test_clean_bags_have_no_findings(bags):
    assert audit(bags, folds=4) == []
    assert audit(bags.with_labels(np.arange(24) % 3), folds=4) == []


@pytest.mark.parametrize(
    ("kind", "change", "groups", "message"),
    [
        ("unlabelled", lambda bags: Bags.from_list(list(bags)), None, "The bags have no labels."),
        ("classes", lambda bags: bags.with_labels(np.ones(24, dtype=int)), None,
         "At least two classes are needed, found [1]."),
        ("small_class", lambda bags: bags[:15], None,
         "The class 1 has 3 bags, fewer than the 4 folds; use at most 3 folds."),
        ("few_groups", lambda bags: bags, np.arange(24) % 3,
         "The bags form 3 groups, fewer than the 4 folds; use at most 3 folds."),
    ],
)  # fmt: skip
def test_what_cannot_be_divided_into_folds(bags, kind, change, groups, message):
    assert audit(change(bags), folds=4, groups=groups) == [Finding(kind, True, message)]


def test_whole_bags_repeated_whatever_the_order_of_instances(bags):
    parts = list(bags)
    parts[1] = parts[0][::-1]
    parts[13] = parts[12].copy()
    twins = Bags.from_list(parts, y=bags.y)
    finding = found(twins)["repeated_bags"]
    assert finding.severe
    assert finding.message.startswith(
        "2 of 24 bags are copies of another (4 bags occur more than once); in "
    )
    assert "groups='duplicates'" in finding.message
    together = found(twins, groups=duplicate_groups(twins))["repeated_bags"]
    assert not together.severe
    assert "in 0 cases" in together.message


def test_identical_bags_of_both_classes(bags):
    parts = list(bags)
    parts[12] = parts[0]
    kinds = found(Bags.from_list(parts, y=bags.y))
    assert kinds["contradicting_bags"].message == "1 groups of identical bags have both labels."
    assert kinds["shared_instances"].severe


def test_instances_shared_across_classes(bags):
    values = bags.instances.copy()
    values[36] = values[0]  # the first instance of the first positive bag
    one = found(bags.with_instances(values))["shared_instances"]
    assert not one.severe
    assert one.message.startswith("1 instances of positive bags are exact copies")
    values[36:39] = values[[0, 4, 8]]  # all of that bag
    whole = found(bags.with_instances(values))["shared_instances"]
    assert whole.severe
    assert "1 positive bags hold nothing else" in whole.message
    values[0], values[36] = [0.0, 1.0], [-0.0, 1.0]  # one value
    assert "3 instances" in found(bags.with_instances(values))["shared_instances"].message


def test_a_column_that_equals_the_label(bags):
    leak = np.repeat(np.where(bags.y == 1, 7.0, -2.0), 3)
    finding = found(with_column(bags, leak))["label_column"]
    assert (finding.severe, finding.message) == (True, "Features 2 equal the bag label.")
    leak[0] = 7.0  # not everywhere
    assert "label_column" not in found(with_column(bags, leak))


def test_bags_with_missing_values_are_not_taken_for_copies(bags):
    values = bags.instances.copy()
    values[:, 0] = np.nan
    held = Bags(values, bags.offsets, y=bags.y, check_finite=False)
    assert audit(held, folds=4) == []
    values[3:6] = values[:3]
    assert found(Bags(values, bags.offsets, y=bags.y, check_finite=False)).keys() == {
        "repeated_bags"
    }


def test_sparse_bags_are_audited_like_dense_ones(bags):
    values = np.where(np.abs(bags.instances) < 0.5, 0.0, bags.instances)
    values[36] = values[0]
    dense = bags.with_instances(values)
    sparse = dense.with_instances(sp.csr_array(dense.instances))
    assert sparse.is_sparse
    assert audit(sparse, folds=4) == audit(dense, folds=4) != []


@pytest.mark.parametrize(
    ("name", "repeated"),
    [("mutagenesis_atoms", 70), ("mutagenesis_bonds", 62), ("mutagenesis_chains", 18)],
)
def test_mutagenesis_repeats_whole_bags(data_dir, name, repeated):
    bags = datasets.load_dataset(name, folder=data_dir)
    finding = found(bags, folds=10)["repeated_bags"]
    assert finding.severe
    assert finding.message.startswith(f"{repeated} of 188 bags are copies of another ")
