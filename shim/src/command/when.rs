//! Times as people say them: how long something took, and how long ago it was.
//!
//! It reads the two forms in which times are stored, and says a time it can't read as it stands. Nothing here decides by
//! time.

use grounding_proto::text::printable;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// From this age on a date says more than an age.
const OLD_DAYS: i64 = 30;

/// Returns a length of time in its two largest units.
#[must_use]
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

/// Returns how long ago a stored time is.
#[must_use]
pub fn ago(stored: &str) -> String {
    ago_at(stored, Timestamp::now())
}

fn ago_at(stored: &str, now: Timestamp) -> String {
    let Some(time) = parse(stored) else { return printable(stored) };
    let seconds = now.as_second() - time.as_second();
    match (seconds, seconds / 60, seconds / 3600, seconds / 86_400) {
        // The clock that wrote it may be a little ahead of this one.
        (-60..5, ..) => "just now".to_owned(),
        (5..60, ..) => format!("{seconds} s ago"),
        (60.., minutes @ ..60, ..) => format!("{minutes} min ago"),
        (60.., _, hours @ ..48, _) => format!("{hours} h ago"),
        (60.., _, _, days @ ..OLD_DAYS) => format!("{days} d ago"),
        _ => time.strftime("%Y-%m-%d").to_string(),
    }
}

/// Reads a time as sessions and attempts have it (`2026-12-01T07:12:02.035Z`), or as the ledger has it
/// (`2026-12-01 07:12:02`, UTC).
fn parse(stored: &str) -> Option<Timestamp> {
    let in_ledger = || TimeZone::UTC.to_timestamp(stored.parse::<DateTime>().ok()?).ok();
    stored.parse().ok().or_else(in_ledger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_two_units() {
        assert_eq!(duration(900), "0 s");
        assert_eq!(duration(61_000), "1 min 1 s");
        assert_eq!(duration(3_660_000), "1 h 1 min");
        assert_eq!(duration(90_000_000), "1 d 1 h");
    }

    #[test]
    fn ages_are_said_in_their_largest_unit_and_dates_when_old() {
        let now = "2026-12-01T12:00:00Z".parse().unwrap();
        for (stored, said) in [
            ("2026-12-01T11:59:58.500Z", "just now"),
            ("2026-12-01T12:00:30Z", "just now"),
            ("2026-12-01 11:59:30", "30 s ago"),
            ("2026-12-01 11:57:00", "3 min ago"),
            ("2026-11-30 11:00:00", "25 h ago"),
            ("2026-11-28T12:00:00.000Z", "3 d ago"),
            ("2026-10-01T12:00:00.000Z", "2026-10-01"),
            ("2027-10-01T12:00:00.000Z", "2027-10-01"),
            ("\u{1b}[31mnever", "?[31mnever"),
        ] {
            assert_eq!(ago_at(stored, now), said, "{stored}");
        }
    }
}
