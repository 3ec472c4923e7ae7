//! Keys of S3, found in the sources of the AWS tools.

use std::fmt;
use std::sync::Arc;

use super::config::{RequestPolicy, S3, configuration};
use super::http::Connector;
use crate::AssetError;

/// Keys that sign requests to S3. `Debug` output hides the secret parts.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
    /// Token of temporary keys.
    pub session_token: Option<String>,
}

impl fmt::Debug for AwsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AwsKeys({}, …)", self.access_key)
    }
}

/// Finds keys in the same places as the stores of a log: `profile`, the environment, the default
/// profile, or the service that gives this machine its role.
///
/// # Errors
/// An error if no keys are found, or if the profile does not exist.
pub async fn aws_keys(profile: Option<&str>) -> Result<AwsKeys, AssetError> {
    let place = S3 {
        bucket: "none".into(),
        profile: profile.map(str::to_owned),
        ..S3::default()
    };
    let policy = RequestPolicy::hasty();
    let connector = Connector {
        policy,
        stats: Arc::default(),
        accept_gzip: false,
    };
    let (client, _) = place.client(connector, policy.retry())?;
    let keys = client.credentials().get_credential().await;
    let keys = keys.map_err(|error| configuration(super::failure::detail(&error)))?;
    Ok(AwsKeys {
        access_key: keys.key_id.clone(),
        secret_key: keys.secret_key.clone(),
        session_token: keys.token.clone(),
    })
}
