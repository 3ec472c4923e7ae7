//! Keys of S3, found in the sources of the AWS tools: a profile, the environment, or a service.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fmt};

use object_store::aws::AwsCredentialProvider;

use super::config::{RequestPolicy, S3, configuration};
use super::failure;
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
        let keys = keys.map_err(|error| configuration(failure::detail(&error)))?;
        Ok(AwsKeys {
            access_key: keys.key_id.clone(),
            secret_key: keys.secret_key.clone(),
            session_token: keys.token.clone(),
        })
    }
}

/// A profile of the AWS tools, in `~/.aws/credentials` and `~/.aws/config`: its stored keys and its
/// region. Credentials that must be requested (single sign-on, roles to assume, processes) are left
/// to the AWS tools: `aws configure export-credentials` puts them into the environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) region: Option<String>,
    pub(super) keys: Option<AwsKeys>,
}

/// If one of these variables is set, the environment decides, unless a profile is named.
const FIRST: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// The reasons why a profile provides no keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    #[error(
        "profile `{asked}` not found in {}, or in the file `config` next to it",
        file.display()
    )]
    Absent { asked: String, file: PathBuf },
    #[error(
        "the profile `{0}` has no aws_access_key_id and aws_secret_access_key. For \
         credentials from elsewhere (single sign-on, a role) set the environment variables of: \
         `aws configure export-credentials --profile {0} --format env`"
    )]
    NoKeys(String),
}

impl Profile {
    /// Returns the profile of this name, or the default profile of the environment.
    ///
    /// # Errors
    /// If a requested profile does not exist or has no keys.
    pub(super) fn find(name: Option<&str>) -> Result<Option<Self>, ProfileError> {
        let named = |variable: &str| env::var(variable).ok().filter(|value| !value.is_empty());
        if name.is_none() && FIRST.iter().any(|variable| named(variable).is_some()) {
            return Ok(None);
        }
        let asked = name.map(str::to_owned).or_else(|| named("AWS_PROFILE"));
        let home = named("HOME").map(|home| PathBuf::from(home).join(".aws"));
        let file = |variable: &str, name: &str| {
            let place = named(variable).map(PathBuf::from);
            place.or_else(|| Some(home.as_ref()?.join(name)))
        };
        let read = |place: Option<PathBuf>| match place.map(|place| std::fs::read_to_string(&place))
        {
            Some(Ok(text)) => text,
            _ => String::new(),
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let shown = credentials.clone().unwrap_or_default();
        let config = read(file("AWS_CONFIG_FILE", "config"));
        let found = Self::parse(
            &read(credentials),
            &config,
            asked.as_deref().unwrap_or("default"),
        );
        match (found, asked) {
            (None, Some(asked)) => Err(ProfileError::Absent { asked, file: shown }),
            (Some(found), Some(asked)) if found.keys.is_none() => Err(ProfileError::NoKeys(asked)),
            (found, _) => Ok(found.filter(|found| found.keys.is_some())),
        }
    }

    fn parse(credentials: &str, config: &str, name: &str) -> Option<Self> {
        // In `config`, all profiles except the default are called `profile NAME`.
        let long = format!("profile {name}");
        let mut settings = section(config, &long).or_else(|| section(config, name));
        let keys = section(credentials, name);
        if let Some(keys) = keys {
            settings.get_or_insert_default().extend(keys);
        }
        let settings = settings?;
        let get = |key: &str| settings.get(key).map(|value| (*value).to_owned());
        let pair = get("aws_access_key_id").zip(get("aws_secret_access_key"));
        Some(Self {
            region: get("region"),
            keys: pair.map(|(access_key, secret_key)| AwsKeys {
                access_key,
                secret_key,
                session_token: get("aws_session_token"),
            }),
        })
    }
}

/// Returns the settings under `[name]`.
fn section<'t>(text: &'t str, name: &str) -> Option<HashMap<&'t str, &'t str>> {
    let mut found: Option<HashMap<_, _>> = None;
    let mut inside = false;
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or_default();
        let plain = line.trim();
        if plain.starts_with(['#', ';']) {
            continue;
        }
        if let Some(title) = plain.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            inside = title.split_whitespace().eq(name.split_whitespace());
            if inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some((key, value))) = (inside, plain.split_once('=')) {
            // Indented lines belong to the setting above them.
            if !line.starts_with([' ', '\t']) {
                found
                    .get_or_insert_default()
                    .insert(key.trim(), value.trim());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "# ours\n[default]\naws_access_key_id = A\n\
         aws_secret_access_key=s=1\n\n[ct]\naws_access_key_id = B # key\n\
         aws_secret_access_key = t\naws_session_token = u\n";
    const CONFIG: &str = "[default]\nregion = eu\ns3 =\n  region = no\n[profile ct]\n\
         region=us\n[profile sso]\nsso_session = x\n";

    fn parsed(name: &str) -> Option<Profile> {
        Profile::parse(CREDENTIALS, CONFIG, name)
    }

    #[test]
    fn profiles_join_keys_and_region() {
        let found = parsed("default").unwrap();
        assert_eq!(found.region.as_deref(), Some("eu"));
        assert_eq!(found.keys.unwrap().secret_key, "s=1");
        let found = parsed("ct").unwrap();
        assert_eq!(found.region.as_deref(), Some("us"));
        let keys = found.keys.unwrap();
        assert_eq!(
            (keys.access_key.as_str(), keys.session_token.as_deref()),
            ("B", Some("u"))
        );
        assert_eq!(format!("{keys:?}"), "AwsKeys(B, …)");
        assert_eq!(parsed("sso").unwrap().keys, None);
        assert_eq!(parsed("none"), None);
    }
}
