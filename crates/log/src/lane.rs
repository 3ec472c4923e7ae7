//! The two lanes of submissions: certificates that are waited for come before those that are not.
//!
//! A certificate that was just issued has somebody who waits for its SCTs; one that is posted again
//! years later, or that has its SCTs already, has not. CAs post the latter by the million. So the
//! former have a lane of their own: they are in the next round, whatever waits in the other one. The
//! configuration calls the latter a log's `backlog`; in this crate that is what the dedup index has to read.

use std::num::NonZeroU32;
use std::time::Duration;

use lucarne_ct::{Certificate, Entry, SignedEntry};

/// The lane of a submission that is new to the log. Duplicates are answered before there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Certificates and precertificates of today, without SCTs.
    Fresh,
    /// Those that were issued before, and final certificates that embed SCTs.
    Old,
}

/// The settings of the lanes of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// Time after its notBefore for which a certificate is fresh.
    pub freshness: Duration,
    /// Most old entries per second, on average; `None` is what the rounds have room for.
    pub old_rate: Option<NonZeroU32>,
    /// Most old entries that wait; `None` is a quarter of the pool.
    pub old_pool: Option<usize>,
}

impl LaneConfig {
    /// The usual [`freshness`](Self::freshness): a day, and some hours for clocks that differ and
    /// for CAs that date certificates back.
    pub const FRESHNESS: Duration = Duration::from_secs(28 * 3600);
}

impl LaneConfig {
    /// Part of the pool that is for old entries, if nothing is said of it.
    const OLD_PART: usize = 4;

    /// Most old entries that wait in a pool of so many.
    pub(crate) fn old_share(&self, pool_size: usize) -> usize {
        let share = self.old_pool.unwrap_or(pool_size / Self::OLD_PART);
        share.clamp(1, pool_size.max(1))
    }
}

impl Default for LaneConfig {
    fn default() -> Self {
        LaneConfig {
            freshness: Self::FRESHNESS,
            old_rate: None,
            old_pool: None,
        }
    }
}

impl Lane {
    /// The lane of an entry whose certificate has this notBefore (Unix milliseconds), at `now_ms`.
    /// One that cannot be read makes it old.
    pub(crate) fn of(
        entry: &Entry,
        not_before_ms: Option<i64>,
        now_ms: u64,
        freshness: Duration,
    ) -> Lane {
        let issued_since = i128::from(now_ms) - freshness.as_millis() as i128;
        let is_young = not_before_ms.is_some_and(|at| i128::from(at) >= issued_since);
        match is_young && !embeds_scts(&entry.signed) {
            true => Lane::Fresh,
            false => Lane::Old,
        }
    }

    /// The name in metrics and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lane::Fresh => "fresh",
            Lane::Old => "old",
        }
    }
}

/// Returns whether this is a certificate with SCTs in it (RFC 6962, 3.3), readable or not. A
/// precertificate is submitted to get them.
fn embeds_scts(signed: &SignedEntry) -> bool {
    match signed {
        SignedEntry::Precert { .. } => false,
        SignedEntry::X509 { certificate } => Certificate::parse(certificate)
            .and_then(|certificate| certificate.embedded_scts())
            .map_or(true, |scts| scts.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use lucarne_ct::{Chain, EntryKind, Policy, Roots, Validator};
    use lucarne_mint::testing::Pki;
    use lucarne_mint::{LeafOptions, Time};

    use super::*;

    const NOW: i64 = 1_774_000_000;
    const HOUR: i64 = 3600;

    fn lane(not_before: i64, scts: usize, kind: EntryKind) -> Lane {
        let pki = Pki::shared();
        let mut options = LeafOptions {
            not_before: Time::from_unix(not_before),
            scts,
            ..pki.leaf("lane.example")
        };
        if kind == EntryKind::Precert {
            options = options.precertificate();
        }
        let chain = pki.p256.chain(pki.p256.issue(&options).unwrap());
        let chain = Chain::from_ders(chain.certificates()).unwrap();
        let (roots, _) = Roots::from_pem(pki.roots_pem().as_bytes());
        let validator = Validator::new(roots.into(), Policy::default());
        let now_ms = NOW as u64 * 1000;
        let examined = validator.examine(&chain, kind, now_ms).unwrap();
        let not_before_ms = examined.not_before();
        let entry = validator.verify(examined).unwrap();
        Lane::of(&entry, not_before_ms, now_ms, LaneConfig::FRESHNESS)
    }

    #[test]
    fn what_is_waited_for_is_fresh() {
        use EntryKind::{Precert, X509};
        for kind in [Precert, X509] {
            assert_eq!(lane(NOW - HOUR, 0, kind), Lane::Fresh);
            assert_eq!(lane(NOW - 28 * HOUR, 0, kind), Lane::Fresh);
            assert_eq!(lane(NOW - 28 * HOUR - 1, 0, kind), Lane::Old);
            // Ahead of the clock: it is of today all the more.
            assert_eq!(lane(NOW + HOUR, 0, kind), Lane::Fresh);
        }
        assert_eq!(lane(NOW - HOUR, 2, X509), Lane::Old);
        assert_eq!(lane(NOW - 400 * 24 * HOUR, 2, X509), Lane::Old);
    }

    #[test]
    fn a_time_that_cannot_be_read_is_old() {
        let pki = Pki::shared();
        let chain = pki.certificate(&pki.p256, "lane.example").unwrap();
        let chain = Chain::from_ders(chain.certificates()).unwrap();
        let (roots, _) = Roots::from_pem(pki.roots_pem().as_bytes());
        let validator = Validator::new(roots.into(), Policy::default());
        let examined = validator.examine(&chain, EntryKind::X509, 0).unwrap();
        let entry = validator.verify(examined).unwrap();
        let lane = Lane::of(&entry, None, 0, LaneConfig::FRESHNESS);
        assert_eq!(lane, Lane::Old);
    }
}
