//! Judgement of a certificate: the findings about its SCTs, and the verdicts of the policies.

use std::sync::Arc;

use lucarne_ct::{
    Certificate, CtPolicy, Delivery, DerError, LogList, LoggedEntries, MOST_SCTS, PublicKey, Sct,
    SctFinding, SeenSct, UnreadSct, Verdict, read_scts, sct_list_of_ocsp,
};

use super::issuer::Path;
use super::staple::Staple;

/// Policies that certificates are checked against.
pub(crate) const POLICIES: [CtPolicy; 2] = CtPolicy::ALL;

/// SCTs that a server delivered outside the certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SctDeliveries {
    /// The stapled OCSP response; empty if there was none.
    pub(crate) ocsp: Vec<u8>,
    /// The SCT list of the TLS extension; empty if there was none.
    pub(crate) tls: Vec<u8>,
}

impl SctDeliveries {
    pub(crate) fn len(&self) -> usize {
        self.ocsp.len() + self.tls.len()
    }
}

/// An SCT that a server presented.
#[derive(Debug, Clone)]
pub(crate) struct PresentedSct {
    pub(crate) seen: SeenSct,
    /// `true` if one of the logs for submissions signed the SCT, even if the log list does not
    /// contain that log.
    pub(crate) by_target: bool,
}

/// Standing of a certificate, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// A verified stapled OCSP response states the revocation.
    Revoked,
    /// There was no SCT: nothing proves that a log has the certificate.
    NoSct,
    /// An SCT is false.
    Invalid,
    /// No SCT is false and none is valid, because the logs or the issuer are unknown.
    Unverified,
    /// There are valid SCTs, but too few for a policy.
    PolicyFailed,
    /// The SCTs satisfy every policy, but the stapled OCSP response is not verified.
    StapleUnverified,
    /// The SCTs satisfy every policy.
    Good,
}

impl Standing {
    /// Returns the word for labels, filters and JSON.
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

    /// Returns the judgement as words for the pages.
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

/// Judgement of a certificate.
#[derive(Debug, Clone)]
pub(crate) struct Judgement {
    pub(crate) scts: Vec<PresentedSct>,
    /// Number of SCTs beyond [`MOST_SCTS`], which were not checked.
    pub(crate) left_out: usize,
    /// Verdicts in the order of [`POLICIES`].
    pub(crate) verdicts: [Verdict; POLICIES.len()],
    pub(crate) standing: Standing,
    pub(crate) staple: Staple,
    /// True if the SCTs of the TLS extension were available.
    pub(crate) tls_seen: bool,
    /// Whether there was a log list. Without a log list, the verdicts have no meaning.
    pub(crate) listed: bool,
}

impl Judgement {
    /// Returns whether the SCTs do not satisfy a policy, according to the log list.
    pub(crate) fn fails_policy(&self) -> bool {
        self.listed && !self.verdicts.iter().all(Verdict::is_compliant)
    }

    /// Returns a note about SCTs that this proxy cannot see, if the visible ones are too few.
    pub(crate) fn unseen(&self) -> Option<&'static str> {
        let too_few = self.scts.is_empty() || self.fails_policy();
        (too_few && !self.tls_seen).then_some(UNSEEN)
    }

    /// Returns the name of a log that has the certificate, according to a verified SCT.
    pub(crate) fn logged_by(&self) -> Option<&str> {
        let proven = |sct: &&PresentedSct| sct.by_target || sct.seen.finding == SctFinding::Valid;
        let log = self.scts.iter().find(proven)?.seen.log.as_deref();
        Some(log.map_or("one of the configured logs", |log| &log.description))
    }

    /// Returns whether an SCT of a listed log is valid.
    pub(crate) fn is_logged(&self) -> bool {
        self.scts
            .iter()
            .any(|sct| sct.seen.finding == SctFinding::Valid)
    }
}

/// rustls does not offer the extension in its handshake, so servers do not send it.
const UNSEEN: &str = "SCTs of the TLS extension are not visible to the proxy, because rustls does \
                      not request them; browsers request them, and may receive enough";

/// A certificate with its path and the SCTs that were delivered beside it.
pub(crate) struct Subject<'a> {
    pub(crate) leaf: &'a [u8],
    pub(crate) path: &'a Path,
    pub(crate) deliveries: &'a SctDeliveries,
}

/// Judges `subject` at `now_ms` (Unix time). `targets` are the keys of the logs for submission.
pub(crate) fn judge(
    subject: &Subject<'_>,
    list: Option<&LogList>,
    targets: &[Arc<PublicKey>],
    now_ms: u64,
) -> Judgement {
    let leaf = match Certificate::parse(subject.leaf) {
        Ok(leaf) => leaf,
        Err(error) => return unreadable(&error, list.is_some()),
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

/// Judges bytes that are not a certificate.
fn unreadable(why: &DerError, listed: bool) -> Judgement {
    let seen = SeenSct {
        sct: None,
        delivery: Delivery::Embedded,
        log: None,
        finding: SctFinding::Unreadable(format!("the certificate cannot be parsed: {why}")),
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

/// Returns all SCTs in the order embedded, OCSP, TLS. If there are too many, SCTs of listed logs
/// come first. A list that cannot be parsed counts as one unreadable SCT.
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
        // An OCSP response that cannot be parsed has no SCT that could be false.
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

/// Returns the entries that logs may have signed for the certificate, if its issuer is known.
pub(crate) fn entries(leaf: &Certificate<'_>, path: &Path, staple: &Staple) -> LoggedEntries {
    let issuer = path.issuer.as_ref();
    let issuer = issuer.and_then(|issuer| Certificate::parse(&issuer.der).ok());
    let issuer = issuer.as_ref().ok_or(if path.is_namesake {
        SctFinding::OtherIssuer
    } else {
        SctFinding::NoIssuer
    });
    LoggedEntries::new(leaf, issuer, *staple == Staple::Good)
}
