"""Numbers have the digits they deserve, and the same in a whole column."""

import pytest

from instaaug.report.tables import Digits, choose_digits, format_p_value, format_ratio


@pytest.mark.parametrize(
    ("means", "errors", "is_share", "written"),
    [
        ([0.65, 0.61], [0.011, 0.004], True, "65.0"),
        ([0.65, 0.61], [0.0011, 0.0004], True, "65.00"),
        ([0.65], [], True, "65.0"),
        ([0.65, 0.65], [0.0, 0.0], True, "65.0"),
        ([3.456, 2.1], [0.042], False, "3.456"),
        ([3.456, 2.1], [0.42], False, "3.46"),
        ([345.6, 210.0], [12.0], False, "346"),
        ([3.456], [], False, "3.46"),
        ([0.0], [], False, "0.00"),
        ([2.5e-9], [1e-10], False, "2.50e−09"),
        ([2.5e9], [1e8], False, "2.50e+09"),
    ],
)
def test_decimals_follow_the_errors(
    means: list[float], errors: list[float], is_share: bool, written: str
) -> None:
    assert choose_digits(means, errors, is_share=is_share).write(means[0]) == written


@pytest.mark.parametrize(
    ("value", "written"), [(0.0123, "+1.2"), (-0.0123, "−1.2"), (-0.0001, "0.0"), (0.0001, "0.0")]
)
def test_a_sign_stands_before_what_is_not_nought(value: float, written: str) -> None:
    assert Digits(100.0, 1).write(value, signed=True) == written


@pytest.mark.parametrize(
    ("p", "written"),
    [(0.0, "<0.001"), (0.00099, "<0.001"), (0.001, "0.001"), (0.0994, "0.099"), (0.1, "0.10")],
)
def test_a_p_value_is_never_nought(p: float, written: str) -> None:
    assert format_p_value(p) == written


def test_ratios_have_three_digits() -> None:
    assert [format_ratio(x) for x in (0.5, 9.994, 10, 150.4)] == [
        *("0.50×", "9.99×", "10.0×", "150×")
    ]
