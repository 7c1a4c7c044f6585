//! How long ago was that, in kubectl's words?
//!
//! Two units at most, and fewer the longer it is: `45s`, `5m30s`, `90m`, `3h20m`, `12h`, `2d5h`,
//! `30d`, `3y45d`, `8y`.

use jiff::Timestamp;

/// The time from a timestamp until now; `<unknown>` if there is none.
pub(super) fn since(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(then) => human(now.as_second().saturating_sub(then.as_second())),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration in seconds.
pub(super) fn human(seconds: i64) -> String {
    // Clocks differ a little; anything further in the future is wrong.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |big: i64, unit: char, small: i64, lesser: char| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{lesser}"),
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if hours < 3 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, 'd', hours % 24, 'h')
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        two(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_like_those_of_kubectl() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 3600;
        const DAY: i64 = 86_400;
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (5 * MINUTE + 30, "5m30s"),
            (10 * MINUTE + 30, "10m"),
            (179 * MINUTE, "179m"),
            (3 * HOUR + 20 * MINUTE, "3h20m"),
            (9 * HOUR + 20 * MINUTE, "9h"),
            (47 * HOUR, "47h"),
            (2 * DAY + 5 * HOUR, "2d5h"),
            (30 * DAY, "30d"),
            (3 * 365 * DAY + 45 * DAY, "3y45d"),
            (9 * 365 * DAY + 45 * DAY, "9y"),
        ];
        for (seconds, want) in cases {
            assert_eq!(human(seconds), want, "{seconds}");
        }
        assert_eq!(since("yesterday", Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since("1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z".parse().unwrap()), "60s");
    }
}
