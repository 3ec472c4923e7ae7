//! What any client may ask, without an account.

use std::time::Duration;

use lucarne_load::Iteration;

use super::call::{Caller, Failed, problem};
use super::order::{self, RenewalInfo};
use super::step::Step;

/// To a renewal id of no certificate servers differ, and both are right.
const NO_SUCH: [u16; 2] = [400, 404];

/// Directory, new nonce, renewal information of a synthetic id; `think` in
/// between.
pub(super) async fn probe(
    caller: &mut Caller,
    iteration: &mut Iteration,
    mut think: impl FnMut() -> Duration,
) -> Result<(), Failed> {
    let directory = caller.directory(iteration).await?;
    // A person's, or a slow client's.
    tokio::time::sleep(think()).await;
    caller.new_nonce(iteration, &directory).await?;
    // The same, before the next request.
    tokio::time::sleep(think()).await;
    let id = caller.shared.options.synthetic_id.clone();
    let Some(at) = renewal_path(caller, iteration, directory.renewal_info.as_deref(), &id)? else {
        return Ok(());
    };
    let response = caller
        .get(iteration, Step::RenewalInfo, &at, &NO_SUCH)
        .await?;
    let outcome = problem(&response);
    caller.judge(
        iteration,
        Step::RenewalInfo,
        "problem_document",
        response,
        outcome,
    )
}

/// Renewal information of a certificate (RFC 9773 4.1).
pub(super) async fn renewal_info(
    caller: &mut Caller,
    iteration: &mut Iteration,
    at: Option<&str>,
    id: &str,
) -> Result<(), Failed> {
    let Some(at) = renewal_path(caller, iteration, at, id)? else {
        return Ok(());
    };
    let response = caller
        .get(iteration, Step::RenewalInfo, &at, &[200])
        .await?;
    let outcome = order::read::<RenewalInfo>(&response, "renewal information");
    let outcome = outcome.and_then(|info| info.check());
    caller.judge(
        iteration,
        Step::RenewalInfo,
        "renewal_info",
        response,
        outcome,
    )
}

/// Where to ask about a certificate. A server without renewal information is
/// told of as a failed check.
fn renewal_path(
    caller: &Caller,
    iteration: &mut Iteration,
    at: Option<&str>,
    id: &str,
) -> Result<Option<String>, Failed> {
    let Some(at) = at else {
        let words = Err("the directory has no renewalInfo".to_owned());
        iteration.check(
            caller.tags(Step::RenewalInfo),
            "renewal_info_offered",
            words,
        );
        return Ok(None);
    };
    let path = caller.path(iteration, at)?.trim_end_matches('/');
    Ok(Some(format!("{path}/{id}")))
}
