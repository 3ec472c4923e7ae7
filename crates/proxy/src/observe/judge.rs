//! The judgement of one certificate: its SCTs, each with what became of it, and the
//! policies' verdicts.

use std::sync::Arc;

use lucarne_ct::{
    Certificate, CtPolicy, Delivery, DerError, LogList, LoggedEntries, MOST_SCTS, PublicKey, Sct,
    SctFinding, SeenSct, UnreadSct, Verdict, read_scts, sct_list_of_ocsp,
};

use super::issuer::Path;
use super::staple::Staple;

/// The policies that are asked.
pub(crate) const POLICIES: [CtPolicy; 2] = CtPolicy::ALL;

/// The lists of SCTs that came beside a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SctDeliveries {
    /// The stapled OCSP response; empty: none.
    pub(crate) ocsp: Vec<u8>,
    /// The list of the TLS extension; empty: none.
    pub(crate) tls: Vec<u8>,
}

impl SctDeliveries {
    pub(crate) fn len(&self) -> usize {
        self.ocsp.len() + self.tls.len()
    }
}

/// An SCT that came with a certificate.
#[derive(Debug, Clone)]
pub(crate) struct PresentedSct {
    pub(crate) seen: SeenSct,
    /// True if a log that chains go to has signed it, in the list or not.
    pub(crate) by_target: bool,
}

/// The standing of a certificate, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// A stapled OCSP response says so, and can be believed.
    Revoked,
    /// It came without any SCT: nothing shows that it is in a log.
    NoSct,
    /// An SCT is false.
    Invalid,
    /// None is false, none is valid: the logs or the issuer are not known.
    Unverified,
    /// There are valid ones, not enough for a policy.
    PolicyFailed,
    /// Enough, but the stapled OCSP response proves nothing.
    StapleUnverified,
    /// Enough for every policy.
    Good,
}

impl Standing {
    /// A word for labels, filters and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Standing::Revoked => "revoked",
            Standing::NoSct => "no-sct",
            Standing::Invalid => "invalid",
            Standing::Unverified => "unverified",
            Standing::PolicyFailed => "policy-failed",
            Standing::StapleUnverified => "staple-unverified",
            Standing::Good => "good",
        }
    }

    /// For people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Standing::Revoked => "revoked",
            Standing::NoSct => "no SCT",
            Standing::Invalid => "invalid SCT",
            Standing::Unverified => "not verified",
            Standing::PolicyFailed => "policy failed",
            Standing::StapleUnverified => "staple not verified",
            Standing::Good => "good",
        }
    }
}

/// The judgement of one certificate.
#[derive(Debug, Clone)]
pub(crate) struct Judgement {
    pub(crate) scts: Vec<PresentedSct>,
    /// SCTs beyond [`MOST_SCTS`], which nothing has looked at.
    pub(crate) left_out: usize,
    /// One for each of [`POLICIES`].
    pub(crate) verdicts: [Verdict; POLICIES.len()],
    pub(crate) standing: Standing,
    pub(crate) staple: Staple,
    /// True if the SCTs of the TLS extension were there to be looked at.
    pub(crate) tls_seen: bool,
    /// True if there was a log list: without one the verdicts mean nothing.
    pub(crate) listed: bool,
}

impl Judgement {
    /// Returns whether the SCTs are not enough for a policy, as far as the log list tells.
    pub(crate) fn fails_policy(&self) -> bool {
        self.listed && !self.verdicts.iter().all(Verdict::is_compliant)
    }

    /// Returns what could make a difference and cannot be seen: where the SCTs are too few.
    pub(crate) fn unseen(&self) -> Option<&'static str> {
        let too_few = self.scts.is_empty() || self.fails_policy();
        (too_few && !self.tls_seen).then_some(UNSEEN)
    }

    /// A log that has it, by an SCT that verifies.
    pub(crate) fn logged_by(&self) -> Option<&str> {
        let proven = |sct: &&PresentedSct| sct.by_target || sct.seen.finding == SctFinding::Valid;
        let log = self.scts.iter().find(proven)?.seen.log.as_deref();
        Some(log.map_or("a log that chains go to", |log| &log.description))
    }

    /// Returns whether a log of the list has promised to have it.
    pub(crate) fn is_logged(&self) -> bool {
        self.scts
            .iter()
            .any(|sct| sct.seen.finding == SctFinding::Valid)
    }
}

/// The handshake of rustls does not offer the extension, so that servers do not send it.
const UNSEEN: &str = "SCTs by TLS extension cannot be seen here, as rustls does not ask servers \
                      for them: browsers do, and may get enough";

/// A certificate with what is above and beside it.
pub(crate) struct Subject<'a> {
    pub(crate) leaf: &'a [u8],
    pub(crate) path: &'a Path,
    pub(crate) deliveries: &'a SctDeliveries,
}

