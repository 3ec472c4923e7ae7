//! Parts of a run that several processes execute together.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// Limit of parts.
const MOST: u64 = 10_000;

/// A part of a run. The parts together have the arrivals, users, iterations and rows of one run:
/// part `i` of `n` has every `n`-th of them.
///
/// # Examples
///
/// ```
/// use lucarne_load::Part;
///
/// let second: Part = "2/3".parse()?;
/// assert_eq!((second.number(0), second.number(1)), (1, 4));
/// assert_eq!(second.share(5), 2);
/// # Ok::<(), lucarne_load::part::PartError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    index: u64,
    of: u64,
}

/// Reasons why a text is not a [`Part`]. The message follows the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The text has no slash.
    #[error("expected a part such as 2/3")]
    Format,
    /// A number of the part cannot be parsed.
    #[error("expected a part such as 2/3: {0}")]
    Number(#[from] ParseIntError),
    /// There is no such part.
    #[error("part {part} of {of} does not exist: expected 1/{of} to {of}/{of}")]
    Range {
        /// Number of the part, from 1.
        part: u64,
        /// Number of parts.
        of: u64,
    },
    /// There are no parts, or too many.
    #[error("expected 1 to {MOST} parts")]
    Parts,
}

impl Part {
    /// The whole run.
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// Returns all parts of a run of `of` parts, at least one.
    pub fn all(of: u64) -> impl Iterator<Item = Part> {
        let of = of.max(1);
        (0..of).map(move |index| Part { index, of })
    }

    /// Returns the number, within the whole run, of the n-th item of this part; both count from 0.
    pub fn number(self, n: u64) -> u64 {
        self.index.saturating_add(self.of.saturating_mul(n))
    }

    /// Returns the number of items that this part has of `all` items.
    pub fn share(self, all: u64) -> u64 {
        all.saturating_add(self.of - 1 - self.index) / self.of
    }

    /// Returns the distance between the numbers of two items of this part.
    pub(crate) fn step(self) -> u64 {
        self.of
    }

    /// Returns the average share of this part, from 0 to 1.
    pub(crate) fn fraction(self) -> f64 {
        1.0 / self.of as f64
    }

    /// Returns the part of one of several workers.
    pub(crate) fn of_worker(self, worker: u64, workers: u64) -> Part {
        Part {
            index: self.number(worker),
            of: self.of * workers,
        }
    }
}

impl Default for Part {
    fn default() -> Self {
        Part::WHOLE
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

impl FromStr for Part {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Self, PartError> {
        let (part, of) = text.split_once('/').ok_or(PartError::Format)?;
        let (part, of): (u64, u64) = (part.trim().parse()?, of.trim().parse()?);
        match part.checked_sub(1) {
            _ if !(1..=MOST).contains(&of) => Err(PartError::Parts),
            Some(index) if index < of => Ok(Part { index, of }),
            _ => Err(PartError::Range { part, of }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> Part {
        text.parse().unwrap()
    }

    #[test]
    fn parts_divide_everything_exactly() {
        for all in [0, 1, 2, 3, 100, 101] {
            let parts = ["1/3", "2/3", "3/3"].map(part);
            assert_eq!(parts.map(|it| it.share(all)).iter().sum::<u64>(), all);
            let numbers = parts
                .iter()
                .flat_map(|it| (0..it.share(all)).map(|n| it.number(n)));
            let mut numbers: Vec<u64> = numbers.collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..all), "{all}");
        }
        assert_eq!(part("2/3").to_string(), "2/3");
        // Two workers of one part have its numbers.
        let workers = [0, 1].map(|worker| part("2/3").of_worker(worker, 2));
        let numbers = workers.map(|worker| [0, 1].map(|n| worker.number(n)));
        assert_eq!(numbers, [[1, 7], [4, 10]]);
    }

    #[test]
    fn parts_that_do_not_exist_are_refused() {
        let said = |text: &str| text.parse::<Part>().unwrap_err().to_string();
        assert_eq!(
            said("4/3"),
            "part 4 of 3 does not exist: expected 1/3 to 3/3"
        );
        assert_eq!(
            said("0/3"),
            "part 0 of 3 does not exist: expected 1/3 to 3/3"
        );
        assert_eq!(said("1/0"), "expected 1 to 10000 parts");
        assert_eq!(said("2"), "expected a part such as 2/3");
        assert_eq!(
            said("a/3"),
            "expected a part such as 2/3: invalid digit found in string"
        );
    }
}
