//! The lint: finds errors in the SCTs of a certificate, and differences between a certificate and
//! its precertificate, before browsers and monitors do.
//!
//! The lint approves only verified properties: each property that it cannot check is a separate
//! finding ([`Weight::Unverified`]).

mod code;
mod diagnosis;
mod difference;
mod policies;

use lucarne_x509::der::DerError;
use lucarne_x509::{oid, time};

use self::diagnosis::Patient;
use crate::certificate::Certificate;
use crate::compliance::Delivery;
use crate::entry::{EntryKind, SignedEntry};
use crate::issuer_chain::key_hash;
use crate::loglist::{LogList, LogState};
use crate::name::names_match;
use crate::precert::{check_kind, tbs_without_poison, tbs_without_poison_for, tbs_without_scts};
use crate::sct::SctError;
use crate::sct::SctList;
use crate::sct_finding::{LoggedEntries, MOST_SCTS, SctFinding, SeenSct, UnreadSct, read_scts};
use crate::signature::is_issued_by;

pub use self::code::{LintCode, Weight};
pub use self::policies::PolicyFinding;

/// Maximum age of a log list, as in Chrome: 70 days.
const LIST_MAX_AGE_MS: u64 = 70 * 86_400_000;

/// A finding of the lint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintFinding {
    /// Stable code of the finding.
    pub code: LintCode,
    /// Description of the finding, as a sentence.
    pub detail: String,
    /// Index of the SCT concerned, if any.
    pub sct: Option<usize>,
}

impl LintFinding {
    pub(crate) fn new(code: LintCode, detail: impl Into<String>) -> Self {
        LintFinding {
            code,
            detail: detail.into(),
            sct: None,
        }
    }
}

/// An SCT of a certificate, with the state of its log.
#[derive(Debug, Clone)]
pub struct LintedSct {
    /// The SCT and the result of its verification.
    pub seen: SeenSct,
    /// State of the log at the date of the lint; `None` if the list has no log or no state for this
    /// date.
    pub state: Option<LogState>,
}

/// The result of a lint.
#[derive(Debug, Clone)]
pub struct Linted {
    /// Kind of certificate.
    pub kind: EntryKind,
    /// The embedded SCTs in order.
    pub scts: Vec<LintedSct>,
    /// The finding for each policy; empty for precertificates.
    pub policies: Vec<PolicyFinding>,
    /// All findings; empty if the certificate is good.
    pub findings: Vec<LintFinding>,
}

impl Linted {
    /// Returns `true` if there is a finding of this weight.
    pub fn has(&self, weight: Weight) -> bool {
        self.findings.iter().any(|f| f.code.weight() == weight)
    }
}

/// A lint with its reference data.
#[derive(Debug, Clone, Copy)]
pub struct Lint<'a> {
    /// The log list; without a list SCTs cannot be verified.
    pub list: Option<&'a LogList>,
    /// Certificates of possible issuers, in any order.
    pub issuers: &'a [Certificate<'a>],
    /// The date in milliseconds since 1970, at which logs and SCTs are judged.
    pub at_ms: u64,
}

impl<'a> Lint<'a> {
    /// Checks a certificate or precertificate. `precertificate` is the precertificate of the
    /// certificate, if available: both are compared.
    pub fn look_at(
        &self,
        leaf: &Certificate<'_>,
        precertificate: Option<&Certificate<'_>>,
    ) -> Linted {
        match leaf.extension(oid::content::POISON) {
            Some(_) => self.precertificate(leaf),
            None => self.certificate(leaf, precertificate),
        }
    }

    fn precertificate(&self, leaf: &Certificate<'_>) -> Linted {
        let mut findings = Vec::new();
        if let Err(rejection) = check_kind(leaf, EntryKind::Precert) {
            findings.push(LintFinding::new(LintCode::Poison, rejection.detail));
        }
        if leaf.extension(oid::content::SCT_LIST).is_some() {
            let detail = "a precertificate must not have embedded SCTs";
            findings.push(LintFinding::new(LintCode::PrecertificateScts, detail));
        }
        if let Err(why) = self.issuer_of(leaf) {
            findings.push(unknown_issuer(&why));
        }
        Linted {
            kind: EntryKind::Precert,
            scts: Vec::new(),
            policies: Vec::new(),
            findings,
        }
    }

