//! Generator of chains to submit, created on demand or in advance.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lucarne_ct::EntryKind;
use lucarne_mint::{KeyPair, KeyType, LeafOptions, MintError};
use parking_lot::Mutex;

use super::certificate_template::{
    CertificateTemplate, LABEL, LAST_UTC_TIME, VariableFields, sample_validity,
};
use super::profile::{DAY, Profile};
use super::submission::{ChainSuffix, Submission};
use super::{Authorities, Issuers};
use crate::random::Random;

/// Interval `[start, end)` of the notAfter that a log accepts, in seconds since 1970; `None` is
/// unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemporalInterval {
    /// First second.
    pub start: Option<i64>,
    /// First second after the interval.
    pub end: Option<i64>,
}

impl TemporalInterval {
    /// Returns the range of notAfter for a certificate created at `now` with a usual lifetime of
    /// `days`. The certificate is unexpired if the interval permits it.
    pub(crate) fn not_after(&self, now: i64, days: i64) -> (i64, i64) {
        let last = now + days * DAY;
        let end = self.end.map_or(last, |end| end - 1);
        let start = self.start.unwrap_or(i64::MIN);
        let usual = (start.max(now + HOUR), end.min(last));
        let (from, to) = match usual {
            (from, to) if from <= to => (from, to),
            _ => (self.start.unwrap_or(end - DAY), end),
        };
        match from {
            0..=LAST_UTC_TIME => (from, to.min(LAST_UTC_TIME)),
            _ => (from, to),
        }
    }
}

const HOUR: i64 = 3600;

/// Generator of any number of chains, usable from any thread.
#[derive(Debug)]
pub struct ChainGenerator {
    profiles: Vec<ProfileTemplates>,
    weight: u64,
    /// Probability of a precertificate.
    precerts: f64,
    temporal_interval: TemporalInterval,
    /// Prefix of this run's serial numbers, so that two runs have different serial numbers.
    run: u64,
    next: AtomicU64,
    stock: Mutex<Vec<Submission>>,
}

#[derive(Debug)]
struct ProfileTemplates {
    weight: u64,
    days: i64,
    certificate: CertificateTemplate,
    precertificate: CertificateTemplate,
    suffix: Arc<ChainSuffix>,
}

impl ChainGenerator {
    /// Creates a generator of chains by `issuers`. `precerts` (0 to 1) is the share of
    /// precertificates, and notAfter is in `temporal_interval`. Serial numbers count from `offset`
    /// after 64 random bits.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn new(
        authorities: &Authorities,
        issuers: Issuers,
        precerts: f64,
        temporal_interval: TemporalInterval,
        offset: u64,
    ) -> Result<Self, MintError> {
        let mut run = [0; 8];
        aws_lc_rs::rand::fill(&mut run).map_err(|_| MintError::Crypto("random numbers"))?;
        let mut keys = HashMap::new();
        let given = authorities.leaf_key();
        let profiles: Vec<ProfileTemplates> = authorities
            .profiles(issuers)
            .iter()
            .map(|profile| {
                ProfileTemplates::new(profile, temporal_interval, given.clone(), &mut keys)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            weight: profiles.iter().map(|profile| profile.weight).sum(),
            profiles,
            precerts,
            temporal_interval,
            run: u64::from_be_bytes(run),
            next: AtomicU64::new(offset),
            stock: Mutex::default(),
        })
    }

    /// Creates `count` chains in advance, on all cores.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn stock(&self, count: u64, seed: u64) -> Result<(), MintError> {
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let share = |thread: u64| {
            let mut random = Random::new(seed, thread ^ 0x57_0c4b);
            let mine = count / threads + u64::from(thread < count % threads);
            (0..mine).map(|_| self.mint(&mut random, now())).collect()
        };
        let shares: Vec<Result<Vec<Submission>, MintError>> = thread::scope(|scope| {
            let minting: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || share(thread)))
                .collect();
            let joined = minting.into_iter().map(|thread| thread.join());
            joined
                .map(|share| share.unwrap_or(Err(MintError::Crypto("a minting thread"))))
                .collect()
        });
        for share in shares {
            self.stock.lock().append(&mut share?);
        }
        Ok(())
    }

    /// Returns the next chain, and whether it was created in advance.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub(crate) fn next(&self, random: &mut Random) -> Result<(Submission, bool), MintError> {
        let stocked = self.stock.lock().pop();
        match stocked {
            Some(submission) => Ok((submission, true)),
            None => Ok((self.mint(random, now())?, false)),
        }
    }

    fn mint(&self, random: &mut Random, now: i64) -> Result<Submission, MintError> {
        let profile = self.choose(random.below(self.weight));
        let (from, to) = self.temporal_interval.not_after(now, profile.days);
        let not_after = from + random.below((to - from + 1).unsigned_abs()) as i64;
        let mut serial = [0; 16];
        serial[..8].copy_from_slice(&self.run.to_be_bytes());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        serial[8..].copy_from_slice(&number.to_be_bytes());
        let fields = VariableFields {
            serial,
            not_before: (now - HOUR).min(not_after - HOUR),
            not_after,
        };
        let (kind, template) = if random.chance(self.precerts) {
            (EntryKind::Precert, &profile.precertificate)
        } else {
            (EntryKind::X509, &profile.certificate)
        };
        Ok(Submission {
            kind,
            leaf: template.mint(&fields)?.into(),
            suffix: Arc::clone(&profile.suffix),
        })
    }

    fn choose(&self, mut point: u64) -> &ProfileTemplates {
        for profile in &self.profiles {
            match point.checked_sub(profile.weight) {
                Some(rest) => point = rest,
                None => return profile,
            }
        }
        &self.profiles[0]
    }
}

