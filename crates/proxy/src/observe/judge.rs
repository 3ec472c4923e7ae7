//! The judgement of one certificate: its SCTs, each with what became of it, and the
//! policies' verdicts.

use std::sync::Arc;

use lucarne_ct::{
    Certificate, CtPolicy, Delivery, DerError, ListedLog, LogList, PublicKey, Sct, SctError,
    SctList, SignedEntry, ValidSct, Verdict, delivered_entry, embedded_entry, sct_list_of_ocsp,
};

use super::issuer::Path;
use super::staple::Staple;

/// More SCTs of one certificate are not looked at; browsers ask for two or three.
const MOST_SCTS: usize = 32;

/// The policies that are asked.
pub(crate) const POLICIES: [CtPolicy; 2] = [CtPolicy::chrome(), CtPolicy::apple()];

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

/// The finding about an SCT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The log of the list has signed it for this certificate.
    Valid,
    /// The log's key does not fit the signature: it is not for this certificate.
    BadSignature,
    /// Its time has not come yet (RFC 6962 section 5.2 calls that invalid).
    FromTheFuture,
    /// It cannot be read; why.
    Unreadable(String),
    /// The log is not in the list, or there is no list.
    UnknownLog,
    /// The issuer, whose key the log has signed too, is not known.
    NoIssuer,
    /// Certificates with the issuer's name are known, but with other keys.
    OtherIssuer,
    /// The OCSP response that it came in proves nothing.
    UnprovenStaple,
}

impl Finding {
    /// Returns whether the SCT is false, rather than only not known to be good.
    pub(crate) fn is_false(&self) -> bool {
        use Finding::{BadSignature, FromTheFuture, Unreadable};
        matches!(self, BadSignature | FromTheFuture | Unreadable(_))
    }

    /// A word for labels and JSON.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Finding::Valid => "valid",
            Finding::BadSignature => "bad-signature",
            Finding::FromTheFuture => "from-the-future",
            Finding::Unreadable(_) => "unreadable",
            Finding::UnknownLog => "unknown-log",
            Finding::NoIssuer => "no-issuer",
            Finding::OtherIssuer => "other-issuer",
            Finding::UnprovenStaple => "unverified-staple",
        }
    }

    /// A sentence for people.
    pub(crate) fn text(&self) -> String {
        match self {
            Finding::Valid => "valid".to_owned(),
            Finding::BadSignature => "the signature is not the log's over this certificate".into(),
            Finding::FromTheFuture => "its time has not come yet".to_owned(),
            Finding::Unreadable(why) => why.clone(),
            Finding::UnknownLog => "not verified: the log is not in the log list".to_owned(),
            Finding::NoIssuer => {
                "not verified: the issuer is not known, and the server did not send it".to_owned()
            }
            Finding::OtherIssuer => {
                "not verified: of the issuer only certificates with another key are known"
                    .to_owned()
            }
            Finding::UnprovenStaple => {
                "not verified: the OCSP response that it came in is not".to_owned()
            }
        }
    }
}

/// An SCT that came with a certificate.
#[derive(Debug, Clone)]
pub(crate) struct SeenSct {
    /// `None` where it could not be read.
    pub(crate) sct: Option<Sct>,
    pub(crate) delivery: Delivery,
    /// The log, if the list has it.
    pub(crate) log: Option<Arc<ListedLog>>,
    pub(crate) finding: Finding,
    /// True if a log that chains go to has signed it, in the list or not.
    pub(crate) by_target: bool,
}

/// The standing of a certificate, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// A stapled OCSP response says so, and can be believed.
    Revoked,
    /// It came without any SCT: it is in no log that anybody could name.
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
    pub(crate) scts: Vec<SeenSct>,
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
        let proven = |sct: &&SeenSct| sct.by_target || sct.finding == Finding::Valid;
        let log = self.scts.iter().find(proven)?.log.as_deref();
        Some(log.map_or("a log that chains go to", |log| &log.description))
    }

    /// Returns whether a log of the list has promised to have it.
    pub(crate) fn is_logged(&self) -> bool {
        self.scts.iter().any(|sct| sct.finding == Finding::Valid)
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
    let entries = Entries::new(&leaf, subject.path, &staple);
    let scts: Vec<_> = presented(&leaf, subject.deliveries)
        .into_iter()
        .take(MOST_SCTS)
        .map(|(delivery, read)| {
            let mut seen = look_at(read, delivery, &entries, list, now_ms);
            seen.by_target = is_by_one_of(targets, &seen, &entries, now_ms);
            seen
        })
        .collect();
    let valid: Vec<_> = scts.iter().filter_map(valid).collect();
    let (not_before, not_after) = (leaf.not_before(), leaf.not_after());
    let verdicts = POLICIES.map(|policy| {
        let not_after = not_after.unwrap_or(i64::MAX);
        policy.judge(not_before.unwrap_or(0), not_after, &valid)
    });
    let standing = standing(&scts, &verdicts, &staple);
    Judgement {
        scts,
        verdicts,
        standing,
        staple,
        tls_seen: !subject.deliveries.tls.is_empty(),
        listed: list.is_some(),
    }
}

