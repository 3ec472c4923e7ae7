//! The two lanes of submissions: urgent certificates are logged before other certificates.
//!
//! Clients wait for the SCTs of a newly issued certificate. No client waits for the SCTs of an old
//! certificate, or of a certificate that already has SCTs, and CAs submit millions of these
//! certificates. Newly issued certificates therefore have their own lane: they are in the next
//! round, however many entries wait in the other lane. The configuration calls the other lane a
//! log's `backlog`; in this crate, a backlog belongs to the dedup index.

use std::num::NonZeroU32;
use std::time::Duration;

use lucarne_ct::{Certificate, Entry, SignedEntry};

/// The lane of a submission that is new to the log. Duplicates get a response before they have a
/// lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Newly issued certificates and precertificates without SCTs.
    Fresh,
    /// Older certificates, and final certificates that embed SCTs.
    Old,
}

/// The configuration of the lanes of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// The time after its notBefore during which a certificate is fresh.
    pub freshness: Duration,
    /// Maximum average rate of old entries per second. With `None`, old entries use the capacity of
    /// the rounds that fresh entries leave free.
    pub old_rate: Option<NonZeroU32>,
    /// Maximum number of old entries that wait; `None` means a quarter of the pool.
    pub old_pool: Option<usize>,
}

impl LaneConfig {
    /// The default of [`freshness`](Self::freshness): a day, plus some hours for different clocks
    /// and for CAs that backdate certificates.
    pub const FRESHNESS: Duration = Duration::from_secs(28 * 3600);
}

impl LaneConfig {
    /// The default divisor of the pool for the share of old entries.
    const OLD_PART: usize = 4;

    /// Returns the maximum number of waiting old entries in a pool of this size.
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
    /// Returns the lane of an entry at the time `now_ms`. `not_before_ms` is the notBefore of its
    /// certificate in Unix milliseconds. An entry without a readable notBefore is old.
    pub(crate) fn of(
        entry: &Entry,
        not_before_ms: Option<i64>,
        now_ms: u64,
        freshness: Duration,
    ) -> Lane {
        let issued_since = i128::from(now_ms) - freshness.as_millis() as i128;
        let is_young = not_before_ms.is_some_and(|at| i128::from(at) >= issued_since);
        if is_young && !embeds_scts(&entry.signed) {
            Lane::Fresh
        } else {
            Lane::Old
        }
    }

    /// Returns the stable name for metrics and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lane::Fresh => "fresh",
            Lane::Old => "old",
        }
    }
}

/// Returns whether the entry is a certificate with embedded SCTs (RFC 6962, section 3.3), valid or
/// not. An unreadable certificate counts as one with SCTs. Precertificates are submitted to get
/// SCTs, so they have none.
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
            // A certificate with a notBefore in the future is fresh.
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
