//! Registration of an account (RFC 8555, section 7.3).

use lucarne_load::{Failure, Iteration};
use serde::Deserialize;
use serde_json::json;

use super::account::Account;
use super::client::{AcmeClient, Failed, Post, fail};
use super::directory::{Directory, path};
use super::jws::{AccountKey, Signer};
use super::order::{self, OrderStatus};
use super::step::Step;

#[derive(Deserialize)]
struct AccountResponse {
    status: OrderStatus,
}

/// Registers a new account.
pub(super) async fn register(
    client: &mut AcmeClient,
    iteration: &mut Iteration,
    directory: &Directory,
) -> Result<Account, Failed> {
    let key = AccountKey::generate();
    let key = key.map_err(|error| fail(iteration, Failure::new("signing", error.to_string())))?;
    let contact = &client.shared.options.contact;
    let contact = contact.as_ref().filter(|contact| !contact.is_empty());
    let mut payload = json!({ "termsOfServiceAgreed": true });
    if let Some(contact) = contact {
        payload["contact"] = json!([format!("mailto:{contact}")]);
    }
    let post = Post {
        step: Step::NewAccount,
        url: &directory.new_account,
        key: &key,
        signer: Signer::New,
        payload: payload.to_string(),
        expected: &[201],
    };
    let response = client.post(iteration, directory, post).await?;
    let outcome = order::read::<AccountResponse>(&response, "account").and_then(|said| {
        let url = response.headers.get("location");
        let url = url.ok_or("the account has no Location")?;
        path(url, &client.shared.origin)?;
        match said.status {
            OrderStatus::Valid => Ok(url.to_owned()),
            other => Err(format!("the new account has the status {other:?}")),
        }
    });
    let url = client.judge(iteration, Step::NewAccount, "account", response, outcome)?;
    Ok(Account { key, url })
}
