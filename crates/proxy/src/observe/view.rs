//! Data of the pages and of their JSON.

use lucarne_ct::{Certificate, Delivery, SctFinding, SeenSct, display_name};
use serde::Serialize;

use super::filter::{Filter, PAGE_SIZE, Show, encoded};
use super::judge::{Judgement, POLICIES};
use super::memory::{Host, Memory, Record};
use super::names::dns_names;
use super::shared::Shared;
use super::submission::{Submission, Verified};
use crate::time::{day, time};

/// Counts of all remembered hosts and certificates.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) hosts: usize,
    pub(crate) certificates: usize,
    /// Hosts whose latest certificate has no valid SCT.
    pub(crate) not_logged: usize,
    pub(crate) policy_failed: usize,
    pub(crate) invalid: usize,
    pub(crate) log_list: Option<ListSummary>,
    pub(crate) submit_to: Vec<String>,
    pub(crate) submitted: usize,
    /// Certificates that a log has already.
    pub(crate) not_needed: usize,
    pub(crate) refused: usize,
    pub(crate) waiting: usize,
    /// Text about dropped or forgotten items; empty if there were none.
    pub(crate) lost: String,
}

/// The log list in use.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListSummary {
    pub(crate) from: String,
    pub(crate) version: Option<String>,
    pub(crate) logs: usize,
    pub(crate) read: String,
    pub(crate) trouble: String,
}

/// A line in the list of hosts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostRow {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) name_encoded: String,
    pub(crate) standing: &'static str,
    #[serde(skip)]
    pub(crate) standing_text: &'static str,
    pub(crate) logged: bool,
    pub(crate) scts: usize,
    pub(crate) valid_scts: usize,
    pub(crate) verdicts: Vec<VerdictRow>,
    pub(crate) unseen: Option<&'static str>,
    pub(crate) expires: String,
    pub(crate) expired: bool,
    pub(crate) handshakes: u64,
    pub(crate) last_seen: String,
    pub(crate) fingerprint: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerdictRow {
    pub(crate) policy: &'static str,
    /// Whether there was a log list to judge by.
    pub(crate) known: bool,
    pub(crate) compliant: bool,
    pub(crate) reason: String,
}

/// All data of one host.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostView {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) name_encoded: String,
    pub(crate) handshakes: u64,
    pub(crate) first_seen: String,
    pub(crate) last_seen: String,
    /// Certificates, latest first.
    pub(crate) certificates: Vec<CertificateView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CertificateView {
    pub(crate) fingerprint: String,
    pub(crate) subject: String,
    pub(crate) issuer: String,
    pub(crate) names: Vec<String>,
    pub(crate) not_before: String,
    pub(crate) not_after: String,
    pub(crate) expired: bool,
    pub(crate) standing: &'static str,
    #[serde(skip)]
    pub(crate) standing_text: &'static str,
    pub(crate) logged: bool,
    pub(crate) verdicts: Vec<VerdictRow>,
    /// Note about SCTs that cannot be seen and might satisfy the policies.
    pub(crate) unseen: Option<&'static str>,
    pub(crate) scts: Vec<SctView>,
    /// Number of SCTs that were not checked.
    pub(crate) left_out: usize,
    pub(crate) staple: Option<StapleView>,
    pub(crate) chain: Vec<IssuerView>,
    /// Issuers that the server omitted and other servers have sent, lowest first.
    pub(crate) completed_by: Vec<IssuerView>,
    pub(crate) submission: Option<SubmissionView>,
    pub(crate) handshakes: u64,
    pub(crate) first_seen: String,
    pub(crate) last_seen: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SctView {
    pub(crate) delivery: &'static str,
    pub(crate) log: Option<String>,
    pub(crate) operator: Option<String>,
    /// Current state of the log, according to the log list.
    pub(crate) state: Option<&'static str>,
    pub(crate) log_id: Option<String>,
    pub(crate) timestamp: Option<String>,
    pub(crate) leaf_index: Option<u64>,
    pub(crate) finding: &'static str,
    pub(crate) valid: bool,
    pub(crate) is_false: bool,
    pub(crate) text: String,
    /// Note if the certificate expires outside the temporal interval of the log.
    pub(crate) note: Option<&'static str>,
}

/// The stapled OCSP response.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StapleView {
    pub(crate) status: &'static str,
    pub(crate) text: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IssuerView {
    pub(crate) fingerprint: String,
    pub(crate) subject: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubmissionView {
    pub(crate) outcome: &'static str,
    pub(crate) text: String,
    /// SCT of the log in the format of RFC 6962, section 4.1.
    pub(crate) sct: Option<serde_json::Value>,
    #[serde(skip)]
    pub(crate) good: bool,
    #[serde(skip)]
    pub(crate) bad: bool,
}

/// Returns one page of the matching hosts, and their total number.
pub(crate) fn hosts(memory: &Memory, filter: &Filter, now_ms: u64) -> (Vec<HostRow>, usize) {
    let mut matching = 0;
    let mut rows = Vec::new();
    for host in memory
        .hosts()
        .filter(|host| host.name.contains(&filter.query))
    {
        let Some(record) = latest(memory, host) else {
            continue;
        };
        if filter.show.has(&record.judgement) {
            if matching >= filter.from && rows.len() < PAGE_SIZE {
                rows.push(host_row(host, record, now_ms));
            }
            matching += 1;
        }
    }
    (rows, matching)
}

/// Returns the latest certificate of a host that is still remembered.
fn latest<'a>(memory: &'a Memory, host: &Host) -> Option<&'a Record> {
    host.certificates
        .iter()
        .find_map(|fingerprint| memory.record(fingerprint))
}

