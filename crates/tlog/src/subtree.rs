//! Subtrees: the intervals of leaves that have short proofs of consistency with the whole tree
//! (draft-ietf-plants-merkle-tree-certs, section "Subtrees", which C2SP tlog-cosignature and
//! tlog-witness use; C2SP main of 2026-07-22).

use std::fmt;
use std::ops::Range;

/// An interval of leaves whose start is a multiple of its size, rounded up to a power of two.
///
/// `Display` writes the interval: `[8, 13)`.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::Subtree;
///
/// let subtree = Subtree::new(8, 13).ok_or("not aligned")?;
/// assert_eq!((subtree.size(), subtree.to_string()), (5, "[8, 13)".to_owned()));
/// assert_eq!(Subtree::new(7, 9), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subtree {
    start: u64,
    end: u64,
}

impl Subtree {
    /// Returns the subtree of the leaves `start..end`; `None` if this interval is not a subtree.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Option<Self> {
        let size = end.checked_sub(start)?;
        // The size can only be rounded up to 2^64 if every start but 0 is too large.
        let aligned = match size.checked_next_power_of_two() {
            Some(rounded) => start.is_multiple_of(rounded),
            None => start == 0,
        };
        aligned.then_some(Self { start, end })
    }

    /// Returns the first `size` leaves, which are always a subtree.
    #[must_use]
    pub fn first(size: u64) -> Self {
        Self {
            start: 0,
            end: size,
        }
    }

    /// Returns two adjacent subtrees that together contain the leaves `start..end`: the second one
    /// ends with them, and less than half of the first one is before them. `None` if `start` is
    /// greater than `end`.
    #[must_use]
    pub fn covering(start: u64, end: u64) -> Option<(Self, Self)> {
        let empty = Self { start: end, end };
        if end.checked_sub(start)? <= 1 {
            return Some((Self { start, end }, empty));
        }
        let last = end - 1;
        // Height at which the paths to the first and to the last leaf meet, and the first leaf on
        // the right of this node.
        let below = (1 << (start ^ last).ilog2()) - 1;
        let middle = last & !below;
        // The first leaf of the smallest subtree that contains all leaves before the middle.
        let height = u64::BITS - (!start & below).leading_zeros();
        let left = Self {
            start: start >> height << height,
            end: middle,
        };
        Some((left, Self { start: middle, end }))
    }

    /// Returns the index of the first leaf.
    #[must_use]
    pub fn start(self) -> u64 {
        self.start
    }

    /// Returns the index after the last leaf.
    #[must_use]
    pub fn end(self) -> u64 {
        self.end
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn size(self) -> u64 {
        self.end - self.start
    }

    /// Returns the indices of the leaves.
    #[must_use]
    pub fn leaves(self) -> Range<u64> {
        self.start..self.end
    }
}

impl fmt::Display for Subtree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_subtrees() {
        for (start, end) in [
            (0, 0),
            (7, 7),
            (7, 8),
            (4, 8),
            (8, 13),
            (0, u64::MAX),
            (0, (1 << 63) + 1),
            (1 << 63, u64::MAX),
            (u64::MAX, u64::MAX),
        ] {
            let subtree = Subtree::new(start, end).unwrap();
            assert_eq!((subtree.start(), subtree.end()), (start, end));
            assert_eq!(subtree.size(), end - start);
        }
        for (start, end) in [
            (1, 0),
            (7, 9),
            (4, 9),
            (2, 5),
            (1, 3),
            (1, (1 << 63) + 2),
            (1 << 62, u64::MAX),
        ] {
            assert_eq!(Subtree::new(start, end), None, "{start} {end}");
        }
    }

    #[test]
    fn covering_subtrees() {
        let covering = |start, end| {
            let (left, right) = Subtree::covering(start, end).unwrap();
            format!("{left} {right}")
        };
        assert_eq!(covering(5, 13), "[4, 8) [8, 13)");
        assert_eq!(covering(7, 9), "[7, 8) [8, 9)");
        assert_eq!(covering(7, 8), "[7, 8) [8, 8)");
        assert_eq!(covering(7, 7), "[7, 7) [7, 7)");
        let half = 1u64 << 63;
        assert_eq!(
            covering(0, u64::MAX),
            format!("[0, {half}) [{half}, {})", u64::MAX)
        );
        assert_eq!(Subtree::covering(8, 7), None);
    }

    /// The properties of the draft, for all intervals below 300.
    #[test]
    fn covering_subtrees_are_valid_and_short() {
        for end in 0..300 {
            for start in 0..=end {
                let (left, right) = Subtree::covering(start, end).unwrap();
                for subtree in [left, right] {
                    assert_eq!(Subtree::new(subtree.start, subtree.end), Some(subtree));
                }
                assert_eq!((left.end, right.end), (right.start, end));
                assert!(left.start <= start);
                if start < end {
                    assert!(start - left.start < left.end - start, "{start} {end}");
                }
            }
        }
    }
}
