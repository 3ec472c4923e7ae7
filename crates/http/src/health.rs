//! `/health`: the state of every log.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use http::StatusCode;
use lucarne_log::{Log, State};
use lucarne_x509::now_ms;
use serde::Serialize;

use crate::cosigner::CosignerService;
use crate::mirror::MirrorService;
use crate::reply::{Response, plain, value};
use crate::served_certificate::{ServedCertificate, Validity, host, hosts};
use crate::site::Cosigners;
use crate::tls::Tls;
use crate::witness::WitnessService;

#[derive(Serialize)]
struct Report<'a> {
    status: &'static str,
    /// Checks of the process and its listeners, which all logs share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checks: Vec<Check>,
    logs: Vec<LogReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness: Option<WitnessReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<MirrorReport<'a>>,
}

#[derive(Serialize)]
struct MirrorReport<'a> {
    name: &'a str,
    healthy: bool,
    logs: Vec<CopyReport<'a>>,
}

/// The copy of a log.
#[derive(Serialize)]
struct CopyReport<'a> {
    origin: &'a str,
    healthy: bool,
    /// Entries of the mirror checkpoint.
    entries: u64,
    /// Entries that the log has, and the mirror checkpoint lacks.
    lag: u64,
    /// Unix time of the last cosignature.
    cosigned: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Serialize)]
struct WitnessReport<'a> {
    name: &'a str,
    healthy: bool,
    logs: usize,
    checks: Vec<Check>,
    /// The logs that have signed two histories. The witness is healthy, and refuses these logs only
    /// if they continue the other history.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    contradicted: Vec<OriginReport>,
}

#[derive(Serialize)]
struct OriginReport {
    origin: String,
    healthy: bool,
    detail: String,
}

#[derive(Serialize)]
struct LogReport<'a> {
    name: &'a str,
    healthy: bool,
    state: &'static str,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
}

/// Returns 200 if every log that should run is healthy, else 503. The body has the state and the
/// reasons. A retired log need not run, but must be readable.
pub(crate) async fn response<'a>(
    logs: impl Iterator<Item = &'a Log>,
    cosigners: &'a Cosigners,
    tls: Option<&Tls>,
    unapplied: Option<&'static str>,
) -> Response {
    let logs: Vec<_> = logs.collect();
    let certificate = tls.and_then(Tls::certificate);
    let checks = certificate
        .iter()
        .map(|certificate| check(certificate, &logs, cosigners));
    let checks: Vec<_> = checks.chain(unapplied.map(configuration)).collect();
    // All logs at the same time: a log with a hung disk does not delay the others.
    let logs = join_all(logs.into_iter().map(report)).await;
    let mirror = cosigners.mirror.as_deref().map(report_mirror);
    let witness = match cosigners.witness.as_deref() {
        Some(witness) => Some(report_witness(witness).await),
        None => None,
    };
    let healthy = logs.iter().all(|log| log.healthy)
        && witness.as_ref().is_none_or(|witness| witness.healthy)
        && mirror.as_ref().is_none_or(|mirror| mirror.healthy)
        && checks.iter().all(|check| check.ok);
    let (status, words) = if healthy {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "failing")
    };
    let report = Report {
        status: words,
        checks,
        logs,
        witness,
        mirror,
    };
    let json = serde_json::to_vec_pretty(&report).unwrap_or_default();
    plain(status, &value::JSON, &value::NO_STORE, json)
}

/// Reports a configuration file that is not applied. The process runs with its present settings, so
/// the check does not fail.
fn configuration(unapplied: &'static str) -> Check {
    Check {
        name: "configuration",
        ok: true,
        detail: unapplied.to_owned(),
    }
}

/// Checks the certificate. A certificate that clients refuse fails the check. A certificate that
/// should be renewed, or does not cover the host of a log, witness or mirror, is only reported,
/// because a proxy may serve another certificate.
fn check(certificate: &ServedCertificate, logs: &[&Log], cosigners: &Cosigners) -> Check {
    let now_ms = now_ms();
    let validity = certificate.validity(now_ms);
    let mut detail = certificate.describe(now_ms);
    let others = cosigners.services().map(CosignerService::served);
    let others = others.flat_map(|it| [&*it.submission_prefix, &*it.monitoring_prefix]);
    let others = others.filter_map(host);
    let hosts = logs
        .iter()
        .flat_map(|log| hosts(log.config()))
        .chain(others);
    let hosts: BTreeSet<_> = hosts.collect();
    for host in hosts.iter().filter(|host| !certificate.covers(host)) {
        detail.push_str(&format!("; it does not cover {host}"));
    }
    Check {
        name: "tls_certificate",
        ok: matches!(validity, Validity::Valid | Validity::Expiring),
        detail,
    }
}

async fn report(log: &Log) -> LogReport<'_> {
    // The state is read before the checks, so that the checks are never older than the state.
    let state = log.state();
    let health = log.health().await;
    LogReport {
        name: &log.config().shortname,
        healthy: health.ok(),
        state: state_name(&state),
        checks: health
            .checks
            .into_iter()
            .map(|check| Check {
                name: check.name,
                ok: check.ok,
                detail: log.public(&check.detail),
            })
            .collect(),
    }
}

