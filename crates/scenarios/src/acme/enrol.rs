//! A complete enrolment.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use lucarne_load::Iteration;
use lucarne_load::http::Response;
use lucarne_mint::{KeyPair, certification_request, now_ms};
use rustls::pki_types::UnixTime;
use serde_json::json;

use super::account::Account;
use super::certificate::{self, CertificateError, IssuedCertificate};
use super::client::{AcmeClient, Failed, Post, fail};
use super::directory::{Directory, path};
use super::jws::encode;
use super::media_type;
use super::order::{self, Authorization, Order, OrderError, OrderStatus};
use super::ordered::Ordered;
use super::problem::{Problem, ProblemError};
use super::step::Step;

/// CRLReason superseded (RFC 5280, section 5.3.1).
const SUPERSEDED: u8 = 4;

/// The reasons why a certificate does not count as revoked after its revocation.
#[derive(Debug, thiserror::Error)]
enum RevocationError {
    #[error("expected alreadyRevoked for the second revocation, found {0}")]
    Refused(Problem),
    #[error("the server accepted a second revocation with status {0}: the first had no effect")]
    Accepted(u16),
    #[error(transparent)]
    Unexplained(#[from] ProblemError),
}

/// Name of the check that the server has validated each name.
pub(super) const VALIDATED: &str = "validated";

/// The reasons why a name was not validated. The first order has new names, so that no
/// earlier validation can count.
#[derive(Debug, thiserror::Error)]
enum ValidationError {
    #[error("the authorization of {0} is valid, but the server has not requested its challenge")]
    NotRequested(String),
    #[error("the new authorization of {0} is valid before any validation")]
    ValidBefore(String),
    #[error("the new order is ready before the validation of {0}")]
    ReadyBefore(String),
}

/// An enrolment.
pub(super) struct Enrolment<'a> {
    pub(super) client: &'a mut AcmeClient,
    pub(super) directory: &'a Directory,
    pub(super) account: &'a Account,
    pub(super) names: &'a [String],
    /// Key of the certificate.
    pub(super) key: &'a KeyPair,
    /// Sum of the waits before the polls that found an object finished. The server's share of these
    /// waits is unknown, so the waits are excluded from all durations.
    pub(super) idle: Duration,
    /// Whether the server has validated the names for an earlier order, so that their
    /// authorizations may still be valid.
    pub(super) names_validated: bool,
}

