//! Reads `sinceIso` (SPEC 4).
//!
//! Must never guess: what is no ISO 8601 date or time is an error that names the value.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::LedgerError;

/// Returns a time as the ledger stores times: UTC, cut to whole seconds, `YYYY-MM-DD HH:MM:SS`.
///
/// # Errors
/// When the value is no ISO 8601 date or time.
pub(super) fn stored_time(value: &str) -> Result<String, LedgerError> {
    let with_offset = || value.parse::<Timestamp>().ok();
    let in_utc = || TimeZone::UTC.to_timestamp(value.parse::<DateTime>().ok()?).ok();
    match with_offset().or_else(in_utc) {
        Some(time) => Ok(time.strftime("%Y-%m-%d %H:%M:%S").to_string()),
        None => Err(LedgerError::Since { value: value.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_read_as_utc_unless_they_say_otherwise() {
        for (value, expected) in [
            ("2026-01-31", "2026-01-31 00:00:00"),
            ("2026-01-31T12:30", "2026-01-31 12:30:00"),
            ("2026-01-31 12:30:15", "2026-01-31 12:30:15"),
            ("2026-01-31T12:30:15.999", "2026-01-31 12:30:15"),
            ("2026-01-31T12:30:15.999Z", "2026-01-31 12:30:15"),
            ("2026-01-31T00:30:00+02:00", "2026-01-30 22:30:00"),
            ("2026-01-31T23:30:00-0530", "2026-02-01 05:00:00"),
            ("20260131T123015Z", "2026-01-31 12:30:15"),
        ] {
            assert_eq!(stored_time(value).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn anything_else_is_named() {
        for value in ["", "yesterday", "2026-13-01", "2026-01-31T25:00", "1767225600", "2026-01-31+02:00"] {
            let message = stored_time(value).unwrap_err().to_string();
            assert!(message.contains("sinceIso") && message.contains(&format!("{value:?}")), "{message}");
        }
    }
}
