//! Requests that a log must refuse, sent at a low rate during the load. A log that accepts invalid
//! submissions is as faulty as a log that refuses valid submissions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64_simd::STANDARD;
use http::Method;
use lucarne_ct::{Certificate, EntryKind};
use lucarne_load::http::{Body, Client, Request, Response};
use lucarne_load::{Failure, Stop};
use lucarne_mint::{Authority, CaOptions, KeyType, MintError, Time};
use parking_lot::Mutex;

use super::authorities::{Authorities, probe_leaf};
use super::checks::{self, CheckSink};
use super::outage::Outage;
use super::target::Target;
use crate::retry_after::retry_after;

/// Total time for retries of throttled probes after the load.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of the time for all probes after the load.
const LONGEST_FINISH: Duration = Duration::from_secs(40);
/// Longest wait before a probe is repeated.
const LONGEST: Duration = Duration::from_secs(3);

/// A request with the expected response.
#[derive(Debug)]
struct Probe {
    check: &'static str,
    /// Description of the request in reports.
    what: &'static str,
    method: Method,
    path: String,
    body: Vec<u8>,
    /// Whether the path is below the submission prefix, and not the monitoring prefix.
    submission: bool,
    expected: ExpectedAnswer,
}

/// Expected response to a probe.
#[derive(Debug)]
enum ExpectedAnswer {
    /// Status 4xx.
    Refused,
    /// get-roots: status 200 and JSON that contains these certificates (base64).
    Roots(Vec<String>),
}

/// The reasons why a log does not pass a probe. The first four leave open whether the log refuses
/// the request; the others are wrong responses.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error("no response within {LONGEST_FINISH:.0?}")]
    Timeout,
    #[error("{}", .0.detail)]
    Unreachable(#[source] Failure),
    #[error("undecided after all retries, the last response: {}", .0.detail)]
    Undecided(#[source] Failure),
    #[error("undecided after all retries, the last response: status {0}")]
    Throttled(u16),
    #[error("accepted with status {0}")]
    Accepted(u16),
    #[error("expected status 4xx, found {0}")]
    NotRefused(u16),
    #[error("expected status 200, found {0}")]
    Status(u16),
    #[error("not the JSON of RFC 6962: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the list lacks a root whose chains the log accepts")]
    MissingRoot,
    #[error("entry {0} of the list is not the base64 of a certificate")]
    NotACertificate(usize),
    #[error("Content-Type: {0}, not application/json")]
    ContentType(String),
}

impl Probe {
    /// Records the result of a check of the response.
    fn report(&self, check: &'static str, outcome: Result<(), ProbeError>, sink: &dyn CheckSink) {
        let outcome = outcome.map_err(|error| format!("{}: {error}", self.what));
        sink.check(check, outcome);
    }
}

/// Probes of one log.
#[derive(Debug)]
pub(crate) struct Probes {
    probes: Vec<Probe>,
    /// Whether each probe has a result.
    judged: Mutex<Vec<bool>>,
    target: Target,
    outage: Arc<Outage>,
}

impl Probes {
    /// Creates the probes for a log that accepts chains of `authorities`.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub(crate) fn new(
        target: &Target,
        authorities: &Authorities,
        outage: Arc<Outage>,
    ) -> Result<Self, MintError> {
        let mut probes = submissions(target, authorities)?;
        probes.extend(paths(target));
        probes.push(Probe {
            expected: ExpectedAnswer::Roots(authorities.roots_base64()),
            ..get(
                target,
                checks::ROOTS_SERVED,
                "get-roots",
                "ct/v1/get-roots",
                true,
            )
        });
        Ok(Self {
            judged: Mutex::new(vec![false; probes.len()]),
            probes,
            target: target.clone(),
            outage,
        })
    }

    /// Sends the probes one after the other at `interval` until `stop`.
    pub(crate) async fn run(&self, interval: Duration, sink: &dyn CheckSink, stop: &Stop) {
        let mut clients = self.clients();
        for number in (0..self.probes.len()).cycle() {
            tokio::select! {
                () = stop.cancelled() => return,
                // The rate is low, because probes are not load.
                () = tokio::time::sleep(interval) => (),
            }
            let probe = &self.probes[number];
            let response = tokio::select! {
                response = self.send(probe, &mut clients) => response,
                // The probe is sent again after the load.
                () = stop.cancelled() => return,
            };
            if let Some(outcome) = self.judge(probe, &response) {
                self.judged.lock()[number] = true;
                probe.report(probe.check, outcome, sink);
                content_type(probe, &response, sink);
            }
        }
    }

    /// Sends the probes that have no result yet, so that every run checks all probes. Throttled
    /// probes are repeated. A probe that the log throttles to the end fails, because the log has
    /// not refused the probe.
    pub(crate) async fn finish(&self, sink: &dyn CheckSink) {
        let mut clients = self.clients();
        let left = self.judged.lock().clone();
        let (until, last) = (
            Instant::now() + RETRY_TIMEOUT,
            Instant::now() + LONGEST_FINISH,
        );
        for (probe, _) in self.probes.iter().zip(left).filter(|(_, judged)| !judged) {
            let insist = self.insist(probe, &mut clients, until, sink);
            let outcome = tokio::time::timeout_at(last.into(), insist).await;
            let outcome = outcome.unwrap_or(Err(ProbeError::Timeout));
            probe.report(probe.check, outcome, sink);
        }
    }

    async fn insist(
        &self,
        probe: &Probe,
        clients: &mut [Client; 2],
        until: Instant,
        sink: &dyn CheckSink,
    ) -> Result<(), ProbeError> {
        loop {
            let response = self.send(probe, clients).await;
            if let Some(outcome) = self.judge(probe, &response) {
                content_type(probe, &response, sink);
                return outcome;
            }
            let wait = retry_after(&response);
            let wait = wait.unwrap_or_default().clamp(LONGEST / 10, LONGEST);
            if Instant::now() + wait > until {
                response.exchange.outcome.map_err(ProbeError::Undecided)?;
                return Err(ProbeError::Throttled(response.status));
            }
            // Waits as long as the log requests, within limits.
            tokio::time::sleep(wait).await;
        }
    }

    /// Returns clients for the submission prefix and the monitoring prefix.
    fn clients(&self) -> [Client; 2] {
        let client = |endpoint, options| Client::new(Arc::clone(endpoint), Arc::clone(options));
        [
            client(&self.target.submission, &self.target.writer),
            client(&self.target.monitoring, &self.target.client),
        ]
    }

    async fn send(&self, probe: &Probe, clients: &mut [Client; 2]) -> Response {
        let [submission, monitoring] = clients;
        let client = if probe.submission {
            submission
        } else {
            monitoring
        };
        let headers = [("content-type", "application/json")];
        let mut request = Request::new(&probe.method, &probe.path);
        if probe.method == Method::POST {
            request = request.headers(&headers).body(Body::One(&probe.body));
        }
        client.send(&request).await
    }

    /// Returns the result of a probe; `None` if the log throttled the probe, or is being restarted.
    fn judge(&self, probe: &Probe, response: &Response) -> Option<Result<(), ProbeError>> {
        if let Err(failure) = &response.exchange.outcome {
            let away = self.outage.expected();
            return (!away).then(|| Err(ProbeError::Unreachable(failure.clone())));
        }
        let away = self.outage.expected() && matches!(response.status, 502 | 504);
        if matches!(response.status, 429 | 503) || away {
            return None;
        }
        Some(match (&probe.expected, response.status) {
            (ExpectedAnswer::Refused, 400..=499) => Ok(()),
            (ExpectedAnswer::Refused, status @ 200..=299) => Err(ProbeError::Accepted(status)),
            (ExpectedAnswer::Refused, status) => Err(ProbeError::NotRefused(status)),
            (ExpectedAnswer::Roots(ours), 200) => roots(ours, &response.body),
            (ExpectedAnswer::Roots(_), status) => Err(ProbeError::Status(status)),
        })
    }
}