impl Enrolment<'_> {
    /// Orders and downloads a certificate, which may replace another certificate.
    pub(super) async fn certificate(
        &mut self,
        iteration: &mut Iteration,
        replaces: Option<&IssuedCertificate>,
    ) -> Result<IssuedCertificate, Failed> {
        let begun = Instant::now();
        self.idle = Duration::ZERO;
        let ordered = Ordered {
            names: self.names,
            replaces: replaces.map(|replaced| replaced.renewal_id.as_str()),
        };
        let (at, order) = self.order(iteration, &ordered).await?;
        for url in &order.authorizations {
            self.authorize(iteration, url, &ordered, order.status)
                .await?;
        }
        self.names_validated = true;
        if order.status == OrderStatus::Pending {
            self.ready(iteration, &at, &ordered).await?;
        }
        let certificate = self
            .finalize(iteration, &at, &order.finalize, &ordered)
            .await?;
        let issued = self.download(iteration, &certificate).await?;
        let tags = self.client.tags(Step::Certificate);
        iteration.trend(tags, "acme_enrolment_duration", self.since(begun));
        iteration.count(tags, "acme_certificates", 1);
        Ok(issued)
    }

    /// Creates an order (RFC 8555, section 7.4; RFC 9773, section 5).
    async fn order(
        &mut self,
        iteration: &mut Iteration,
        ordered: &Ordered<'_>,
    ) -> Result<(String, Order), Failed> {
        let identifiers = self.names.iter();
        let identifiers = identifiers.map(|name| json!({ "type": "dns", "value": name }));
        let mut payload = json!({ "identifiers": identifiers.collect::<Vec<_>>() });
        let mut step = Step::NewOrder;
        if let Some(replaced) = ordered.replaces {
            payload["replaces"] = replaced.into();
            step = Step::ReplaceOrder;
        }
        let post = Post {
            expected: &[201],
            ..Post::new(
                step,
                self.account,
                &self.directory.new_order,
                payload.to_string(),
            )
        };
        let response = self.client.post(iteration, self.directory, post).await?;
        let outcome = created(&response, &self.client.shared.origin);
        let client = &self.client;
        let (at, order) = client.document(iteration, step, "order", response, outcome)?;
        client.require(
            iteration,
            (step, "order"),
            ordered.compare(&order, now_ms()),
        )?;
        Ok((at, order))
    }

    /// Proves control of one name (RFC 8555, section 7.5). `order` is the status of the new order.
    async fn authorize(
        &mut self,
        iteration: &mut Iteration,
        url: &str,
        ordered: &Ordered<'_>,
        order: OrderStatus,
    ) -> Result<(), Failed> {
        let authorization = self
            .authorization(iteration, Step::Authorization, url, ordered)
            .await?
            .1;
        let name = authorization.identifier.value.as_str();
        let early = match (authorization.status, order) {
            (OrderStatus::Valid, _) if self.names_validated => return Ok(()),
            (OrderStatus::Valid, _) => Some(ValidationError::ValidBefore(name.to_owned())),
            (_, OrderStatus::Ready) => Some(ValidationError::ReadyBefore(name.to_owned())),
            _ => None,
        };
        if let Some(error) = early {
            return self.validated(iteration, Err(error));
        }
        let shared = self.client.shared.clone();
        let kind = shared.options.challenge.name();
        let Some(challenge) = authorization.challenge(kind) else {
            let words = format!("{name} has no challenge of the type {kind}");
            return Err(fail(iteration, "challenge", words));
        };
        let answer = self.account.key.authorize(&challenge.token);
        let expected = shared.responder.expect(name, &challenge.token, &answer);
        expected.map_err(|error| fail(iteration, "challenge", error))?;
        let begun = Instant::now();
        let proven = self.prove(iteration, url, &challenge.url, ordered).await;
        let requested = shared.responder.forget(name, &challenge.token);
        let idle = proven?;
        self.idle += idle;
        let tags = self.client.tags(Step::Challenge);
        let took = begun.elapsed().saturating_sub(idle);
        iteration.trend(tags, "acme_validation_duration", took);
        let outcome = if requested {
            Ok(())
        } else {
            Err(ValidationError::NotRequested(name.to_owned()))
        };
        self.validated(iteration, outcome)
    }

    /// Records the check that the server has validated a name.
    fn validated(
        &self,
        iteration: &mut Iteration,
        outcome: Result<(), ValidationError>,
    ) -> Result<(), Failed> {
        let finding = [(VALIDATED, outcome)];
        self.client
            .require(iteration, (Step::Validation, "challenge"), finding)
    }

    /// Returns the time since `begun` without the idle waits.
    fn since(&self, begun: Instant) -> Duration {
        begun.elapsed().saturating_sub(self.idle)
    }

    /// Starts the validation of the challenge and waits for its result. Returns the wait before the
    /// poll that found the result.
    async fn prove(
        &mut self,
        iteration: &mut Iteration,
        url: &str,
        challenge: &str,
        ordered: &Ordered<'_>,
    ) -> Result<Duration, Failed> {
        let post = Post::new(Step::Challenge, self.account, challenge, "{}".to_owned());
        let response = self.client.post(iteration, self.directory, post).await?;
        let mut wait = self.client.first_look(&response);
        let outcome = order::read::<order::Challenge>(&response, "challenge").map(|_| ());
        self.client
            .document(iteration, Step::Challenge, "challenge", response, outcome)?;
        let deadline = self.deadline();
        loop {
            // Gives the server time to validate.
            wait = look_again(wait, deadline).await;
            let (next, now) = self
                .authorization(iteration, Step::Validation, url, ordered)
                .await?;
            match now.status {
                OrderStatus::Valid => return Ok(wait),
                status if status.is_open() && Instant::now() < deadline => wait = next,
                status => {
                    let words = format!("the authorisation is {status:?}: {}", now.reason());
                    return Err(fail(iteration, "challenge", words));
                }
            }
        }
    }

    /// Returns the current state of an authorisation, and the wait before the next poll.
    async fn authorization(
        &mut self,
        iteration: &mut Iteration,
        step: Step,
        url: &str,
        ordered: &Ordered<'_>,
    ) -> Result<(Duration, Authorization), Failed> {
        let post = Post::as_get(step, self.account, url);
        let response = self.client.post(iteration, self.directory, post).await?;
        let wait = self.client.next_look(&response);
        let outcome = order::read::<Authorization>(&response, "authorization");
        let client = &self.client;
        let authorization = client.document(iteration, step, "authorization", response, outcome)?;
        let findings = ordered.compare_authorization(&authorization, now_ms());
        client.require(iteration, (step, "order"), findings)?;
        Ok((wait, authorization))
    }

    /// Waits until the order is ready for its finalization (RFC 8555, section 7.4).
    async fn ready(
        &mut self,
        iteration: &mut Iteration,
        at: &str,
        ordered: &Ordered<'_>,
    ) -> Result<(), Failed> {
        let pending = |status| status == OrderStatus::Pending;
        let begun = (Step::Readiness, Duration::ZERO);
        let (idle, order) = self.poll(iteration, at, ordered, begun, pending).await?;
        self.idle += idle;
        match order.status {
            OrderStatus::Ready => Ok(()),
            _ => Err(unusable(iteration, "ready", &order)),
        }
    }

    /// Polls an order until `waiting` is false for its status, or until the patience ends. Returns
    /// the order, and the wait before the last poll. The first poll is after the given wait.
    async fn poll(
        &mut self,
        iteration: &mut Iteration,
        at: &str,
        ordered: &Ordered<'_>,
        (step, mut wait): (Step, Duration),
        waiting: fn(OrderStatus) -> bool,
    ) -> Result<(Duration, Order), Failed> {
        let deadline = self.deadline();
        loop {
            // Gives the server time to validate or to issue.
            wait = look_again(wait, deadline).await;
            let post = Post::as_get(step, self.account, at);
            let response = self.client.post(iteration, self.directory, post).await?;
            let next = self.client.next_look(&response);
            let order = self.order_in(iteration, step, response, ordered)?;
            if !waiting(order.status) || Instant::now() >= deadline {
                return Ok((wait, order));
            }
            wait = next;
        }
    }

    /// Sends the certification request and waits for the certificate (RFC 8555, section 7.4).
    /// Returns the URL of the certificate.
    async fn finalize(
        &mut self,
        iteration: &mut Iteration,
        at: &str,
        finalize: &str,
        ordered: &Ordered<'_>,
    ) -> Result<String, Failed> {
        let request = certification_request(self.key, self.names);
        let request = request.map_err(|error| fail(iteration, "signing", error))?;
        let payload = json!({ "csr": encode(&request) }).to_string();
        let begun = Instant::now();
        let post = Post::new(Step::Finalize, self.account, finalize, payload);
        let response = self.client.post(iteration, self.directory, post).await?;
        let wait = (Step::Issuance, self.client.first_look(&response));
        let mut order = self.order_in(iteration, Step::Finalize, response, ordered)?;
        let mut idle = Duration::ZERO;
        if order.status.is_open() {
            let open = OrderStatus::is_open;
            (idle, order) = self.poll(iteration, at, ordered, wait, open).await?;
        }
        let issued = order.status == OrderStatus::Valid;
        let Some(url) = order.certificate.clone().filter(|_| issued) else {
            return Err(unusable(iteration, "valid, with a certificate", &order));
        };
        let tags = self.client.tags(Step::Finalize);
        self.idle += idle;
        let took = begun.elapsed().saturating_sub(idle);
        iteration.trend(tags, "acme_issuance_duration", took);
        Ok(url)
    }

    fn order_in(
        &self,
        iteration: &mut Iteration,
        step: Step,
        response: Response,
        ordered: &Ordered<'_>,
    ) -> Result<Order, Failed> {
        let outcome = order::read::<Order>(&response, "order");
        let client = &self.client;
        let order = client.document(iteration, step, "order", response, outcome)?;
        let findings = ordered.compare(&order, now_ms());
        client.require(iteration, (step, "order"), findings)?;
        Ok(order)
    }

    /// Downloads the certificate and checks it (RFC 8555, section 7.4.2).
    async fn download(
        &mut self,
        iteration: &mut Iteration,
        url: &str,
    ) -> Result<IssuedCertificate, Failed> {
        let post = Post::as_get(Step::Certificate, self.account, url);
        let response = self.client.post(iteration, self.directory, post).await?;
        let tags = self.client.tags(Step::Certificate);
        let kind = media_type::check(response.headers.get("content-type"), media_type::CHAIN);
        iteration.check(tags, "certificate_type", kind);
        let chain = certificate::read_pem(&response.body);
        let outcome = chain.map_err(CertificateError::from).and_then(|chain| {
            let renewal_id = certificate::renewal_id(&chain[0]);
            let renewal_id = renewal_id.ok_or(CertificateError::NoAuthorityKey)?;
            Ok((chain, renewal_id))
        });
        let (chain, renewal_id) = self.client.judge(
            iteration,
            Step::Certificate,
            "certificate",
            response,
            outcome,
        )?;
        let findings = certificate::check(&chain, self.names, self.key.spki(), UnixTime::now());
        let step = (Step::Certificate, "certificate");
        self.client.require(iteration, step, findings)?;
        Ok(IssuedCertificate {
            leaf: chain[0].to_vec(),
            renewal_id,
        })
    }

    /// Revokes the replaced certificate (RFC 8555, section 7.6).
    pub(super) async fn revoke(
        &mut self,
        iteration: &mut Iteration,
        replaced: &IssuedCertificate,
    ) -> Result<(), Failed> {
        let payload = json!({ "certificate": encode(&replaced.leaf), "reason": SUPERSEDED });
        let url = &self.directory.revoke_cert;
        let post = Post::new(Step::Revocation, self.account, url, payload.to_string());
        let response = self.client.post(iteration, self.directory, post).await?;
        let outcome = Ok::<_, Infallible>(());
        self.client
            .judge(iteration, Step::Revocation, "revocation", response, outcome)?;
        self.confirm_revocation(iteration, payload.to_string())
            .await
    }

    /// Repeats the revocation, which a server refuses after it has revoked the certificate (RFC
    /// 8555, section 7.6).
    async fn confirm_revocation(
        &mut self,
        iteration: &mut Iteration,
        payload: String,
    ) -> Result<(), Failed> {
        let url = &self.directory.revoke_cert;
        let post = Post {
            expected: &[200, 400],
            ..Post::new(Step::Revocation, self.account, url, payload)
        };
        let response = self.client.post(iteration, self.directory, post).await?;
        let outcome = match Problem::read(&response) {
            Ok(problem) if problem.is("alreadyRevoked") => Ok(()),
            Ok(problem) => Err(RevocationError::Refused(problem)),
            Err(_) if response.status == 200 => Err(RevocationError::Accepted(response.status)),
            Err(error) => Err(error.into()),
        };
        self.client
            .judge(iteration, Step::Revocation, "revoked", response, outcome)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.client.shared.options.patience.0
    }
}

/// Waits before a poll, at most until the deadline: the server must not extend the time limit by
/// its Retry-After. Returns the length of the wait.
async fn look_again(wait: Duration, deadline: Instant) -> Duration {
    let wait = wait.min(deadline.saturating_duration_since(Instant::now()));
    tokio::time::sleep(wait).await;
    wait
}

/// Records that an order has not reached the expected status.
fn unusable(iteration: &mut Iteration, expected: &str, order: &Order) -> Failed {
    let (status, error) = (order.status, &order.error);
    let words =
        format!("expected an order that is {expected}; it is {status:?}, its error is {error:?}");
    fail(iteration, "order", words)
}

/// Returns a new order with its URL.
fn created(response: &Response, origin: &str) -> Result<(String, Order), OrderError> {
    let order = order::read::<Order>(response, "order")?;
    let url = response.headers.get("location");
    let url = url.ok_or(OrderError::NoLocation)?;
    path(url, origin)?;
    let is_new = matches!(order.status, OrderStatus::Pending | OrderStatus::Ready);
    if is_new && !order.authorizations.is_empty() {
        Ok((url.to_owned(), order))
    } else {
        Err(OrderError::Status {
            status: order.status,
            excerpt: response.excerpt(),
        })
    }
}