fn host_row(host: &Host, record: &Record, now_ms: u64) -> HostRow {
    let judgement = &record.judgement;
    let not_after = record.certificate().and_then(|leaf| leaf.not_after());
    HostRow {
        name: host.name.clone(),
        name_encoded: encoded(&host.name),
        standing: judgement.standing.name(),
        standing_text: judgement.standing.text(),
        logged: judgement.is_logged(),
        scts: judgement.scts.len(),
        valid_scts: valid(judgement),
        verdicts: verdicts(judgement),
        unseen: judgement.unseen(),
        expires: not_after.map_or_else(String::new, day),
        expired: is_past(not_after, now_ms),
        handshakes: host.handshakes,
        last_seen: time(host.last_ms),
        fingerprint: record.fingerprint.to_string(),
    }
}

fn valid(judgement: &Judgement) -> usize {
    let scts = judgement.scts.iter();
    scts.filter(|sct| sct.seen.finding == SctFinding::Valid)
        .count()
}

fn verdicts(judgement: &Judgement) -> Vec<VerdictRow> {
    POLICIES
        .iter()
        .zip(&judgement.verdicts)
        .map(|(policy, verdict)| VerdictRow {
            policy: policy.name,
            known: judgement.listed,
            compliant: verdict.is_compliant(),
            reason: if judgement.listed {
                verdict.to_string()
            } else {
                "unknown without a log list".to_owned()
            },
        })
        .collect()
}

/// Counts all remembered hosts and certificates by their state.
pub(crate) fn summary(shared: &Shared, memory: &Memory) -> Summary {
    let (hosts, certificates) = memory.counts();
    let of_hosts = |show: Show| {
        let latest = memory.hosts().filter_map(|host| latest(memory, host));
        latest.filter(|record| show.has(&record.judgement)).count()
    };
    let of_submissions = |is: fn(&Submission) -> bool| {
        memory
            .records()
            .filter(|record| is(&record.submission))
            .count()
    };
    Summary {
        hosts,
        certificates,
        not_logged: of_hosts(Show::NotLogged),
        policy_failed: of_hosts(Show::PolicyFailed),
        invalid: of_hosts(Show::Invalid),
        log_list: list_summary(shared),
        submit_to: shared.submit_to.clone(),
        submitted: of_submissions(|s| matches!(s, Submission::Accepted { .. })),
        not_needed: of_submissions(|s| matches!(s, Submission::NotNeeded(_))),
        refused: of_submissions(|s| matches!(s, Submission::Refused(_))),
        waiting: of_submissions(|s| matches!(s, Submission::Waiting(_))),
        lost: lost(shared, memory),
    }
}

fn list_summary(shared: &Shared) -> Option<ListSummary> {
    let listed = shared.list.load();
    let list = listed.list.as_ref()?;
    Some(ListSummary {
        from: listed.from.clone().unwrap_or_default(),
        version: list.version().map(str::to_owned),
        logs: list.len(),
        read: time(listed.read_ms),
        trouble: shared.list_trouble.load().to_string(),
    })
}