fn is_by_one_of(keys: &[Arc<PublicKey>], seen: &SeenSct, entries: &Entries, now_ms: u64) -> bool {
    seen.sct.as_ref().is_some_and(|sct| {
        let mut keys = keys.iter().filter(|key| key.log_id() == sct.log_id);
        keys.any(|key| entries.verify(sct, seen.delivery, key, now_ms) == Finding::Valid)
    })
}

fn valid(seen: &SeenSct) -> Option<ValidSct<'_>> {
    let good = seen.finding == Finding::Valid;
    Some(ValidSct {
        log: seen.log.as_deref().filter(|_| good)?,
        timestamp_ms: seen.sct.as_ref()?.timestamp,
        delivery: seen.delivery,
    })
}

fn standing(scts: &[SeenSct], verdicts: &[Verdict], staple: &Staple) -> Standing {
    if *staple == Staple::Revoked {
        Standing::Revoked
    } else if scts.is_empty() {
        Standing::NoSct
    } else if scts.iter().any(|sct| sct.finding.is_false()) {
        Standing::Invalid
    } else if !scts.iter().any(|sct| sct.finding == Finding::Valid) {
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
    let sct = SeenSct {
        sct: None,
        delivery: Delivery::Embedded,
        log: None,
        by_target: false,
        finding: Finding::Unreadable(format!("the certificate cannot be read: {why}")),
    };
    Judgement {
        scts: vec![sct],
        verdicts: POLICIES.map(|policy| policy.judge(0, i64::MAX, &[])),
        standing: Standing::Invalid,
        staple: Staple::Absent,
        tls_seen: true,
        listed,
    }
}

/// Every SCT that came, in the order embedded, OCSP, TLS. A list that cannot be read counts
/// as one SCT that cannot.
fn presented(
    leaf: &Certificate<'_>,
    deliveries: &SctDeliveries,
) -> Vec<(Delivery, Result<Sct, UnreadSct>)> {
    let mut found = Vec::new();
    let mut add = |delivery, list: Result<Option<&[u8]>, DerError>| {
        let list = list.map_err(UnreadSct::from);
        let list = list.and_then(|list| Ok(list.map(SctList::parse).transpose()?));
        match list {
            Ok(Some(list)) => found.extend(
                list.iter()
                    .take(MOST_SCTS)
                    .map(|sct| (delivery, sct.map_err(UnreadSct::from))),
            ),
            Ok(None) => {}
            Err(why) => found.push((delivery, Err(why))),
        }
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
    found
}

/// The reasons why an SCT, or a list of some, cannot be read.
#[derive(Debug, thiserror::Error)]
enum UnreadSct {
    #[error(transparent)]
    Extension(#[from] DerError),
    #[error(transparent)]
    Sct(#[from] SctError),
}

fn look_at(
    read: Result<Sct, UnreadSct>,
    delivery: Delivery,
    entries: &Entries,
    list: Option<&LogList>,
    now_ms: u64,
) -> SeenSct {
    let sct = match read {
        Ok(sct) => sct,
        Err(why) => {
            return SeenSct {
                sct: None,
                delivery,
                log: None,
                finding: Finding::Unreadable(why.to_string()),
                by_target: false,
            };
        }
    };
    let log = list.and_then(|list| list.get(&sct.log_id)).cloned();
    let finding = match &log {
        None => Finding::UnknownLog,
        Some(log) => entries.verify(&sct, delivery, &log.key, now_ms),
    };
    SeenSct {
        sct: Some(sct),
        delivery,
        log,
        finding,
        by_target: false,
    }
}

/// The entries that logs may have signed for a certificate.
struct Entries {
    /// With the issuer's key; why it cannot be said.
    embedded: Result<SignedEntry, Finding>,
    delivered: SignedEntry,
    /// True if SCTs in the stapled OCSP response count.
    stapled: bool,
}

impl Entries {
    fn new(leaf: &Certificate<'_>, path: &Path, staple: &Staple) -> Self {
        let issuer = path.issuer.as_ref();
        let embedded = issuer.and_then(|issuer| {
            let issuer = Certificate::parse(&issuer.der).ok()?;
            Some(embedded_entry(leaf, &issuer))
        });
        Entries {
            embedded: embedded.ok_or(match path.is_namesake {
                true => Finding::OtherIssuer,
                false => Finding::NoIssuer,
            }),
            delivered: delivered_entry(leaf),
            stapled: *staple == Staple::Good,
        }
    }

    fn verify(&self, sct: &Sct, delivery: Delivery, key: &PublicKey, now_ms: u64) -> Finding {
        let entry = match (delivery, &self.embedded) {
            (Delivery::Embedded, Ok(entry)) => entry,
            (Delivery::Embedded, Err(why)) => return why.clone(),
            (Delivery::Ocsp | Delivery::Tls, _) => &self.delivered,
        };
        match sct.verify(key, entry).is_ok() {
            false => Finding::BadSignature,
            true if sct.timestamp > now_ms => Finding::FromTheFuture,
            true if delivery == Delivery::Ocsp && !self.stapled => Finding::UnprovenStaple,
            true => Finding::Valid,
        }
    }
}
