//! Arithmetic expressions of rates: `50000 / (47d * 2/3)`.
//!
//! Expressions consist of numbers, durations (`47d`, `1.5h`, `30s`, `500ms`), `+ - * /` and
//! brackets. Durations differ from numbers: sums must have a single kind. The result must be a
//! number, which is a rate in the scenario's `timeUnit`, or a number divided by a duration, which
//! is a complete rate.

use lucarne_settings::values::unit_seconds;

/// Value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Worth {
    /// A plain number.
    Number(f64),
    /// A rate per second.
    PerSecond(f64),
}

/// A value with a power of seconds.
#[derive(Clone, Copy)]
struct Quantity {
    value: f64,
    /// 0 for numbers, 1 for durations, -1 for rates.
    power: i32,
}

/// Limit of nested brackets.
const DEPTH: usize = 32;

/// Reasons why a text is not a rate. The message follows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArithmeticError {
    #[error("has an unexpected `{0}` after a complete expression")]
    GoesOn(char),
    #[error("divides by zero")]
    DividesByNothing,
    #[error("is a time; expected a rate")]
    Time,
    #[error("is neither a number nor a rate: its units of time do not cancel out")]
    NeitherNumberNorRate,
    #[error("adds a time and a value that is not a time")]
    Adds,
    #[error("has too many brackets")]
    TooDeep,
    #[error("has `(` without a matching `)`")]
    Open,
    #[error("is incomplete: expected a number at its end")]
    Ends,
    #[error(
        "has `{0}` instead of a number; allowed: numbers, times such as 47d, + - * / and brackets"
    )]
    NoNumber(char),
    #[error("has the invalid number `{number}`")]
    Number {
        number: String,
        source: std::num::ParseFloatError,
    },
    #[error("has the unknown unit `{0}`; known: d, h, m, s, ms and us")]
    Unit(String),
}

/// Evaluates `text`.
///
/// # Errors
/// If the text is not a rate.
pub(super) fn work_out(text: &str) -> Result<Worth, ArithmeticError> {
    let mut reader = Reader {
        rest: text,
        depth: 0,
    };
    let quantity = reader.sum()?;
    if let Some(next) = reader.peek() {
        return Err(ArithmeticError::GoesOn(next));
    }
    match quantity {
        Quantity { value, .. } if !value.is_finite() => Err(ArithmeticError::DividesByNothing),
        Quantity { value, power: 0 } => Ok(Worth::Number(value)),
        Quantity { value, power: -1 } => Ok(Worth::PerSecond(value)),
        Quantity { power: 1, .. } => Err(ArithmeticError::Time),
        _ => Err(ArithmeticError::NeitherNumberNorRate),
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

    fn sum(&mut self) -> Result<Quantity, ArithmeticError> {
        let mut left = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let right = self.product()?;
            if left.power != right.power {
                return Err(ArithmeticError::Adds);
            }
            left.value += if sign == '+' {
                right.value
            } else {
                -right.value
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Quantity, ArithmeticError> {
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

    fn factor(&mut self) -> Result<Quantity, ArithmeticError> {
        if self.take(&['(']).is_some() {
            self.depth += 1;
            if self.depth > DEPTH {
                return Err(ArithmeticError::TooDeep);
            }
            let inner = self.sum()?;
            self.depth -= 1;
            return match self.take(&[')']) {
                Some(_) => Ok(inner),
                None => Err(ArithmeticError::Open),
            };
        }
        match self.peek() {
            None => Err(ArithmeticError::Ends),
            Some(next) if next.is_ascii_digit() || next == '.' => self.number(),
            Some(next) => Err(ArithmeticError::NoNumber(next)),
        }
    }

    fn number(&mut self) -> Result<Quantity, ArithmeticError> {
        let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
        let end = self.rest.find(|c| !digits(c)).unwrap_or(self.rest.len());
        let (number, after) = self.rest.split_at(end);
        let letters = after.find(|c: char| !c.is_alphabetic());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        self.rest = after;
        let value: f64 =
            (number.replace('_', "").parse()).map_err(|source| ArithmeticError::Number {
                number: number.to_owned(),
                source,
            })?;
        if unit.is_empty() {
            return Ok(Quantity { value, power: 0 });
        }
        let seconds = match unit {
            "d" => Some(86_400.0),
            // Units of rates go down to microseconds, in ASCII letters.
            "ns" | "µs" | "μs" => None,
            unit => unit_seconds(unit),
        };
        let seconds = seconds.ok_or_else(|| ArithmeticError::Unit(unit.to_owned()))?;
        Ok(Quantity {
            value: value * seconds,
            power: 1,
        })
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
            ("", "expected a number at its end"),
            ("fast", "`f` instead of a number"),
            ("-5", "`-` instead of a number"),
            ("5 5", "unexpected `5`"),
            ("50000 / (47d * 2/3", "without a matching `)`"),
            ("50000 / 47w", "the unknown unit `w`"),
            ("47d", "is a time; expected a rate"),
            ("1 / 47d / 1s", "do not cancel out"),
            ("5 + 1s", "adds a time"),
            ("5 / 0", "divides by zero"),
            ("1.2.3", "the invalid number `1.2.3`"),
        ] {
            let why = work_out(text).unwrap_err().to_string();
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
