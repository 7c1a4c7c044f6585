//! Where does a number go that falls between two representable ones?

/// The direction of a rounding step, symmetric around zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Towards zero.
    Down,
    /// Away from zero, as Kubernetes rounds quantities.
    Up,
    /// To the nearest; halves go away from zero.
    Nearest,
}

impl Rounding {
    /// `numerator / denominator` as an integer; `None` when the denominator is zero.
    ///
    /// Exact for all inputs except `i128::MIN / -1`, which saturates.
    pub(crate) fn divide(self, numerator: i128, denominator: i128) -> Option<i128> {
        if denominator == 0 {
            return None;
        }
        // Dividing 128 bits is a call; most amounts are far smaller.
        let (quotient, rest) = match (i64::try_from(numerator), i64::try_from(denominator)) {
            (Ok(small), Ok(by)) if by > 0 => (i128::from(small / by), i128::from(small % by)),
            _ => {
                let quotient = numerator.saturating_div(denominator);
                (quotient, numerator.wrapping_sub(quotient.wrapping_mul(denominator)))
            }
        };
        let is_away = match self {
            Rounding::Down => false,
            Rounding::Up => rest != 0,
            Rounding::Nearest => {
                let rest = rest.unsigned_abs();
                rest >= denominator.unsigned_abs() - rest
            }
        };
        let away = if (numerator < 0) == (denominator < 0) { 1 } else { -1 };
        Some(if is_away { quotient.saturating_add(away) } else { quotient })
    }
}

/// Clamps a wide result into the range of `i64`.
pub(crate) fn saturate(wide: i128) -> i64 {
    i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_is_symmetric_around_zero() {
        let cases = [
            ("exact", 6, 3, [2, 2, 2]),
            ("just above", 7, 3, [2, 3, 2]),
            ("just below", 8, 3, [2, 3, 3]),
            ("half", 5, 2, [2, 3, 3]),
            ("small", 1, 1_000, [0, 1, 0]),
            ("zero", 0, 5, [0, 0, 0]),
        ];
        for (name, numerator, denominator, [down, up, nearest]) in cases {
            for (n, d, sign) in [
                (numerator, denominator, 1),
                (-numerator, denominator, -1),
                (numerator, -denominator, -1),
                (-numerator, -denominator, 1),
            ] {
                assert_eq!(Rounding::Down.divide(n, d), Some(sign * down), "{name} {n}/{d} down");
                assert_eq!(Rounding::Up.divide(n, d), Some(sign * up), "{name} {n}/{d} up");
                assert_eq!(Rounding::Nearest.divide(n, d), Some(sign * nearest), "{name} {n}/{d}");
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(Rounding::Up.divide(1, 0), None);
        assert_eq!(Rounding::Up.divide(i128::MIN, -1), Some(i128::MAX));
        assert_eq!(Rounding::Nearest.divide(i128::MIN, i128::MIN), Some(1));
        assert_eq!(Rounding::Nearest.divide(i128::MAX, i128::MIN), Some(-1));
        assert_eq!(saturate(i128::MAX), i64::MAX);
        assert_eq!(saturate(i128::MIN), i64::MIN);
        assert_eq!(saturate(-5), -5);
    }
}
