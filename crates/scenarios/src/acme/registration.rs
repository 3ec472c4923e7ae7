//! Registration of an account (RFC 8555, section 7.3).

use lucarne_load::Iteration;
use lucarne_load::http::Response;
use serde::Deserialize;
use serde_json::json;

use super::account::Account;
use super::client::{AcmeClient, Failed, Post, fail};
use super::directory::{Directory, UrlError, path};
use super::jws::{AccountKey, Signer};
use super::order::{self, DocumentError, OrderStatus};
use super::step::Step;

#[derive(Deserialize)]
struct AccountResponse {
    status: OrderStatus,
}

/// The reasons why a new account cannot be used.
#[derive(Debug, thiserror::Error)]
enum AccountError {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("the response with the new account has no Location")]
    NoLocation,
    #[error(transparent)]
    Location(#[from] UrlError),
    #[error("expected the status Valid for the new account, found {0:?}")]
    Status(OrderStatus),
}

/// Registers a new account.
pub(super) async fn register(
    client: &mut AcmeClient,
    iteration: &mut Iteration,
    directory: &Directory,
) -> Result<Account, Failed> {
    let key = AccountKey::generate();
    let key = key.map_err(|error| fail(iteration, "signing", error))?;
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
    let outcome = created(&response, &client.shared.origin);
    let url = client.document(iteration, Step::NewAccount, "account", response, outcome)?;
    Ok(Account { key, url })
}

/// Returns the URL of a new account.
fn created(response: &Response, origin: &str) -> Result<String, AccountError> {
    let account = order::read::<AccountResponse>(response, "account")?;
    let url = response.headers.get("location");
    let url = url.ok_or(AccountError::NoLocation)?;
    path(url, origin)?;
    match account.status {
        OrderStatus::Valid => Ok(url.to_owned()),
        other => Err(AccountError::Status(other)),
    }
}
