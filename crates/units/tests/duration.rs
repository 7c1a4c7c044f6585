//! Laws of durations.

use proptest::prelude::*;
use units::GoDuration;

fn any_duration() -> impl Strategy<Value = GoDuration> {
    // Shifting spreads the magnitudes evenly over nanoseconds to centuries.
    (any::<i64>(), 0..64_u32).prop_map(|(nanos, shift)| GoDuration::from_nanos(nanos >> shift))
}

proptest! {
    #[test]
    fn printing_loses_nothing(duration in any_duration()) {
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn json_loses_nothing(duration in any_duration()) {
        let json = serde_json::to_string(&duration).unwrap();
        prop_assert_eq!(serde_json::from_str::<GoDuration>(&json).unwrap(), duration);
    }

    #[test]
    fn parts_add_up(hours in 0..2_000_i64, minutes in 0..100_000_i64, millis in 0..100_000_000_i64) {
        let want = GoDuration::from_millis(hours * 3_600_000 + minutes * 60_000 + millis);
        prop_assert_eq!(format!("{hours}h{minutes}m{millis}ms").parse(), Ok(want));
        prop_assert_eq!(format!("{millis}ms{hours}h{minutes}m").parse(), Ok(want));
        prop_assert_eq!(format!("-{hours}h{minutes}m{millis}ms").parse(), Ok(GoDuration::from_nanos(-want.as_nanos())));
    }

    #[test]
    fn fractions_of_a_second_are_exact(secs in 0..1_000_000_000_i64, nanos in 0..1_000_000_000_i64) {
        let want = GoDuration::from_nanos(secs * 1_000_000_000 + nanos);
        prop_assert_eq!(format!("{secs}.{nanos:09}s").parse(), Ok(want));
    }

    #[test]
    fn no_text_panics(text in "[-+.0-9nuµmsh ]{0,24}|\\PC*") {
        if let Ok(duration) = text.parse::<GoDuration>() {
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
