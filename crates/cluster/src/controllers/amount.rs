//! How many is `25%` of the replicas?

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// An absolute number, or that share of `total` with fractions rounded up.
pub(crate) fn rounded_up(value: &IntOrString, total: i32) -> i32 {
    scaled(value, total, 99)
}

/// An absolute number, or that share of `total` with fractions dropped.
pub(crate) fn rounded_down(value: &IntOrString, total: i32) -> i32 {
    scaled(value, total, 0)
}

/// Admission lets only numbers and percentages through; any other text counts as nothing.
fn scaled(value: &IntOrString, total: i32, round: i64) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|text| text.parse::<i32>().ok());
            let share = i64::from(percent.unwrap_or(0)) * i64::from(total);
            i32::try_from((share + round) / 100).unwrap_or(i32::MAX)
        }
    }
}

/// A length as the API counts.
pub(crate) fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// A count of the API as a length; negative ones are nothing.
pub(crate) fn length(count: i32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_named_and_numbers_stay() {
        let text = |text: &str| IntOrString::String(text.into());
        let cases = [
            ("a number", IntOrString::Int(3), 10, 3, 3),
            ("an exact share", text("50%"), 10, 5, 5),
            ("a fraction", text("25%"), 10, 2, 3),
            ("a small fraction", text("1%"), 3, 0, 1),
            ("nothing", text("0%"), 10, 0, 0),
            ("all", text("100%"), 7, 7, 7),
            ("more than all", text("150%"), 3, 4, 5),
            ("not a percentage", text("half"), 10, 0, 0),
        ];
        for (name, value, total, down, up) in cases {
            assert_eq!(rounded_down(&value, total), down, "{name} down");
            assert_eq!(rounded_up(&value, total), up, "{name} up");
        }
    }
}
