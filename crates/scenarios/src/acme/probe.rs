//! Requests that any client may send without an account.

use std::time::Duration;

use lucarne_load::Iteration;

use super::client::{AcmeClient, Failed, problem};
use super::order::{self, RenewalInfo, RenewalInfoError};
use super::step::Step;

/// Name of the check that renewal information has a Retry-After (RFC 9773, section 4.3.2).
pub(super) const RENEWAL_INFO_RETRY_AFTER: &str = "renewal_info_retry_after";

/// Statuses for an unknown renewal id: servers differ, and both are right.
const NO_SUCH: [u16; 2] = [400, 404];

/// Requests the directory, a new nonce, and the renewal information of a synthetic id, with pauses
/// of `think`.
pub(super) async fn probe(
    client: &mut AcmeClient,
    iteration: &mut Iteration,
    mut think: impl FnMut() -> Duration,
) -> Result<(), Failed> {
    let directory = client.directory(iteration).await?;
    // Pauses as a person or a slow client would.
    iteration.pause(think()).await;
    client.new_nonce(iteration, &directory).await?;
    iteration.pause(think()).await;
    let id = client.shared.options.synthetic_id.clone();
    let Some(at) = renewal_path(client, iteration, directory.renewal_info.as_deref(), &id)? else {
        return Ok(());
    };
    let response = client
        .get(iteration, Step::RenewalInfo, &at, &NO_SUCH)
        .await?;
    let outcome = problem(&response);
    client.judge(
        iteration,
        Step::RenewalInfo,
        "problem_document",
        response,
        outcome,
    )
}

/// Requests the renewal information of a certificate (RFC 9773, section 4.1).
pub(super) async fn renewal_info(
    client: &mut AcmeClient,
    iteration: &mut Iteration,
    at: Option<&str>,
    id: &str,
) -> Result<(), Failed> {
    let Some(at) = renewal_path(client, iteration, at, id)? else {
        return Ok(());
    };
    let response = client
        .get(iteration, Step::RenewalInfo, &at, &[200])
        .await?;
    let tags = client.tags(Step::RenewalInfo);
    let told = match response.headers.get("retry-after") {
        Some(_) => Ok(()),
        None => Err(RenewalInfoError::NoRetryAfter),
    };
    iteration.check(tags, RENEWAL_INFO_RETRY_AFTER, told);
    let info = order::read::<RenewalInfo>(&response, "renewal information");
    let outcome = info.map_err(Into::into).and_then(|info| info.check());
    client.document(
        iteration,
        Step::RenewalInfo,
        "renewal_info",
        response,
        outcome,
    )
}

/// Returns the path of a certificate's renewal information. Fails a check if the server does not
/// offer renewal information.
fn renewal_path(
    client: &AcmeClient,
    iteration: &mut Iteration,
    at: Option<&str>,
    id: &str,
) -> Result<Option<String>, Failed> {
    let Some(at) = at else {
        let words = Err(RenewalInfoError::NotOffered.to_string());
        iteration.check(
            client.tags(Step::RenewalInfo),
            "renewal_info_offered",
            words,
        );
        return Ok(None);
    };
    let path = client.path(iteration, at)?.trim_end_matches('/');
    Ok(Some(format!("{path}/{id}")))
}
