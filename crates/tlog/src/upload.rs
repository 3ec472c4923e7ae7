//! Uploads of entries to a mirror: their packages, and the state of the mirror
//! (C2SP tlog-mirror, main of 2026-07-22).

use std::fmt;
use std::ops::Range;

use base64_simd::STANDARD;

use crate::checkpoint::parse_size;
use crate::tile::TILE_WIDTH;

/// Returns the leaves of the package that begins at `start` in an upload that ends at `end`; `None`
/// if there is no such package.
#[must_use]
pub fn package_leaves(start: u64, end: u64) -> Option<Range<u64>> {
    // A client may name any start.
    let next = start.saturating_add(TILE_WIDTH - start % TILE_WIDTH);
    (start < end).then(|| start..next.min(end))
}

/// The state of a mirror, for clients that continue an upload: the body of the responses 202 and
/// 409, which `Display` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorInfo {
    /// Size of a pending checkpoint.
    pub size: u64,
    /// Index of the first entry that the mirror needs.
    pub next: u64,
    /// Ticket for the next request.
    pub ticket: Vec<u8>,
}

impl MirrorInfo {
    /// Parses the body of a response; `None` if it is invalid.
    #[must_use]
    pub fn parse(body: &str) -> Option<Self> {
        let mut lines = body.strip_suffix('\n')?.split('\n');
        let info = Self {
            size: parse_size(lines.next()?)?,
            next: parse_size(lines.next()?)?,
            ticket: STANDARD.decode_to_vec(lines.next()?).ok()?,
        };
        lines.next().is_none().then_some(info)
    }
}

impl fmt::Display for MirrorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ticket = STANDARD.encode_to_string(&self.ticket);
        writeln!(f, "{}\n{}\n{ticket}", self.size, self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::MAX_TREE_SIZE;

    /// The example of the specification's rules: packages are aligned at multiples of 256.
    #[test]
    fn packages_are_aligned() {
        let of = |start, end| {
            let mut packages = vec![start];
            while let Some(leaves) = package_leaves(packages[packages.len() - 1], end) {
                assert_eq!(leaves.start, packages[packages.len() - 1]);
                packages.push(leaves.end);
            }
            packages
        };
        assert_eq!(of(7, 7), [7]);
        assert_eq!(of(7, 8), [7, 8]);
        assert_eq!(of(0, 256), [0, 256]);
        assert_eq!(of(255, 700), [255, 256, 512, 700]);
        let end = MAX_TREE_SIZE;
        assert_eq!(of(end - 257, end), [end - 257, end - 256, end]);
        assert_eq!(of(u64::MAX - 1, u64::MAX), [u64::MAX - 1, u64::MAX]);
    }

    #[test]
    fn the_state_is_three_lines() {
        let (size, next) = (300, 256);
        for (ticket, text) in [
            (Vec::new(), "300\n256\n\n"),
            (b"ticket".to_vec(), "300\n256\ndGlja2V0\n"),
        ] {
            let info = MirrorInfo { size, next, ticket };
            assert_eq!(info.to_string(), text);
            assert_eq!(MirrorInfo::parse(text), Some(info));
        }
        for wrong in [
            "",
            "\n",
            "1\n2\n",
            "1\n2\n\n\n",
            "1\n02\n\n",
            "1\n2\n~\n",
            "1\n2\nAA==\nx",
        ] {
            assert_eq!(MirrorInfo::parse(wrong), None, "{wrong:?}");
        }
    }
}
