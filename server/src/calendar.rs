//! Readable times, in UTC.

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A time such as `2026-11-22T17:14:38.000Z`, from milliseconds since the epoch.
pub fn civil_time(ms: i64) -> String {
    let (days, ms) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil_date(days);
    let (seconds, ms) = (ms / 1_000, ms % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The year, month and day that is `days` days after 1970-01-01. This is Howard Hinnant's
/// algorithm. Its years begin in March, so that the leap day is the last day of a year.
pub(crate) fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_date`].
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar_and_come_back() {
        assert_eq!(civil_time(1_795_367_678_009), "2026-11-22T17:14:38.009Z");
        assert_eq!(civil_time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(civil_time(951_827_696_000), "2000-02-29T12:34:56.000Z");
        assert_eq!(civil_time(-1), "1969-12-31T23:59:59.999Z");
        assert!(civil_time(i64::MAX).ends_with('Z') && civil_time(i64::MIN).ends_with('Z'));
        for day in (-1_000_000..1_000_000).step_by(997) {
            let (year, month, date) = civil_date(day);
            assert_eq!(days(year, month, date), day);
        }
    }
}
