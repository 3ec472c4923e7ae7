//! The lint: what is wrong with the SCTs of a certificate, and with a certificate beside its
//! precertificate, before browsers and monitors say so.
//!
//! It never says that something is good which it has not verified: what it cannot look at is a
//! finding of its own ([`Weight::Unverified`]).

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
use crate::loglist::{LogList, LogState};
use crate::name::names_match;
use crate::precert::{check_kind, tbs_without_poison, tbs_without_poison_for, tbs_without_scts};
use crate::sct::SctError;
use crate::sct_finding::{LoggedEntries, MOST_SCTS, SctFinding, SeenSct, UnreadSct, read_scts};
use crate::sct_list::SctList;
use crate::signature::is_issued_by;
use crate::verified_issuer::key_hash;

pub use self::code::{LintCode, Weight};
pub use self::policies::PolicyFinding;

/// Chrome goes by a list of at most 70 days.
const LIST_MAX_AGE_MS: u64 = 70 * 86_400_000;

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintFinding {
    /// The code.
    pub code: LintCode,
    /// A sentence for people.
    pub detail: String,
    /// The SCT that it is about, its place in the list.
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
    /// The SCT, and whether it verifies.
    pub seen: SeenSct,
    /// The state of the log at the date of the lint; `None` if the list does not tell it.
    pub state: Option<LogState>,
}

/// The result of a lint.
#[derive(Debug, Clone)]
pub struct Linted {
    /// The kind of certificate.
    pub kind: EntryKind,
    /// Its embedded SCTs, in order.
    pub scts: Vec<LintedSct>,
    /// The finding of each policy; none for precertificates.
    pub policies: Vec<PolicyFinding>,
    /// Everything that was found; empty: it is good.
    pub findings: Vec<LintFinding>,
}

impl Linted {
    /// Returns whether something of this weight was found.
    pub fn has(&self, weight: Weight) -> bool {
        self.findings.iter().any(|f| f.code.weight() == weight)
    }
}

/// A lint, with what it holds certificates against.
#[derive(Debug, Clone, Copy)]
pub struct Lint<'a> {
    /// The log list; without one SCTs cannot be verified.
    pub list: Option<&'a LogList>,
    /// Certificates that may be issuers, in any order.
    pub issuers: &'a [Certificate<'a>],
    /// The date, in milliseconds since 1970: logs and SCTs are looked at as of then.
    pub at_ms: u64,
}

impl<'a> Lint<'a> {
    /// Looks at a certificate or precertificate; `precertificate` is what the certificate was issued for, if
    /// it is at hand: its bytes are compared with it.
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
            let detail = "it has embedded SCTs: they are what a precertificate is submitted for";
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
            let detail = "no SCT is embedded: those that come by OCSP or TLS are not in a \
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

    /// The embedded SCTs, each looked at; what is found goes to `findings`.
    fn scts(
        &self,
        leaf: &Certificate<'_>,
        precertificate: Option<&Certificate<'_>>,
        issuer: Result<&Certificate<'_>, SctFinding>,
        findings: &mut Vec<LintFinding>,
    ) -> Vec<LintedSct> {
        let entries = LoggedEntries::new(leaf, issuer.clone(), false);
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
                // Unreadable, and what is said once for all: no list, no issuer.
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

    /// What is missing of the log list.
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
                "the log list was made at {made}, more than 70 days before the date of this lint: \
                 states may have changed since, and Chrome itself goes by no older one"
            );
            LintFinding::new(LintCode::OldLogList, detail)
        })
    }

    /// The certificate whose key has signed `certificate`.
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

    /// The entry that logs have signed for a precertificate, if its issuers are known.
    fn logged(&self, precertificate: &Certificate<'_>) -> Option<SignedEntry> {
        let issuer = self.issuer_of(precertificate).ok()?;
        let (tbs, issuer) = match signs_precertificates(issuer) {
            true => (
                tbs_without_poison_for(precertificate, issuer),
                self.issuer_of(issuer).ok()?,
            ),
            false => (tbs_without_poison(precertificate), issuer),
        };
        Some(SignedEntry::Precert {
            issuer_key_hash: key_hash(issuer),
            tbs: tbs.into(),
        })
    }

    /// Compares a certificate with its precertificate: what logs sign for either must be equal.
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
                    let detail = "the key that issued the precertificate is not the one that \
                                  issued the certificate";
                    found.push(LintFinding::new(LintCode::IssuerDiffers, detail));
                }
                found
            }
            // Without its issuer it cannot be told what a Precertificate Signing Certificate rewrites.
            _ if !names_match(precertificate.issuer(), certificate.issuer()) => {
                let detail = "the issuer of the precertificate is not known, and is not that of \
                              the certificate: they cannot be compared";
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
            "of the issuer only certificates are known whose key has not signed it, or in a way that \
             is not verified any more",
        ),
        _ => LintFinding::new(
            LintCode::NoIssuer,
            "the issuer is not known: logs sign its key, too, so that no SCT can be verified",
        ),
    }
}

fn unreadable(why: &UnreadSct, place: usize) -> LintFinding {
    let finding = match why {
        // `A` begins the base64 of an SCT of version 1, `{` the answer of a log.
        UnreadSct::Sct(SctError::Version(b'A' | b'{')) => LintFinding::new(
            LintCode::SctIsText,
            "it is text, the base64 of an SCT or the JSON of a log's answer; embedded is the \
             structure of RFC 6962 section 3.2",
        ),
        why => LintFinding::new(LintCode::SctUnreadable, why.to_string()),
    };
    LintFinding {
        sct: Some(place),
        ..finding
    }
}

/// SCTs beyond those that are looked at.
fn more_scts(list: &Result<Option<&[u8]>, DerError>) -> Option<LintFinding> {
    let list = SctList::parse((*list.as_ref().ok()?)?).ok()?;
    let count = list.iter().count();
    (count > MOST_SCTS).then(|| {
        let detail = format!("{count} SCTs, of which the first {MOST_SCTS} are looked at");
        LintFinding::new(LintCode::TooManyScts, detail)
    })
}