/// Checks the media type of get-roots, which no specification states.
fn content_type(probe: &Probe, response: &Response, sink: &dyn CheckSink) {
    if !matches!(probe.expected, ExpectedAnswer::Roots(_)) || response.status != 200 {
        return;
    }
    let kind = response.headers.get("content-type").unwrap_or("nothing");
    let outcome = if kind.to_ascii_lowercase().starts_with("application/json") {
        Ok(())
    } else {
        Err(ProbeError::ContentType(kind.to_owned()))
    };
    probe.report(checks::ROOTS_CONTENT_TYPE, outcome, sink);
}

/// Checks get-roots (RFC 6962, section 4.7).
fn roots(ours: &[String], body: &[u8]) -> Result<(), ProbeError> {
    #[derive(serde::Deserialize)]
    struct Answer {
        certificates: Vec<String>,
    }
    let served = serde_json::from_slice::<Answer>(body)?.certificates;
    if !ours.iter().all(|root| served.contains(root)) {
        return Err(ProbeError::MissingRoot);
    }
    let is_certificate = |entry: &String| {
        let der = STANDARD.decode_to_vec(entry);
        der.is_ok_and(|der| Certificate::parse(&der).is_ok())
    };
    match served.iter().position(|entry| !is_certificate(entry)) {
        None => Ok(()),
        Some(index) => Err(ProbeError::NotACertificate(index)),
    }
}