/// Judges `subject`, at `now_ms` since 1970. `targets` are the keys of logs that chains go to.
pub(crate) fn judge(
    subject: &Subject<'_>,
    list: Option<&LogList>,
    targets: &[Arc<PublicKey>],
    now_ms: u64,
) -> Judgement {
    let leaf = match Certificate::parse(subject.leaf) {
        Ok(leaf) => leaf,
        Err(error) => return unreadable(error.to_string(), list.is_some()),
    };
    let issuer = subject.path.issuer.as_deref();
    let staple = Staple::of(&subject.deliveries.ocsp, &leaf, issuer, now_ms);
    let entries = entries(&leaf, subject.path, &staple);
    let presented = presented(&leaf, subject.deliveries, list);
    let left_out = presented.len().saturating_sub(MOST_SCTS);
    let scts: Vec<_> = presented
        .into_iter()
        .take(MOST_SCTS)
        .map(|(delivery, read)| {
            let seen = SeenSct::look_at(read, delivery, &entries, list, now_ms);
            let by_target = is_by_one_of(targets, &seen, &entries, now_ms);
            PresentedSct { seen, by_target }
        })
        .collect();
    let valid: Vec<_> = scts.iter().filter_map(|sct| sct.seen.valid()).collect();
    let (not_before, not_after) = (leaf.not_before(), leaf.not_after());
    let verdicts = POLICIES.map(|policy| {
        let not_after = not_after.unwrap_or(i64::MAX);
        policy.judge(not_before.unwrap_or(0), not_after, &valid)
    });
    let standing = standing(&scts, &verdicts, &staple);
    Judgement {
        scts,
        left_out,
        verdicts,
        standing,
        staple,
        tls_seen: !subject.deliveries.tls.is_empty(),
        listed: list.is_some(),
    }
}

fn is_by_one_of(
    keys: &[Arc<PublicKey>],
    seen: &SeenSct,
    entries: &LoggedEntries,
    now_ms: u64,
) -> bool {
    seen.sct.as_ref().is_some_and(|sct| {
        let mut keys = keys.iter().filter(|key| key.log_id() == sct.log_id);
        keys.any(|key| entries.verify(sct, seen.delivery, key, now_ms) == SctFinding::Valid)
    })
}

fn standing(scts: &[PresentedSct], verdicts: &[Verdict], staple: &Staple) -> Standing {
    if *staple == Staple::Revoked {
        Standing::Revoked
    } else if scts.is_empty() {
        Standing::NoSct
    } else if scts.iter().any(|sct| sct.seen.finding.is_false()) {
        Standing::Invalid
    } else if !scts.iter().any(|sct| sct.seen.finding == SctFinding::Valid) {
        Standing::Unverified
    } else if !verdicts.iter().all(Verdict::is_compliant) {
        Standing::PolicyFailed
    } else if matches!(staple, Staple::Unproven(_)) {
        Standing::StapleUnverified
    } else {
        Standing::Good
    }
}

/// A certificate that is none: nothing in it counts.
fn unreadable(why: String, listed: bool) -> Judgement {
    let seen = SeenSct {
        sct: None,
        delivery: Delivery::Embedded,
        log: None,
        finding: SctFinding::Unreadable(format!("the certificate cannot be read: {why}")),
    };
    let sct = PresentedSct {
        seen,
        by_target: false,
    };
    Judgement {
        scts: vec![sct],
        left_out: 0,
        verdicts: POLICIES.map(|policy| policy.judge(0, i64::MAX, &[])),
        standing: Standing::Invalid,
        staple: Staple::Absent,
        tls_seen: true,
        listed,
    }
}

/// Every SCT that came, in the order embedded, OCSP, TLS; if there are more than are looked at,
/// those of logs in the list first. A list that cannot be read counts as one SCT that cannot.
fn presented(
    leaf: &Certificate<'_>,
    deliveries: &SctDeliveries,
    list: Option<&LogList>,
) -> Vec<(Delivery, Result<Sct, UnreadSct>)> {
    let mut found = Vec::new();
    let mut add = |delivery, list: Result<Option<&[u8]>, DerError>| {
        found.extend(read_scts(list).into_iter().map(|sct| (delivery, sct)));
    };
    add(Delivery::Embedded, leaf.embedded_scts());
    if !deliveries.ocsp.is_empty() {
        // A response that cannot be read has no SCT that could be false.
        add(
            Delivery::Ocsp,
            Ok(sct_list_of_ocsp(&deliveries.ocsp).unwrap_or(None)),
        );
    }
    let tls = (!deliveries.tls.is_empty()).then_some(&deliveries.tls[..]);
    add(Delivery::Tls, Ok(tls));
    if found.len() > MOST_SCTS {
        let is_known = |sct: &Sct| list.is_some_and(|list| list.get(&sct.log_id).is_some());
        found.sort_by_key(|(_, sct)| !sct.as_ref().is_ok_and(is_known));
    }
    found
}

/// The entries that logs may have signed for a certificate, as far as its issuer is known.
fn entries(leaf: &Certificate<'_>, path: &Path, staple: &Staple) -> LoggedEntries {
    let issuer = path.issuer.as_ref();
    let issuer = issuer.and_then(|issuer| Certificate::parse(&issuer.der).ok());
    let issuer = issuer.as_ref().ok_or(match path.is_namesake {
        true => SctFinding::OtherIssuer,
        false => SctFinding::NoIssuer,
    });
    LoggedEntries::new(leaf, issuer, *staple == Staple::Good)
}
