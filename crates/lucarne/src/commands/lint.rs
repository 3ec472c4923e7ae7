//! `lucarne lint`: checks the SCTs of certificates, and compares certificates with their
//! precertificates.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, fmt::temporal::DateTimeParser};
use lucarne_ct::lint::{Lint, LintCode, LintFinding, Linted, LintedSct, PolicyFinding, Weight};
use lucarne_ct::{
    Certificate, Chain, EntryKind, Fingerprint, LogList, Policy, Roots, SctFinding, Validator,
    display_name,
};
use lucarne_mint::{now_ms, pem};
use serde_json::{Value, json};

use crate::causes::causes;

/// Exit codes, for the help text.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 all is verified and right; 1 something is \
                                     wrong; 2 something could not be checked, and nothing was \
                                     wrong; 2 also for wrong usage.";

/// Exit code if something could not be verified.
const UNSEEN: u8 = 2;

/// Options of `lucarne lint`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Certificate or precertificate, PEM or DER, followed by its issuers in the same file
    #[arg(value_name = "CERT|PRECERT", required = true)]
    pub files: Vec<PathBuf>,

    /// Log list, version 3 JSON, as published by Chrome and Apple
    #[arg(long, value_name = "FILE")]
    pub log_list: Option<PathBuf>,

    /// Issuers, PEM or DER. May be repeated
    #[arg(long, value_name = "FILE")]
    pub issuer: Vec<PathBuf>,

    /// Accepted roots of a log, PEM: report whether the log would accept the chain (`get-roots`,
    /// `check-chain`)
    #[arg(long, value_name = "FILE")]
    pub roots: Option<PathBuf>,

    /// Evaluate at this date: 2026-07-01, or a time as in 2026-07-01T12:00:00Z [default: now]
    #[arg(long, value_name = "DATE", value_parser = date_ms)]
    pub at: Option<u64>,

    /// Print one JSON object per certificate, each on a line
    #[arg(long)]
    pub json: bool,
}

/// Reasons why a date is refused.
#[derive(Debug, thiserror::Error)]
enum DateError {
    #[error("not a date or time: {0}")]
    Unreadable(#[from] jiff::Error),
    #[error("the date is before 1970")]
    Before1970,
}

/// Parses a time, or a day as its beginning in UTC. Returns milliseconds since 1970.
fn date_ms(text: &str) -> Result<u64, DateError> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let time = match text.parse::<Date>() {
        Ok(day) if !text.contains(['T', 't', ' ']) => day
            .to_zoned(TimeZone::UTC)
            .map(|midnight| midnight.timestamp()),
        _ => PARSER.parse_timestamp(text),
    };
    u64::try_from(time?.as_millisecond()).map_err(|_| DateError::Before1970)
}

/// Checks each certificate and prints its findings.
pub(crate) fn run(options: &Options) -> ExitCode {
    match look(options) {
        Ok(code) => code,
        Err(error) => {
            errln!("lucarne: {}", causes(&error));
            ExitCode::from(UNSEEN)
        }
    }
}

fn look(options: &Options) -> Result<ExitCode> {
    let list = options.log_list.as_deref().map(read_list).transpose()?;
    let roots = options.roots.as_deref().map(read_roots).transpose()?;
    let validator = roots.map(|roots| Validator::new(Arc::new(roots), Policy::default()));
    let files: Vec<_> = options
        .files
        .iter()
        .map(|file| Subject::read(file))
        .collect();
    let given = given_issuers(options)?;
    let above = files.iter().flatten().flat_map(|file| &file.above);
    let issuers: Vec<_> = given
        .iter()
        .chain(above)
        .filter_map(|der| Certificate::parse(der).ok())
        .collect();
    let lint = Lint {
        list: list.as_ref(),
        issuers: &issuers,
        at_ms: options.at.unwrap_or_else(now_ms),
    };
    let subjects: Vec<_> = files
        .iter()
        .flatten()
        .filter_map(Subject::certificate)
        .collect();
    let (mut wrong, mut unseen) = (false, false);
    for (file, subject) in options.files.iter().zip(&files) {
        let report = match subject {
            Err(error) => {
                unseen = true;
                Report::unread(file, error)
            }
            Ok(subject) => match Certificate::parse(&subject.leaf) {
                Err(error) => {
                    wrong = true;
                    Report::no_certificate(file, &error)
                }
                Ok(leaf) => {
                    let mut linted = lint.look_at(&leaf, precertificate_of(&leaf, &subjects));
                    if let Some(validator) = &validator {
                        let refused = subject.refused(validator, &given, lint.at_ms);
                        linted.findings.extend(refused);
                    }
                    wrong |= linted.has(Weight::Wrong);
                    unseen |= linted.has(Weight::Unverified);
                    Report::of(file, &leaf, &linted)
                }
            },
        };
        report.print(options.json);
    }
    Ok(match (wrong, unseen) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(UNSEEN),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn given_issuers(options: &Options) -> Result<Vec<Vec<u8>>> {
    let mut issuers = Vec::new();
    for file in &options.issuer {
        issuers.extend(certificates(file)?);
    }
    Ok(issuers)
}

/// Finds the precertificate of a certificate by serial number. With two files, returns the other
/// file if it is a precertificate.
fn precertificate_of<'a>(
    leaf: &Certificate<'_>,
    subjects: &'a [Certificate<'a>],
) -> Option<&'a Certificate<'a>> {
    if is_poisoned(leaf) {
        return None;
    }
    let mut precertificates = subjects.iter().filter(|other| is_poisoned(other));
    if subjects.len() == 2 {
        return precertificates.next();
    }
    precertificates.find(|other| other.serial() == leaf.serial())
}