impl ProfileTemplates {
    fn new(
        profile: &Profile<'_>,
        temporal_interval: TemporalInterval,
        given: Option<Arc<KeyPair>>,
        keys: &mut HashMap<KeyType, Arc<KeyPair>>,
    ) -> Result<Self, MintError> {
        let key = match given.or_else(|| keys.get(&profile.subject).cloned()) {
            Some(key) => key,
            None => Arc::new(KeyPair::generate(profile.subject)?),
        };
        keys.insert(profile.subject, Arc::clone(&key));
        let mut options = LeafOptions::with_key(names(profile.names), key);
        let (sample, _) = temporal_interval.not_after(now(), profile.days);
        (options.not_before, options.not_after) = sample_validity(sample);
        options.scts = profile.scts;
        Ok(Self {
            weight: profile.weight,
            days: profile.days,
            certificate: CertificateTemplate::new(profile.issuer, &options)?,
            precertificate: CertificateTemplate::new(profile.issuer, &options.precertificate())?,
            suffix: Arc::new(ChainSuffix::new(profile.issuer)),
        })
    }
}

fn names(count: usize) -> Vec<String> {
    let further = (2..count).map(|number| format!("host{number}.{LABEL}.load.example.test"));
    let first = [
        format!("{LABEL}.load.example.test"),
        format!("www.{LABEL}.load.example.test"),
    ];
    first.into_iter().chain(further).take(count).collect()
}

/// Returns the seconds since 1970.
fn now() -> i64 {
    lucarne_mint::Time::now().unix()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use lucarne_ct::{Chain, ChainLimits, Policy, Validator};

    use super::*;
    use crate::ct::Roots;

    fn body(submission: &Submission) -> Vec<u8> {
        let mut leaf = String::new();
        submission.encode_leaf(&mut leaf);
        submission.parts(&leaf).concat()
    }

    #[test]
    fn a_log_accepts_every_sort() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::open_or_create(&directory.path().join("ca")).unwrap();
        let (accepted, _) = lucarne_ct::Roots::from_pem(roots.roots_pem().as_bytes());
        let (start, end) = (now() + 10 * DAY, now() + 20 * DAY);
        let policy = Policy {
            not_after_start: Some(start as u64 * 1000),
            not_after_limit: Some(end as u64 * 1000),
            ..Policy::default()
        };
        let validator = Validator::new(Arc::new(accepted), policy);
        let temporal_interval = TemporalInterval {
            start: Some(start),
            end: Some(end),
        };
        let mut identities = HashSet::new();
        let mut lengths = HashSet::new();
        for issuers in [Issuers::Rsa, Issuers::P256, Issuers::P384, Issuers::Webpki] {
            let authorities = Authorities::Made(Box::new(roots.clone()));
            let chains =
                ChainGenerator::new(&authorities, issuers, 0.5, temporal_interval, 0).unwrap();
            chains.stock(60, 1).unwrap();
            let mut random = Random::new(1, 1);
            for number in 0..70 {
                let (submission, stocked) = chains.next(&mut random).unwrap();
                assert_eq!(stocked, number < 60);
                let chain =
                    Chain::decode_json(&body(&submission), &ChainLimits::default()).unwrap();
                lengths.insert(chain.len());
                let now = now() as u64 * 1000;
                let examined = validator.examine(&chain, submission.kind, now).unwrap();
                let entry = validator.verify(examined).unwrap();
                assert_eq!(Some(entry.signed), submission.signed());
                assert!(identities.insert(entry.identity));
            }
        }
        assert_eq!(lengths, HashSet::from([2, 3]));
    }

    #[test]
    fn not_after_stays_in_the_window() {
        let temporal_interval = |start, end| TemporalInterval { start, end };
        let range =
            |temporal_interval: TemporalInterval| temporal_interval.not_after(1_000_000_000, 90);
        let last = 1_000_000_000 + 90 * DAY;
        assert_eq!(range(temporal_interval(None, None)), (1_000_003_600, last));
        assert_eq!(
            range(temporal_interval(Some(0), Some(1_000_010_000))),
            (1_000_003_600, 1_000_009_999)
        );
        // An interval wholly in the past, and one beyond the usual lifetime.
        assert_eq!(range(temporal_interval(Some(5), Some(9))), (5, 8));
        let far = last + 5;
        assert_eq!(
            range(temporal_interval(Some(far), Some(far + 9))),
            (far, far + 8)
        );
        assert_eq!(
            range(temporal_interval(
                Some(LAST_UTC_TIME),
                Some(LAST_UTC_TIME + 9)
            )),
            (LAST_UTC_TIME, LAST_UTC_TIME)
        );
    }
}
