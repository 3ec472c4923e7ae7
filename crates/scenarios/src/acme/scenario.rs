use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::http::{Client, Endpoint, Request};
use lucarne_load::{OwnMetrics, PrepareError, Recorder, Scenario, Stop, VirtualUser};

use super::client::AcmeClient;
use super::enrol::VALIDATED;
use super::options::{AcmeOptions, ChallengeType};
use super::probe::RENEWAL_INFO_RETRY_AFTER;
use super::shared_state::SharedState;
use super::step::StepTags;
use super::user::AcmeUser;
use crate::connection_options::wrong;
use crate::framing;
use crate::preparing::{self, Retries};
use crate::rest::Header;

/// Builds the scenario from `options`, with `seed` for its random choices.
///
/// # Errors
/// If the options are invalid.
pub fn build(options: AcmeOptions, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    let headers = options.headers.iter();
    let headers = headers.map(|Header(name, value)| (name.as_str(), Some(value.as_str())));
    framing::check(headers, None).map_err(|error| wrong(error.to_string()))?;
    Ok(Arc::new(Acme(Arc::new(SharedState::new(options, seed)?))))
}

/// Names of all checks.
const CHECKS: &[&str] = &[
    "account",
    "authorization",
    "certificate",
    "certificate_chain",
    "certificate_key",
    "certificate_names",
    "certificate_type",
    "challenge",
    "directory",
    "enrolled",
    "json_type",
    "order",
    "order_expires",
    "order_identifiers",
    "order_replaces",
    "problem_document",
    "renewal_info",
    "renewal_info_offered",
    RENEWAL_INFO_RETRY_AFTER,
    "replay_nonce",
    "revocation",
    "revoked",
    VALIDATED,
];

struct Acme(Arc<SharedState>);

#[async_trait]
impl Scenario for Acme {
    fn metrics(&self) -> Option<OwnMetrics> {
        Some(&[
            ("acme_bad_nonce", "counter"),
            ("acme_certificates", "counter"),
            ("acme_enrolled", "rate"),
            ("acme_enrolment_duration", "trend"),
            ("acme_issuance_duration", "trend"),
            ("acme_rate_limited", "counter"),
            ("acme_server_errors", "rate"),
            ("acme_validation_duration", "trend"),
        ])
    }

    async fn prepare(&self) -> Result<(), PrepareError> {
        let shared = &self.0;
        let endpoint = Endpoint::resolve(&shared.origin, &shared.client).await?;
        // Responses are judged under load; only the reachability is checked in advance.
        let mut client = Client::new(endpoint.clone(), shared.client.clone());
        let headers = shared.headers(None);
        let request = Request::get(&shared.directory_path).headers(&headers);
        let response = preparing::send(&mut client, &request, Retries::Brief).await;
        if let (0, Err(failure)) = (response.status, &response.exchange.outcome) {
            let url = &shared.options.directory;
            return Err(PrepareError::of_request(url, failure));
        }
        client.close();
        if shared.enrols() {
            let address = match shared.options.challenge {
                ChallengeType::Http01 => shared.options.http01_listen,
                ChallengeType::TlsAlpn01 => shared.options.tls_alpn01_listen,
            };
            shared.responder.listen(address).await?;
        }
        let _ = shared.endpoint.set(endpoint);
        Ok(())
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        let shared = self.0.clone();
        // `prepare` has set the endpoint.
        let endpoint = shared
            .endpoint
            .get()
            .cloned()
            .unwrap_or_else(|| unreachable!("users come after `prepare`"));
        let client = Client::new(endpoint, shared.client.clone());
        let client = AcmeClient::new(shared.clone(), client, StepTags::new(recorder));
        Box::new(AcmeUser::new(shared, number, client))
    }

    fn purpose(&self) -> &'static str {
        if self.0.enrols() {
            "a certificate"
        } else {
            "a response"
        }
    }

    fn checks(&self) -> Option<Vec<&'static str>> {
        Some(CHECKS.to_vec())
    }

    fn warnings(&self) -> &'static [&'static str] {
        &[RENEWAL_INFO_RETRY_AFTER]
    }

    async fn background(&self, _: Recorder, stop: Stop) {
        self.0.responder.clone().serve(stop).await;
    }
}