/// Returns the submissions that a log must refuse.
fn submissions(target: &Target, authorities: &Authorities) -> Result<Vec<Probe>, MintError> {
    let path = |op: &str| format!("{}/ct/v1/{op}", target.submission.prefix);
    let post = |check, what, op: &str, body: Vec<u8>| Probe {
        check,
        what,
        method: Method::POST,
        path: path(op),
        body,
        submission: true,
        expected: ExpectedAnswer::Refused,
    };
    let (chain, pre_chain) = ("add-chain", "add-pre-chain");
    let now = Time::now().unix();
    let (within, _) = target.temporal_interval.not_after(now, 30);
    let good = |kind| authorities.probe(kind, within);
    let mut probes = vec![
        post(
            checks::REFUSED_WRONG_ENDPOINT,
            "a precertificate on add-chain",
            chain,
            good(EntryKind::Precert)?,
        ),
        post(
            checks::REFUSED_WRONG_ENDPOINT,
            "a certificate without poison on add-pre-chain",
            pre_chain,
            good(EntryKind::X509)?,
        ),
        post(
            checks::REFUSED_UNKNOWN_ROOT,
            "a chain to an unknown root",
            chain,
            stranger(within)?,
        ),
        post(
            checks::REFUSED_BAD_SIGNATURE,
            "a certificate whose signature does not verify",
            chain,
            authorities.forged(within)?,
        ),
    ];
    let outside = [
        (
            target.temporal_interval.end,
            "a notAfter at the end of the window",
            0,
        ),
        (
            target.temporal_interval.start,
            "a notAfter before the window",
            -1,
        ),
    ];
    for (edge, what, seconds) in outside {
        let Some(edge) = edge else { continue };
        let not_after = edge + seconds;
        for (kind, op) in [(EntryKind::X509, chain), (EntryKind::Precert, pre_chain)] {
            let body = authorities.probe(kind, not_after)?;
            probes.push(post(checks::REFUSED_OUTSIDE_WINDOW, what, op, body));
        }
    }
    for (what, body) in [
        ("truncated JSON", "{\"chain\":[\"MIIB"),
        ("JSON without a chain", "{}"),
        ("an empty chain", "{\"chain\":[]}"),
        ("a chain that is not base64", "{\"chain\":[\"%%%\"]}"),
        (
            "a chain without a valid certificate",
            "{\"chain\":[\"AAAA\"]}",
        ),
        ("an empty body", ""),
    ] {
        probes.push(post(checks::REFUSED_MALFORMED, what, chain, body.into()));
    }
    Ok(probes)
}

/// Returns a chain to an unknown root, with an otherwise valid leaf.
fn stranger(not_after: i64) -> Result<Vec<u8>, MintError> {
    let root = CaOptions::named("Lucarne Load Unknown Root", KeyType::EcdsaP256);
    let root = Authority::root(&root)?;
    let leaf = root.issue(&probe_leaf(not_after)?)?;
    Ok(root.full_chain(leaf).to_json().into_bytes())
}

/// Returns requests for unknown paths.
fn paths(target: &Target) -> Vec<Probe> {
    let check = checks::REFUSED_UNKNOWN_PATH;
    vec![
        get(
            target,
            check,
            "an unknown endpoint",
            "ct/v1/add-chains",
            true,
        ),
        get(target, check, "GET of add-chain", "ct/v1/add-chain", true),
        get(target, check, "an unknown file", "no-such-file", false),
        get(
            target,
            check,
            "a tile beyond the tree",
            "tile/0/x999/x999/999",
            false,
        ),
        get(
            target,
            check,
            "a tile without entries",
            "tile/0/x999/x999/999.p/0",
            false,
        ),
        get(
            target,
            check,
            "an issuer that no entry names",
            "issuer/0000000000000000000000000000000000000000000000000000000000000000",
            false,
        ),
    ]
}

fn get(
    target: &Target,
    check: &'static str,
    what: &'static str,
    path: &str,
    submission: bool,
) -> Probe {
    let endpoint = if submission {
        &target.submission
    } else {
        &target.monitoring
    };
    Probe {
        check,
        what,
        method: Method::GET,
        path: format!("{}/{path}", endpoint.prefix),
        body: Vec::new(),
        submission,
        expected: ExpectedAnswer::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_not_a_certificate_is_named() {
        let root = Authority::root(&CaOptions::named("Root", KeyType::EcdsaP256)).unwrap();
        let root = STANDARD.encode_to_string(root.cert_der());
        let checked = |entries: &[&str]| {
            let body = serde_json::json!({ "certificates": entries }).to_string();
            roots(std::slice::from_ref(&root), body.as_bytes()).map_err(|error| error.to_string())
        };
        assert_eq!(checked(&[&root]), Ok(()));
        for wrong in ["", "%", "AAAA"] {
            let error = checked(&[&root, wrong]).unwrap_err();
            assert_eq!(
                error,
                "entry 1 of the list is not the base64 of a certificate"
            );
        }
        assert!(checked(&[]).unwrap_err().contains("lacks a root"));
    }
}