fn is_poisoned(certificate: &Certificate<'_>) -> bool {
    let poison = lucarne_mint::oid::POISON;
    certificate.extension(poison.as_bytes()).is_some()
}

fn read_roots(file: &Path) -> Result<Roots> {
    let pem = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (roots, _) = Roots::from_pem(&pem);
    anyhow::ensure!(
        !roots.is_empty(),
        "{} has no certificate of a root",
        file.display()
    );
    Ok(roots)
}

fn read_list(file: &Path) -> Result<LogList> {
    let json = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let list = LogList::parse(&json)
        .with_context(|| format!("cannot use the log list {}", file.display()))?;
    for skipped in list.skipped() {
        errln!("lucarne: {}: {skipped}", file.display());
    }
    Ok(list)
}

/// Contents of a file: the certificate to check, and the issuers of this certificate.
struct Subject {
    leaf: Vec<u8>,
    above: Vec<Vec<u8>>,
}

impl Subject {
    fn read(file: &Path) -> Result<Self> {
        let mut certificates = certificates(file)?.into_iter();
        let leaf = certificates
            .next()
            .context("the file contains no certificate")?;
        Ok(Subject {
            leaf,
            above: certificates.collect(),
        })
    }

    /// Returns why a log would refuse the chain. If the file has only the certificate, the chain
    /// consists of the `given` issuers.
    fn refused(&self, validator: &Validator, given: &[Vec<u8>], at_ms: u64) -> Option<LintFinding> {
        let above = match &self.above[..] {
            [] => given,
            above => above,
        };
        let chain = Chain::from_ders(std::iter::once(&self.leaf).chain(above));
        let refused = chain.and_then(|chain| validator.judge(&chain, at_ms)).err();
        refused.map(|rejection| LintFinding {
            code: LintCode::ChainRefused,
            detail: rejection.to_string(),
            sct: None,
        })
    }

    fn certificate(&self) -> Option<Certificate<'_>> {
        Certificate::parse(&self.leaf).ok()
    }
}

/// Reads the certificates of a file: its PEM blocks, or the whole file as DER.
fn certificates(file: &Path) -> Result<Vec<Vec<u8>>> {
    let name = file.display();
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
    if !bytes.windows(11).any(|window| window == b"-----BEGIN ") {
        return Ok(vec![bytes]);
    }
    pem::certificates(&bytes).with_context(|| format!("cannot read the certificates in {name}"))
}

/// Report on one file, as text and as JSON.
struct Report {
    text: String,
    json: Value,
}

impl Report {
    fn print(&self, json: bool) {
        if json {
            outln!("{}", self.json);
        } else {
            out!("{}", self.text);
        }
    }

    fn unread(file: &Path, error: &anyhow::Error) -> Self {
        Self::without(file, "unverified", "unread", &causes(error))
    }

    fn no_certificate(file: &Path, error: &impl std::fmt::Display) -> Self {
        let detail = format!("not a certificate: {error}");
        Self::without(file, "wrong", "not-a-certificate", &detail)
    }

