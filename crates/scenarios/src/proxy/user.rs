use std::sync::Arc;

use async_trait::async_trait;
use http::Method;
use lucarne_load::http::{Keep, Request, Response, kind};
use lucarne_load::{Failure, Iteration, Tags, VirtualUser};

use super::certificates::CertificateFindings;
use super::shared_state::SharedState;
use crate::connection_options::list;

/// Kind of failure: a check of the certificate failed.
const CERTIFICATE: &str = "certificate";
/// Check: the response has an expected status.
pub(super) const STATUS: &str = "status";
/// Trend: time until the response to CONNECT.
const TUNNEL: &str = "proxy_connect_duration";
/// Counter: certificates that were not seen before.
const CERTIFICATES: &str = "proxy_certificates";

/// A user. Every request opens a new connection.
pub(super) struct ProxyUser {
    shared: Arc<SharedState>,
    tags: Tags,
}

impl ProxyUser {
    pub(super) fn new(shared: Arc<SharedState>, tags: Tags) -> Self {
        Self { shared, tags }
    }
}

#[async_trait]
impl VirtualUser for ProxyUser {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let (shared, tags) = (&self.shared, self.tags);
        let Some((tunnel, certificates)) = shared.ready() else {
            return;
        };
        let number = (iteration.number() % shared.hosts.len() as u64) as usize;
        let host = &shared.hosts[number];
        let options = &shared.options;
        let address = options.address.as_deref().filter(|given| !given.is_empty());
        let request = Request::new(&Method::GET, &options.path).keep(Keep::Start);
        let asked = tunnel.send(host, options.port, address, &request);
        let mut answer = iteration
            .pending(tags, tunnel.protocol())
            .until(asked)
            .await;
        if let Some(time) = answer.tunnel {
            iteration.trend(tags, TUNNEL, time);
        }
        let mut wrong = None;
        if let Some(handshake) = answer.response.handshake.take() {
            let seen = certificates.see(number, host, &handshake.certificates);
            wrong = judge(&seen, tags, iteration);
        }
        let response = &mut answer.response;
        if response.exchange.outcome.is_ok() {
            let status = self.status(host, response, iteration);
            if let Some(failure) = wrong.or(status) {
                response.exchange.outcome = Err(failure);
            }
        }
        iteration.request(tags, &response.exchange);
    }
}

/// Records the findings about the certificate. Returns the first failure.
fn judge(seen: &CertificateFindings, tags: Tags, iteration: &Iteration) -> Option<Failure> {
    if seen.new {
        iteration.count(tags, CERTIFICATES, 1);
    }
    let mut wrong = None;
    for (check, outcome) in &*seen.findings {
        if let (Err(how), None) = (outcome, &wrong)
            && !iteration.excuses(check)
        {
            wrong = Some(Failure::new(CERTIFICATE, format!("{check}: {how}")));
        }
        iteration.check(tags, check, outcome.as_ref().copied());
    }
    wrong
}

impl ProxyUser {
    fn status(&self, host: &str, response: &Response, iteration: &Iteration) -> Option<Failure> {
        let (status, expect) = (response.status, &self.shared.expect);
        let outcome = if expect.iter().any(|it| it.contain(status)) {
            Ok(())
        } else {
            Err(format!(
                "{host}: expected status {}, found {status}",
                list(expect)
            ))
        };
        iteration.check(self.tags, STATUS, outcome.clone());
        let outcome = outcome.err().filter(|_| !iteration.excuses(STATUS));
        outcome.map(|how| Failure::new(kind::STATUS, how))
    }
}