    fn certificate(
        &self,
        leaf: &Certificate<'_>,
        precertificate: Option<&Certificate<'_>>,
    ) -> Linted {
        let mut findings = Vec::new();
        let issuer = self.issuer_of(leaf);
        if let Err(why) = &issuer {
            findings.push(unknown_issuer(why));
        }
        if let Some(precertificate) = precertificate {
            findings.extend(self.compare(precertificate, leaf));
        }
        findings.extend(self.list_findings());
        let scts = self.scts(leaf, precertificate, issuer, &mut findings);
        if scts.is_empty() {
            let detail = "no SCT is embedded, and SCTs of OCSP or TLS are not part of a \
                          certificate";
            findings.push(LintFinding::new(LintCode::NoSct, detail));
        }
        let policies = policies::judge(self, leaf, &scts);
        findings.extend(policies.iter().filter_map(PolicyFinding::finding));
        Linted {
            kind: EntryKind::X509,
            scts,
            policies,
            findings,
        }
    }

    /// Checks each embedded SCT and adds the findings to `findings`.
    fn scts(
        &self,
        leaf: &Certificate<'_>,
        precertificate: Option<&Certificate<'_>>,
        issuer: Result<&Certificate<'_>, SctFinding>,
        findings: &mut Vec<LintFinding>,
    ) -> Vec<LintedSct> {
        let seen = self.verify(leaf, issuer.clone(), findings);
        let logged = precertificate.and_then(|der| self.logged(der));
        let scts: Vec<_> = seen.iter().filter_map(|seen| seen.sct.clone()).collect();
        let entry_is_right = seen.iter().any(|seen| seen.finding == SctFinding::Valid);
        for (place, seen) in seen.iter().enumerate() {
            let found = match (&seen.finding, &seen.sct, &seen.log, &issuer) {
                (SctFinding::BadSignature, Some(sct), Some(log), Ok(issuer)) => Patient {
                    sct,
                    log,
                    leaf,
                    issuer,
                    issuers: self.issuers,
                    precertificate: logged.as_ref(),
                    scts: &scts,
                    entry_is_right,
                }
                .diagnose(),
                (SctFinding::FromTheFuture, ..) => {
                    (LintCode::SctFromTheFuture, seen.finding.text())
                }
                (SctFinding::UnknownLog, Some(sct), ..) if self.list.is_some() => {
                    let detail = format!("the log {} is not in the log list", sct.log_id);
                    (LintCode::UnknownLog, detail)
                }
                // Unreadable SCTs, a missing list and a missing issuer are reported once elsewhere.
                _ => continue,
            };
            findings.push(LintFinding {
                sct: Some(place),
                ..LintFinding::new(found.0, found.1)
            });
        }
        let state = |seen: &SeenSct| seen.log.as_ref()?.state_at(self.at_ms);
        let linted = seen.into_iter().map(|seen| LintedSct {
            state: state(&seen),
            seen,
        });
        linted.collect()
    }

    /// Verifies the embedded SCTs, and adds the findings about SCTs that cannot be read.
    fn verify(
        &self,
        leaf: &Certificate<'_>,
        issuer: Result<&Certificate<'_>, SctFinding>,
        findings: &mut Vec<LintFinding>,
    ) -> Vec<SeenSct> {
        let entries = LoggedEntries::new(leaf, issuer, false);
        let list = leaf.embedded_scts();
        findings.extend(more_scts(&list));
        let mut seen = Vec::new();
        for (place, sct) in read_scts(list).into_iter().take(MOST_SCTS).enumerate() {
            if let Err(why) = &sct {
                findings.push(unreadable(why, place));
            }
            seen.push(SeenSct::look_at(
                sct,
                Delivery::Embedded,
                &entries,
                self.list,
                self.at_ms,
            ));
        }
        seen
    }

    /// Returns the finding about a missing or old log list.
    fn list_findings(&self) -> Option<LintFinding> {
        let Some(list) = self.list else {
            let detail = "no log list: neither SCTs nor policies can be verified";
            return Some(LintFinding::new(LintCode::NoLogList, detail));
        };
        let made_ms = list.timestamp_ms()?;
        let old = self.at_ms > made_ms.saturating_add(LIST_MAX_AGE_MS);
        old.then(|| {
            let made = time::display(i64::try_from(made_ms).unwrap_or(i64::MAX));
            let detail = format!(
                "the log list was created at {made}, more than 70 days before the date of this \
                 lint: states may have changed since, and Chrome does not use an older list"
            );
            LintFinding::new(LintCode::OldLogList, detail)
        })
    }

