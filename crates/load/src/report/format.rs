//! Formatting of figures in reports: three significant digits and a unit.

pub use lucarne_net::printable;

/// Formats a duration in milliseconds: `870µs`, `12.3ms`, `1.25s`, `3m20s`.
pub fn duration(ms: f64) -> String {
    let negative = if ms < 0.0 { "-" } else { "" };
    let ms = ms.abs();
    let text = if ms == 0.0 {
        "0s".to_owned()
    } else if ms < 0.9995 {
        format!("{}µs", significant(ms * 1e3))
    } else if ms < 999.5 {
        format!("{}ms", significant(ms))
    } else if ms < 59_995.0 {
        format!("{}s", significant(ms / 1e3))
    } else {
        clock(ms / 1e3)
    };
    format!("{negative}{text}")
}

/// Formats whole seconds: `42s`, `3m20s`, `2h05m00s`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (h, m) {
        (0, 0) => format!("{s}s"),
        (0, _) => format!("{m}m{s:02}s"),
        _ => format!("{h}h{m:02}m{s:02}s"),
    }
}

/// Formats three significant digits without an exponent: `0.12`, `9.87`, `123`, `4567`.
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    let digits = match magnitude {
        m if m >= 99.95 || m == 0.0 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.0095 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    if digits == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats bytes in decimal units, like k6 and networks: `512 B`, `4.1 kB`, `1.25 MB`.
pub fn bytes(count: f64) -> String {
    let mut value = count;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value.abs() < 999.5 {
            return format!("{} {unit}", significant(value));
        }
        value /= 1e3;
    }
    format!("{} PB", significant(value))
}

/// Formats events per second: `0.5/s`, `498/s`, `12500/s`.
pub fn per_second(rate: f64) -> String {
    format!("{}/s", significant(rate))
}

/// Formats large numbers for narrow places: `950`, `12.5k`, `3.2M`.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude < 999.5 {
        significant(value)
    } else if magnitude < 999_500.0 {
        format!("{}k", significant(value / 1e3))
    } else if magnitude < 999_500_000.0 {
        format!("{}M", significant(value / 1e6))
    } else {
        format!("{}G", significant(value / 1e9))
    }
}

/// Formats a share as a percentage. Rounding never results in 0 % or 100 %: these values are exact.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 || part == 0 {
        return "0.00%".to_owned();
    }
    if part == whole {
        return "100.00%".to_owned();
    }
    let share = part as f64 / whole as f64 * 100.0;
    if share > 99.99 {
        ">99.99%".to_owned()
    } else if share < 0.01 {
        "<0.01%".to_owned()
    } else {
        format!("{share:.2}%")
    }
}

/// Returns the width of a text in a terminal, for the characters that are used here.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns `text` with spaces up to `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// Returns `text` with spaces before it, up to `columns`.
pub fn pad_left(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{}{text}", " ".repeat(missing))
}

/// Cuts `text` to `columns`, and ends cut text with an ellipsis.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(columns.saturating_sub(1)).collect();
    if columns > 0 {
        short.push('…');
    }
    short
}

/// Cuts `text` to `columns`, and replaces characters before its end with an ellipsis.
pub fn cut_middle(text: &str, columns: usize) -> String {
    let excess = width(text).saturating_sub(columns);
    if excess == 0 {
        return text.to_owned();
    }
    let start = columns / 3;
    let end = text.chars().skip(start + excess + 1);
    let short = text.chars().take(start).chain(['…']).chain(end);
    short.take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        let cases = [
            (0.0, "0s"),
            (0.0421, "42.1µs"),
            (0.87, "870µs"),
            (0.9996, "1ms"),
            (12.345, "12.3ms"),
            (999.6, "1s"),
            (1250.0, "1.25s"),
            (59_996.0, "1m00s"),
            (200_000.0, "3m20s"),
            (7_500_000.0, "2h05m00s"),
        ];
        for (ms, expected) in cases {
            assert_eq!(duration(ms), expected, "{ms}");
        }
    }

    #[test]
    fn a_share_is_never_rounded_to_all_or_nothing() {
        assert_eq!(percent(0, 0), "0.00%");
        assert_eq!(percent(1, 3), "33.33%");
        assert_eq!(percent(999_999, 1_000_000), ">99.99%");
        assert_eq!(percent(1, 1_000_000), "<0.01%");
        assert_eq!(percent(7, 7), "100.00%");
    }

    #[test]
    fn numbers_shrink_to_fit() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(4096.0), "4.1 kB");
        assert_eq!(bytes(1_250_000.0), "1.25 MB");
        assert_eq!(short(12_500.0), "12.5k");
        assert_eq!(short(999_900.0), "1M");
        assert_eq!(significant(0.5), "0.5");
        assert_eq!(cut("checkpoint", 5), "chec…");
        assert_eq!(cut("checkpoint", 0), "");
        assert_eq!(cut_middle("GET /api/users", 8), "GE…users");
        assert_eq!(cut_middle("GET /api/users", 14), "GET /api/users");
        assert_eq!(cut_middle("GET /api/users", 1), "…");
        assert_eq!(cut_middle("GET /api/users", 0), "");
    }
}
