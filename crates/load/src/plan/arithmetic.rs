//! Rates that are worked out: `50000 / (47d * 2/3)`.
//!
//! Numbers and lengths of time (`47d`, `1.5h`, `30s`, `500ms`), `+ - * /` and
//! brackets. Time is told apart from numbers: what is added must be of one kind,
//! and the whole must be a number, which is a rate in the scenario's `timeUnit`,
//! or a number divided by a time, which is a rate by itself.

/// The worth of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Worth {
    /// A plain number.
    Number(f64),
    /// So many per second.
    PerSecond(f64),
}

/// Seconds to some power, and how many of them.
#[derive(Clone, Copy)]
struct Quantity {
    value: f64,
    /// 0 for numbers, 1 for times, -1 for rates.
    power: i32,
}

/// The deepest that brackets may go.
const DEPTH: usize = 32;

const UNITS: [(&str, f64); 6] = [
    ("ms", 1e-3),
    ("us", 1e-6),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

/// Works out `text`.
///
/// # Errors
/// In words that follow the text.
pub(super) fn work_out(text: &str) -> Result<Worth, String> {
    let mut reader = Reader {
        rest: text,
        depth: 0,
    };
    let quantity = reader.sum()?;
    if let Some(next) = reader.peek() {
        return Err(format!("has `{next}` where it should have ended"));
    }
    match quantity {
        Quantity { value, .. } if !value.is_finite() => Err("divides by nothing".into()),
        Quantity { value, power: 0 } => Ok(Worth::Number(value)),
        Quantity { value, power: -1 } => Ok(Worth::PerSecond(value)),
        Quantity { power: 1, .. } => Err("comes to a time, not to a rate".into()),
        _ => Err("comes to neither a number nor a rate: its times do not cancel out".into()),
    }
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| wanted.contains(next))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn sum(&mut self) -> Result<Quantity, String> {
        let mut left = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let right = self.product()?;
            if left.power != right.power {
                return Err("adds up a time and something that is none".into());
            }
            left.value += if sign == '+' {
                right.value
            } else {
                -right.value
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Quantity, String> {
        let mut left = self.factor()?;
        while let Some(sign) = self.take(&['*', '/']) {
            let right = self.factor()?;
            let (value, power) = match sign {
                '*' => (left.value * right.value, left.power + right.power),
                _ => (left.value / right.value, left.power - right.power),
            };
            left = Quantity { value, power };
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Quantity, String> {
        if self.take(&['(']).is_some() {
            self.depth += 1;
            if self.depth > DEPTH {
                return Err("has too many brackets".into());
            }
            let inner = self.sum()?;
            self.depth -= 1;
            return match self.take(&[')']) {
                Some(_) => Ok(inner),
                None => Err("has `(` without its `)`".into()),
            };
        }
        match self.peek() {
            None => Err("ends where a number should stand".into()),
            Some(next) if next.is_ascii_digit() || next == '.' => self.number(),
            Some(next) => Err(format!(
                "has `{next}` where a number should stand: numbers, times such as 47d, + - * / and brackets"
            )),
        }
    }

    fn number(&mut self) -> Result<Quantity, String> {
        let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
        let end = self.rest.find(|c| !digits(c)).unwrap_or(self.rest.len());
        let (number, after) = self.rest.split_at(end);
        let letters = after.find(|c: char| !c.is_alphabetic());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        self.rest = after;
        let value: f64 = (number.replace('_', "").parse())
            .map_err(|_| format!("has `{number}`, which is not a number"))?;
        if unit.is_empty() {
            return Ok(Quantity { value, power: 0 });
        }
        match UNITS.iter().find(|(known, _)| *known == unit) {
            Some((_, seconds)) => Ok(Quantity {
                value: value * seconds,
                power: 1,
            }),
            None => Err(format!(
                "has the unit `{unit}`, which is none of d, h, m, s, ms and us"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_of_a_fleet() {
        for (text, worth) in [
            ("500", Worth::Number(500.0)),
            ("0.5", Worth::Number(0.5)),
            ("50_000 / 2", Worth::Number(25_000.0)),
            ("2 + 3 * 4 - 1", Worth::Number(13.0)),
            ("(2+3)*4", Worth::Number(20.0)),
            ("60s / 1m", Worth::Number(1.0)),
            ("5000 / 30s", Worth::PerSecond(5000.0 / 30.0)),
            (
                "50000 / (47d * 2/3)",
                Worth::PerSecond(50_000.0 / (47.0 * 86_400.0 * 2.0 / 3.0)),
            ),
            ("1/1h + 1/30m", Worth::PerSecond(3.0 / 3600.0)),
        ] {
            let (got, wanted) = match (work_out(text).unwrap(), worth) {
                (Worth::Number(got), Worth::Number(wanted)) => (got, wanted),
                (Worth::PerSecond(got), Worth::PerSecond(wanted)) => (got, wanted),
                (got, _) => panic!("{text}: {got:?}"),
            };
            assert!((got - wanted).abs() <= wanted * 1e-12, "{text}: {got}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, expected) in [
            ("", "ends where a number"),
            ("fast", "`f` where a number"),
            ("-5", "`-` where a number"),
            ("5 5", "should have ended"),
            ("50000 / (47d * 2/3", "without its `)`"),
            ("50000 / 47w", "the unit `w`"),
            ("47d", "comes to a time"),
            ("1 / 47d / 1s", "do not cancel out"),
            ("5 + 1s", "adds up a time"),
            ("5 / 0", "divides by nothing"),
            ("1.2.3", "is not a number"),
        ] {
            let why = work_out(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
        assert!(work_out(&"(".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC*", sum in "[0-9smhd.*/+() -]{0,40}") {
            let _ = work_out(&text);
            let _ = work_out(&sum);
        }
    }
}