    /// Returns the certificate whose key has signed `certificate`.
    fn issuer_of(&self, certificate: &Certificate<'_>) -> Result<&'a Certificate<'a>, SctFinding> {
        let named = |issuer: &&Certificate<'_>| names_match(certificate.issuer(), issuer.subject());
        let mut namesakes = self.issuers.iter().filter(named).peekable();
        let none = match namesakes.peek() {
            Some(_) => SctFinding::OtherIssuer,
            None => SctFinding::NoIssuer,
        };
        namesakes
            .find(|issuer| is_issued_by(certificate, issuer))
            .ok_or(none)
    }

    /// Returns the entry that logs have signed for a precertificate, if its issuers are known.
    fn logged(&self, precertificate: &Certificate<'_>) -> Option<SignedEntry> {
        let issuer = self.issuer_of(precertificate).ok()?;
        let (tbs, issuer) = if signs_precertificates(issuer) {
            (
                tbs_without_poison_for(precertificate, issuer),
                self.issuer_of(issuer).ok()?,
            )
        } else {
            (tbs_without_poison(precertificate), issuer)
        };
        Some(SignedEntry::Precert {
            issuer_key_hash: key_hash(issuer),
            tbs: tbs.into(),
        })
    }

    /// Compares a certificate with its precertificate: their signed entries must be equal.
    fn compare(
        &self,
        precertificate: &Certificate<'_>,
        certificate: &Certificate<'_>,
    ) -> Vec<LintFinding> {
        let without_scts = tbs_without_scts(certificate);
        match self.logged(precertificate) {
            Some(SignedEntry::Precert {
                issuer_key_hash,
                tbs,
            }) => {
                let mut found = difference::differences(&tbs, &without_scts);
                let issuer = self.issuer_of(certificate);
                if issuer.is_ok_and(|issuer| key_hash(issuer) != issuer_key_hash) {
                    let detail = "different keys issued the precertificate and the certificate";
                    found.push(LintFinding::new(LintCode::IssuerDiffers, detail));
                }
                found
            }
            // Without the issuer, the changes by a Precertificate Signing Certificate are unknown.
            _ if !names_match(precertificate.issuer(), certificate.issuer()) => {
                let detail = "the issuer of the precertificate is unknown and differs from that \
                              of the certificate: the certificates cannot be compared";
                vec![LintFinding::new(LintCode::NoIssuer, detail)]
            }
            _ => difference::differences(&tbs_without_poison(precertificate), &without_scts),
        }
    }
}

fn signs_precertificates(issuer: &Certificate<'_>) -> bool {
    let usages = issuer.extended_key_usages();
    usages.is_some_and(|mut usages| usages.any(|usage| usage == oid::content::PRECERT_SIGNING))
}

fn unknown_issuer(why: &SctFinding) -> LintFinding {
    match why {
        SctFinding::OtherIssuer => LintFinding::new(
            LintCode::OtherIssuer,
            "no known certificate of the issuer has the signing key, or the signature has an \
             algorithm that is no longer verified",
        ),
        _ => LintFinding::new(
            LintCode::NoIssuer,
            "the issuer is unknown: logs also sign the hash of its key, so no SCT can be verified",
        ),
    }
}

fn unreadable(why: &UnreadSct, place: usize) -> LintFinding {
    let finding = match why {
        // `A` begins the base64 of an SCT of version 1, `{` the response of a log.
        UnreadSct::Sct(SctError::Version(b'A' | b'{')) => LintFinding::new(
            LintCode::SctIsText,
            "the SCT is encoded as base64 or as the JSON of a log; expected the binary \
             structure of RFC 6962, section 3.2",
        ),
        why => LintFinding::new(LintCode::SctUnreadable, why.to_string()),
    };
    LintFinding {
        sct: Some(place),
        ..finding
    }
}

/// Returns the finding about SCTs beyond the limit.
fn more_scts(list: &Result<Option<&[u8]>, DerError>) -> Option<LintFinding> {
    let list = SctList::parse((*list.as_ref().ok()?)?).ok()?;
    let count = list.iter().count();
    (count > MOST_SCTS).then(|| {
        let detail = format!("{count} SCTs, of which only the first {MOST_SCTS} are checked");
        LintFinding::new(LintCode::TooManyScts, detail)
    })
}