    fn without(file: &Path, weight: &str, code: &str, detail: &str) -> Self {
        let name = file.display();
        Report {
            text: format!("{name}\n  {} {code}: {detail}\n", sign(weight == "wrong")),
            json: json!({
                "file": name.to_string(),
                "verdict": weight,
                "findings": [{"code": code, "weight": weight, "detail": detail}],
            }),
        }
    }

    fn of(file: &Path, leaf: &Certificate<'_>, linted: &Linted) -> Self {
        let (name, kind) = (file.display(), kind(linted.kind));
        let subject = display_name(leaf.subject());
        let verdict = match (linted.has(Weight::Wrong), linted.has(Weight::Unverified)) {
            (true, _) => "wrong",
            (false, true) => "unverified",
            (false, false) => "good",
        };
        let mut text = format!("{name}: {kind} {subject}: {verdict}\n");
        for (place, sct) in linted.scts.iter().enumerate() {
            text += &format!("    SCT {place}: {}\n", sct_text(sct));
        }
        for policy in &linted.policies {
            text += &format!("    {}: {}\n", policy.policy, policy_text(policy));
        }
        for finding in &linted.findings {
            let of = finding.sct.map(|place| format!("SCT {place}: "));
            text += &format!(
                "  {} {}: {}{}\n",
                sign(finding.code.weight() == Weight::Wrong),
                finding.code,
                of.unwrap_or_default(),
                finding.detail
            );
        }
        let findings = linted.findings.iter().map(|finding| {
            json!({
                "code": finding.code.name(),
                "weight": finding.code.weight().name(),
                "detail": finding.detail,
                "sct": finding.sct,
            })
        });
        Report {
            text,
            json: json!({
                "file": name.to_string(),
                "verdict": verdict,
                "kind": kind,
                "subject": subject,
                "fingerprint": Fingerprint::of(leaf.raw()).to_string(),
                "scts": linted.scts.iter().map(sct_json).collect::<Vec<_>>(),
                "policies": linted.policies.iter().map(policy_json).collect::<Vec<_>>(),
                "findings": findings.collect::<Vec<_>>(),
            }),
        }
    }
}

fn sign(wrong: bool) -> char {
    if wrong { '✗' } else { '?' }
}

fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::X509 => "certificate",
        EntryKind::Precert => "precertificate",
    }
}

fn time(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

fn sct_text(linted: &LintedSct) -> String {
    let seen = &linted.seen;
    let log = match (&seen.log, &seen.sct) {
        (Some(log), _) => {
            let state = linted
                .state
                .map_or("in an unknown state", |s| s.status.name());
            format!("{} ({}), {state}", log.description, log.operator)
        }
        (None, Some(sct)) => format!("log {}", sct.log_id),
        (None, None) => "of no log".to_owned(),
    };
    let sct = seen.sct.as_ref();
    let at = sct.map_or_else(String::new, |sct| format!(", {}", time(sct.timestamp)));
    let index = sct.and_then(|sct| sct.index());
    let index = index.map_or_else(String::new, |index| format!(", leaf index {index}"));
    format!("{log}{at}{index}: {}", seen.finding.text())
}

fn sct_json(linted: &LintedSct) -> Value {
    let seen = &linted.seen;
    let (sct, log) = (seen.sct.as_ref(), seen.log.as_deref());
    json!({
        "log_id": sct.map(|sct| sct.log_id.to_string()),
        "log": log.map(|log| &log.description),
        "operator": sct.zip(log).map(|(sct, log)| log.operator_at(sct.timestamp)),
        "state": linted.state.map(|state| state.status.name()),
        "timestamp": sct.map(|sct| sct.timestamp),
        "leaf_index": sct.and_then(|sct| sct.index()),
        "finding": seen.finding.name(),
        "valid": seen.finding == SctFinding::Valid,
    })
}

fn policy_text(finding: &PolicyFinding) -> String {
    match finding.uncertain {
        Some(why) => format!("no verdict: {why}"),
        None if finding.verdict.is_compliant() => format!("enough: {}", finding.verdict),
        None => format!("not enough: {}", finding.verdict),
    }
}

fn policy_json(finding: &PolicyFinding) -> Value {
    let verdict = match finding.uncertain {
        Some(_) => "unverified",
        None if finding.verdict.is_compliant() => "compliant",
        None => "not-compliant",
    };
    let detail = match finding.uncertain {
        Some(why) => why.to_owned(),
        None => finding.verdict.to_string(),
    };
    json!({"policy": finding.policy, "verdict": verdict, "detail": detail})
}
