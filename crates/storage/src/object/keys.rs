//! Keys of S3, found in the sources of the AWS tools.

use std::fmt;
use std::sync::Arc;

use object_store::aws::AwsCredentialProvider;

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

/// The source of the keys for the stores of a log: a profile, the environment, the default profile,
/// or the service that gives this machine its role.
#[derive(Debug)]
pub struct AwsKeySource(AwsCredentialProvider);

impl AwsKeySource {
    /// Finds the source for `profile`, or the first source that has keys.
    ///
    /// # Errors
    /// If the profile does not exist or has no keys.
    pub fn find(profile: Option<&str>) -> Result<Self, AssetError> {
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
        Ok(Self(client.credentials().clone()))
    }

    /// Returns the keys that are valid now. Keys of a role are renewed before they expire.
    ///
    /// # Errors
    /// If there are no keys.
    pub async fn keys(&self) -> Result<AwsKeys, AssetError> {
        let keys = self.0.get_credential().await;
        let keys = keys.map_err(|error| configuration(super::failure::detail(&error)))?;
        Ok(AwsKeys {
            access_key: keys.key_id.clone(),
            secret_key: keys.secret_key.clone(),
            session_token: keys.token.clone(),
        })
    }
}