fn report_mirror(service: &MirrorService) -> MirrorReport<'_> {
    let logs = service.mirror().logs().values().map(|log| {
        let published = log.published();
        let (entries, cosigned) = published.map_or((0, 0), |it| (it.size, it.time));
        let detail = service.failure(log);
        CopyReport {
            origin: log.origin(),
            healthy: detail.is_none(),
            entries,
            lag: log.seen().saturating_sub(entries),
            cosigned,
            detail,
        }
    });
    let mut logs: Vec<_> = logs.collect();
    logs.sort_by_key(|log| log.origin);
    MirrorReport {
        name: (service as &dyn CosignerService).name(),
        healthy: logs.iter().all(|log| log.healthy),
        logs,
    }
}

async fn report_witness(service: &WitnessService) -> WitnessReport<'_> {
    let failure = service.lock_failure().await;
    let mut checks = vec![Check {
        name: "lock",
        ok: failure.is_none(),
        detail: failure.unwrap_or_else(|| "writable".to_owned()),
    }];
    if let Some((origin, lag)) = service.behind() {
        checks.push(Check {
            name: "clock",
            ok: false,
            detail: format!("the clock is {lag} s behind the latest cosignature of {origin}"),
        });
    }
    let failed_lists = service.failed_lists();
    if !failed_lists.is_empty() {
        checks.push(Check {
            name: "log_lists",
            ok: true,
            detail: format!("{failed_lists}: the logs of the last successful read stay"),
        });
    }
    let contradicted = service
        .contradicted()
        .into_iter()
        .map(|found| OriginReport {
            detail: format!(
                "{} of its checkpoints contradict the cosigned one; the last one is at {}",
                found.number, found.evidence
            ),
            origin: found.origin,
            healthy: false,
        });
    WitnessReport {
        name: (service as &dyn CosignerService).name(),
        healthy: checks.iter().all(|check| check.ok),
        logs: service.witness().logs().origins().len(),
        checks,
        contradicted: contradicted.collect(),
    }
}

/// Returns the stable name of a state, as in `/health`, `stats.json` and the header `log-state`.
pub fn state_name(state: &State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Running => "running",
        State::Following { .. } => "following",
        State::Stopped { .. } => "stopped",
        State::Retired => "retired",
        State::Closed => "closed",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lucarne_cosign::{LogKeys, Witness};
    use lucarne_storage::MemoryLock;
    use prometheus_client::registry::Registry;

    use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions, Time};

    use super::*;

    #[tokio::test]
    async fn an_unapplied_configuration_is_reported_and_does_not_fail() {
        for (unapplied, reported) in [(None, false), (Some("edited"), true)] {
            let response =
                response(std::iter::empty(), &Cosigners::default(), None, unapplied).await;
            assert_eq!(response.status(), StatusCode::OK);
            let body = String::from_utf8_lossy(response.body().bytes()).into_owned();
            assert_eq!(body.contains("\"configuration\""), reported, "{body}");
        }
    }

    #[test]
    fn a_certificate_that_clients_refuse_fails() {
        let ca = Authority::root(&CaOptions::named("Root", KeyType::EcdsaP256)).unwrap();
        for (from, to, ok) in [
            (-1, 89, true),
            (-80, 10, true),
            (-90, -1, false),
            (1, 90, false),
        ] {
            let mut leaf = LeafOptions::for_names(["ct.example.com"]).unwrap();
            leaf.not_before = Time::now().plus_days(from);
            leaf.not_after = Time::now().plus_days(to);
            let served = ServedCertificate::read(ca.issue(&leaf).unwrap().into()).unwrap();
            let check = check(&served, &[], &Cosigners::default());
            assert_eq!(check.ok, ok, "{}", check.detail);
        }
    }

    #[test]
    fn a_certificate_without_the_host_of_the_witness_is_reported() {
        let ca = Authority::root(&CaOptions::named("Root", KeyType::EcdsaP256)).unwrap();
        let leaf = LeafOptions::for_names(["ct.example.com"]).unwrap();
        let served = ServedCertificate::read(ca.issue(&leaf).unwrap().into()).unwrap();
        let witness = Witness::new(
            lucarne_ct::witness_cosigners(&[5; 32], "w").unwrap(),
            LogKeys::default(),
            Arc::new(MemoryLock::new()),
        );
        let witness = WitnessService::new(
            Arc::new(witness.unwrap()),
            "https://ct.example.com/w/".to_owned(),
            "https://w.example.com:8443/".to_owned(),
            &mut Registry::default(),
        );
        let cosigners = Cosigners {
            witness: Some(witness),
            mirror: None,
        };
        let detail = check(&served, &[], &cosigners).detail;
        assert!(
            detail.ends_with("; it does not cover w.example.com"),
            "{detail}"
        );
    }
}