fn lost(shared: &Shared, memory: &Memory) -> String {
    let unseen = shared.metrics.dropped_handshakes();
    let counts = [
        (unseen, "handshakes not checked"),
        (memory.forgotten.hosts, "hosts forgotten"),
        (memory.forgotten.certificates, "certificates forgotten"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<_> = counts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    words.join(", ")
}

/// Returns all data of one host.
pub(crate) fn host(memory: &Memory, name: &str, now_ms: u64) -> Option<HostView> {
    let host = memory.host(name)?;
    let records = host.certificates.iter();
    let records = records.filter_map(|fingerprint| memory.record(fingerprint));
    Some(HostView {
        name: host.name.clone(),
        name_encoded: encoded(&host.name),
        handshakes: host.handshakes,
        first_seen: time(host.first_ms),
        last_seen: time(host.last_ms),
        certificates: records.map(|record| certificate(record, now_ms)).collect(),
    })
}

fn certificate(record: &Record, now_ms: u64) -> CertificateView {
    let judgement = &record.judgement;
    let leaf = record.certificate();
    let name = |name: fn(&Certificate<'_>) -> String| leaf.as_ref().map_or_else(String::new, name);
    let names = leaf.as_ref().map(dns_names).unwrap_or_default();
    let subject = name(|leaf| display_name(leaf.subject()));
    let not_after = leaf.as_ref().and_then(Certificate::not_after);
    let not_before = leaf.as_ref().and_then(Certificate::not_before);
    CertificateView {
        fingerprint: record.fingerprint.to_string(),
        subject: match (subject.is_empty(), names.first()) {
            (true, Some(name)) => name.clone(),
            (true, None) => "a certificate without a subject".to_owned(),
            (false, _) => subject,
        },
        issuer: name(|leaf| display_name(leaf.issuer())),
        names,
        not_before: not_before.map_or_else(|| "?".to_owned(), day),
        not_after: not_after.map_or_else(|| "?".to_owned(), day),
        expired: is_past(not_after, now_ms),
        standing: judgement.standing.name(),
        standing_text: judgement.standing.text(),
        logged: judgement.is_logged(),
        verdicts: verdicts(judgement),
        unseen: judgement.unseen(),
        staple: judgement.staple.name().map(|status| StapleView {
            status,
            text: judgement.staple.text(),
        }),
        scts: judgement
            .scts
            .iter()
            .map(|sct_seen| sct(&sct_seen.seen, not_after))
            .collect(),
        left_out: judgement.left_out,
        chain: issuer_views(&record.issuers),
        completed_by: issuer_views(&record.path.added),
        submission: submission(&record.submission),
        handshakes: record.handshakes,
        first_seen: time(record.first_ms),
        last_seen: time(record.last_ms),
    }
}

fn issuer_views(issuers: &[std::sync::Arc<lucarne_ct::Issuer>]) -> Vec<IssuerView> {
    issuers.iter().map(|issuer| issuer_view(issuer)).collect()
}

fn issuer_view(issuer: &lucarne_ct::Issuer) -> IssuerView {
    let parsed = Certificate::parse(&issuer.der);
    IssuerView {
        fingerprint: issuer.fingerprint.to_string(),
        subject: match parsed {
            Ok(issuer) => display_name(issuer.subject()),
            Err(error) => format!("not a certificate: {error}"),
        },
    }
}

fn sct(seen: &SeenSct, not_after: Option<i64>) -> SctView {
    let (sct, log) = (seen.sct.as_ref(), seen.log.as_deref());
    let interval = log.and_then(|log| log.temporal_interval.clone());
    let not_after = not_after.and_then(|time| u64::try_from(time).ok());
    let outside = interval
        .zip(not_after)
        .is_some_and(|(interval, time)| !interval.contains(&time));
    SctView {
        delivery: match seen.delivery {
            Delivery::Embedded => "embedded in the certificate",
            Delivery::Ocsp => "stapled OCSP response",
            Delivery::Tls => "TLS extension",
        },
        log: log.map(|log| log.description.clone()),
        operator: log.map(|log| log.operator.clone()),
        state: log
            .and_then(|log| log.state)
            .map(|state| state.status.name()),
        log_id: sct.map(|sct| sct.log_id.to_string()),
        timestamp: sct.map(|sct| time(sct.timestamp)),
        leaf_index: sct.and_then(|sct| sct.index()),
        finding: seen.finding.name(),
        valid: seen.finding == SctFinding::Valid,
        is_false: seen.finding.is_false(),
        text: seen.finding.text(),
        note: outside.then_some("expires outside the temporal interval of this log"),
    }
}

fn submission(submission: &Submission) -> Option<SubmissionView> {
    let (outcome, text, good, bad) = match submission {
        Submission::Not => return None,
        Submission::NotNeeded(log) => (
            "not-needed",
            format!("not needed: {log} has the certificate, according to the SCT above"),
            false,
            false,
        ),
        Submission::NoLog(why) => ("no-log", why.clone(), false, false),
        Submission::Waiting(None) => ("waiting", "waiting for its turn".to_owned(), false, false),
        Submission::Waiting(Some(why)) => {
            ("waiting", format!("will be retried: {why}"), false, false)
        }
        Submission::Refused(why) => ("refused", format!("refused: {why}"), false, true),
        Submission::Failed(why) => ("failed", why.clone(), false, true),
        Submission::Accepted { sct, verified } => {
            let taken = match sct.index() {
                Some(index) => format!("accepted at {}, index {index}", time(sct.timestamp)),
                None => format!("accepted at {}", time(sct.timestamp)),
            };
            match verified {
                Verified::By(key) => (
                    "accepted",
                    format!("{taken}; the SCT verifies by {key}"),
                    true,
                    false,
                ),
                Verified::No(why) => (
                    "accepted-invalid",
                    format!("{taken}, but the SCT is false: {why}"),
                    false,
                    true,
                ),
                Verified::UnknownKey => (
                    "accepted-unverified",
                    format!("{taken}; the SCT is not verified: its log is not on the log list"),
                    false,
                    false,
                ),
            }
        }
    };
    let sct = match submission {
        Submission::Accepted { sct, .. } => serde_json::from_slice(&sct.to_json()).ok(),
        _ => None,
    };
    Some(SubmissionView {
        outcome,
        text,
        sct,
        good,
        bad,
    })
}

fn is_past(time_ms: Option<i64>, now_ms: u64) -> bool {
    time_ms.is_some_and(|time| time < i64::try_from(now_ms).unwrap_or(i64::MAX))
}
